"""The conf/ tree: its groups, their options and fields, from names and comments: quick, without Hydra."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Sequence
from functools import lru_cache
from pathlib import Path

from dgpbench.config import expand
from dgpbench.config.plugins import place
from dgpbench.errors import UserError

FIELD = re.compile(r"^(?P<indent> *)(?P<name>\w+):(?: +(?P<value>[^#\n]*?))?(?: +# (?P<text>.*))?$")
ENVIRONMENT = re.compile(r"\$\{oc\.env:\w+,(\w+)\}")  # shown as the value without the variable
ENTRY_POINTS = {  # of installed packages, and the group of conf/ that each adds to
    "dgpbench.models": "model",
    "dgpbench.datasets": "dataset",
    "dgpbench.inference": "inference",
    "dgpbench.trackers": "tracker",
}
FAMILIES = {  # names that mean the default member of a family, by group
    "model": {"cvae": "cvae_50", "dgp": "dgp2"},
    "inference": {"ngd": "ngd_adam"},
    "dataset": {"mf": "mf_sine"},
}


def member(group: str, name: str, known: Collection[str] = ()) -> str:
    """Return the option that a name means: the default member of a family, else the name itself.

    Names in `known`, such as options of the user's own, mean themselves.
    """
    return name if name in known else FAMILIES.get(group, {}).get(name, name)


def conf_dir() -> Path:
    """conf/ inside the installed package, or beside it in an editable install or a bare clone."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def config_folders(config_dirs: Sequence[str | Path] = ()) -> list[Path]:
    """The built-in tree, those of installed packages, then the user's; none may shadow a built-in option."""
    folders = [conf_dir()]
    for given in (*plugin_folders(), *config_dirs):
        folder = Path(given).expanduser().resolve()
        if not folder.is_dir():
            raise UserError(f"--config-dir {given} is no folder; give one that holds model/, dataset/, ...")
        for group in groups([conf_dir()]):
            for name in sorted(set(options(group, [conf_dir()])) & set(options(group, [folder]))):
                raise UserError(f"{group} {name} in {given} is named like a built-in {group}; rename it")
        folders.append(folder)
    return folders


@lru_cache(maxsize=1)
def plugin_folders() -> tuple[Path, ...]:
    """Return the conf/ folders of installed packages, found by entry points without importing the packages.

    `"dgpbench.models"` with `theirs = "their_package"` offers their_package/conf/model/theirs.yaml as
    `model=theirs`. A package without that file is ignored with a warning.
    """
    from importlib.metadata import entry_points

    found: dict[Path, None] = {}
    for entry_group, group in ENTRY_POINTS.items():
        for entry in sorted(entry_points(group=entry_group), key=lambda entry: (entry.name, entry.value)):
            base = place(entry.value)
            folder = base / "conf" if base else None
            if folder is not None and (folder / group / f"{entry.name}.yaml").is_file():
                found[folder] = None
            else:
                text = f"entry point {entry_group}: {entry.name} = {entry.value}"
                where = f"{entry.value.replace('.', '/')}/conf/{group}/{entry.name}.yaml"
                print(f"warning: {text} is left out: no file {where}", file=sys.stderr)
    return tuple(found)


def groups(folders: Sequence[Path] | None = None) -> list[str]:
    """Config groups in the order of config.yaml's defaults list, then a user's own."""
    folders = folders or [conf_dir(), *plugin_folders()]
    found = {p.name for folder in folders for p in folder.iterdir() if p.is_dir() and any(p.glob("*.yaml"))}
    many = {group for group, name in expand.FOLDERS.items() if name in found}
    found = (found | many) - set(expand.FOLDERS.values())
    order = default_groups()
    return [g for g in order if g in found] + sorted(found - set(order))


@lru_cache(maxsize=1)
def default_options() -> dict[str, str]:
    """The option that each group of config.yaml's defaults list has where none is named."""
    text = (conf_dir() / "config.yaml").read_text(encoding="utf-8")
    return dict(re.findall(r"^  - (\w+): (\w+)", text, re.M))


def default_groups() -> list[str]:
    """Groups of which every config has one option: those in config.yaml's defaults list."""
    return list(default_options())


def options(group: str, folders: Sequence[Path] | None = None) -> dict[str, Path]:
    """Options of a group and the file each stands in, its own or one with many; a file whose name begins with
    an underscore is a part of others and not listed."""
    found: dict[str, Path] = {}
    for folder in folders or [conf_dir(), *plugin_folders()]:
        for path in expand.files(group, folder):
            found |= dict.fromkeys(expand.names(path, default_groups()), path)
        found |= {p.stem: p for p in (folder / group).glob("*.yaml") if not p.stem.startswith("_")}
    return dict(sorted(found.items()))


def setting_of(word: str) -> str | None:
    """Return 'model=dgp2' for 'dgp2': the choice that a name alone may mean, or None."""
    for group in default_groups():
        if word.lower() in options(group):
            return f"{group}={word.lower()}"
    return None


def read_option(name: str, path: Path) -> dict:
    """An option as it stands in its file, given by `options`: nothing is composed or resolved."""
    if path.parent.name in expand.FOLDERS.values():
        return expand.load(path, default_groups())[name].node
    return expand.read(path)


def explanation(name: str, path: Path) -> str:
    """The title of an option that stands in a file with many; else the comment that opens its own file (after
    Hydra's own `# @package` line), or its title field."""
    if path.parent.name in expand.FOLDERS.values():
        return expand.load(path, default_groups())[name].about
    with path.open(encoding="utf-8") as file:
        lines = [line.strip() for line in file if not line.startswith("# @")]
    if lines and lines[0].startswith("#"):
        return lines[0].lstrip("# ")
    return next((line[6:].strip().strip("'\"") for line in lines if line.startswith("title:")), "")


def fields(path: Path, prefix: str = "") -> list[tuple[str, str, str]]:
    """(dotted name, value as written, comment) of the fields in one file."""
    rows: list[tuple[str, str, str]] = []
    parents: list[str] = []
    in_defaults = False
    for line in path.read_text(encoding="utf-8").splitlines():
        match = FIELD.match(line)
        if not match:
            continue
        depth = len(match["indent"]) // 2
        in_defaults = match["name"] == "defaults" if depth == 0 else in_defaults
        if in_defaults or match["name"] == "_target_":
            continue
        parents[depth:] = [match["name"]]
        if match["value"]:
            value = ENVIRONMENT.sub(r"\1", match["value"].strip())
            rows.append((prefix + ".".join(parents), value, match["text"] or ""))
    return rows


def main_fields() -> list[tuple[str, str, str]]:
    """The fields a user may set, with their defaults, whatever the choice in each group."""
    root = conf_dir()
    shared = ("protocol", "_base"), ("model", "_gp"), ("inference", "_base"), ("budget", "default")
    rows = fields(root / "config.yaml")
    for group, stem in (*shared, ("budget", "_base")):
        if group == "model":
            default = fields(root / "model" / "dgp2.yaml", "model.")
            rows += [row for row in default if row[0] == "model.layers"]
        rows += fields(root / group / f"{stem}.yaml", f"{group}.")
    chosen = {name: value for name, value, _ in fields(root / "inference" / "fast.yaml", "inference.")}
    chosen |= {name: value for name, value, _ in fields(root / "budget" / "standard.yaml", "budget.")}
    rows = [(name, chosen.get(name, value), text) for name, value, text in rows]
    return [row for row in rows if row[0] not in ("experiment", "tuned", "paths.config_dirs", "budget.name")]
