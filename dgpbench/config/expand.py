"""Options that stand many to a file: datasets in catalogue/ and experiments in papers/, of conf/ or a user's.

A catalogue has `sets` by name, and `shared`: the fields of every set that does not give its own. In its texts
{name} is the name of the set and {_x} its field _x, which fills such places and is no field of the dataset.

A paper has `experiments` by name, each with a title and settings as on the command line (`model: dgp2`,
`inference.batch: 256`); a name that holds {axis} means one experiment for each value of that axis. Settings
of an axis value win over those of the experiment, and these over those of `base`, which all share.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from dgpbench.errors import UserError

FOLDERS = {"dataset": "catalogue", "experiment": "papers"}  # of each group
PLACE = re.compile(r"\{(\w+)\}")
SET = re.compile(r"^  (['\"]?)([\w.-]+)\1:", re.M)
AFTER = re.compile(r"^[^\s#]", re.M)  # another key after the sets: the file is parsed for their names
NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+\Z")  # 1e-5: text to YAML, a number to us


class Option(NamedTuple):
    """One option: what `--help` says of it, and its config as Hydra would read it from a file of its own."""

    about: str
    node: dict[str, Any]


def files(group: str, folder: Path) -> list[Path]:
    """Files of `folder` that hold many options of the group."""
    return sorted((folder / FOLDERS[group]).glob("*.yaml")) if group in FOLDERS else []


def names(path: Path, groups: Collection[str]) -> list[str]:
    """Names of the options in a file; those of a catalogue are found without parsing it."""
    return _names(path, tuple(groups), *_version(path))


def load(path: Path, groups: Collection[str]) -> dict[str, Option]:
    """Options of a file by name; `groups` are the names that choose a file where they are set in a paper."""
    return _load(path, tuple(groups), *_version(path))


def _version(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size


@lru_cache(maxsize=64)
def _names(path: Path, groups: tuple[str, ...], *_version: int) -> list[str]:
    if path.parent.name == FOLDERS["dataset"]:
        _, _, sets = path.read_text(encoding="utf-8").partition("\nsets:\n")
        found = [match[2] for match in SET.finditer(sets)]
        if found and not AFTER.search(sets):
            return found
    return list(load(path, groups))


@lru_cache(maxsize=64)
def _load(path: Path, groups: tuple[str, ...], *_version: int) -> dict[str, Option]:
    tree = _mapping(read(path), str(path))
    if path.parent.name == FOLDERS["dataset"]:
        return dict(_sets(tree, str(path)))
    return dict(_experiments(tree, groups, str(path)))


def read(path: Path) -> Any:
    """A yaml file as plain data, with numbers and dates as OmegaConf reads them."""
    import yaml

    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_loader())  # noqa: S506 (a safe loader)
    except yaml.YAMLError as error:
        raise UserError(f"{path} cannot be read as yaml: {' '.join(str(error).split())}") from None


@lru_cache(maxsize=1)
def _loader() -> type:
    """The quick safe loader where there is one: 1e-5 is a number, 2008-01-01 is text."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        yaml_implicit_resolvers = {
            first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
            for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    Loader.add_implicit_resolver("tag:yaml.org,2002:float", NUMBER, list("-+0123456789."))
    return Loader


def _sets(tree: dict, where: str) -> Iterator[tuple[str, Option]]:
    shared = _mapping(tree.get("shared"), f"{where}: shared")
    for name, own in _mapping(tree.get("sets"), f"{where}: sets").items():
        merged = {"name": name, **shared, **_mapping(own, f"{where}: {name}")}
        words = {"name": name} | {key: merged.pop(key) for key in list(merged) if key.startswith("_")}
        node = _filled(merged, words, f"{where}: {name}")
        yield name, Option(str(node.get("title", "")), node)


def _experiments(tree: dict, groups: tuple[str, ...], where: str) -> Iterator[tuple[str, Option]]:
    base = _mapping(tree.get("base"), f"{where}: base")
    axes = _mapping(tree.get("axes"), f"{where}: axes")
    for template, own in _mapping(tree.get("experiments"), f"{where}: experiments").items():
        settings = base | _mapping(own, f"{where}: {template}")
        title = settings.pop("title", "")
        used = PLACE.findall(template)
        for axis in used:
            if axis not in axes:
                known = ", ".join(axes) or "none"
                raise UserError(f"{where}: {template} names the axis {axis}, which is not in axes: {known}")
        for chosen in product(*(_mapping(axes[axis], f"{where}: {axis}").items() for axis in used)):
            name = _filled(template, dict(zip(used, (value for value, _ in chosen), strict=True)), where)
            texts, point = {}, dict(settings)
            for axis, (value, parts) in zip(used, chosen, strict=True):
                parts = _mapping(parts, f"{where}: {axis}: {value}")
                texts[axis] = parts.get("text", value)
                point |= {key: part for key, part in parts.items() if key != "text"}
            yield name, Option(_filled(title, texts, f"{where}: {template}"), _node(name, point, groups))


def _node(name: str, settings: dict[str, Any], groups: tuple[str, ...]) -> dict[str, Any]:
    """Settings as Hydra reads them: groups into the defaults list, dotted fields nested."""
    choices = [{f"override /{key}": value} for key, value in settings.items() if key in groups]
    node: dict[str, Any] = {"defaults": choices, "experiment": name}
    for key, value in settings.items():
        if key not in groups:
            *parents, leaf = key.split(".")
            section = node
            for parent in parents:
                section = section.setdefault(parent, {})
            section[leaf] = value
    return node


def _filled(value: Any, words: dict[str, Any], where: str) -> Any:
    """`value` with {word} replaced in its texts; a text that is one {word} only becomes that word's value."""
    if isinstance(value, dict):
        return {key: _filled(part, words, where) for key, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, words, where) for part in value]
    if not isinstance(value, str):
        return value
    for word in PLACE.findall(value):
        if word not in words:
            raise UserError(f"{where}: {{{word}}} has no value; there is {', '.join(words) or 'none'}")
    alone = PLACE.fullmatch(value)
    return words[alone[1]] if alone else PLACE.sub(lambda match: str(words[match[1]]), value)


def _mapping(value: Any, where: str) -> dict:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise UserError(f"{where} must be a mapping with texts as keys; quote a key that is a number")
    return value
