"""What a run was, in words: its differences from the defaults, and the command that repeats it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from shlex import quote
from typing import Any

from dgpbench.config.keys import LATER_DEFAULTS, settings
from dgpbench.config.schema import show_value
from dgpbench.config.sections import flatten
from dgpbench.config.tree import conf_dir, default_options, options, read_option
from dgpbench.errors import UserError

GROUPS = ("model", "inference", "protocol")
NOT_OF_THE_FILE = ("dataset.name", "dataset.title", "dataset.traps", "dataset.path")
MACHINE = ("device", "threads")
BY_STEPS = (  # settings that follow from budget.steps unless they are given
    *("budget.growth", "inference.burn_in", "inference.thinning", "inference.start.steps", "model.kept"),
)


def dataset_label(record: dict) -> str:
    """Return the dataset's name: of a user's own file its file name, of OpenML's datasets with the number."""
    dataset, name = record["config"].get("dataset", {}), record["dataset"]
    if name == "csv" and isinstance(path := dataset.get("path"), str):
        return Path(path).name
    return f"openml {dataset['id']}" if name == "openml" and type(dataset.get("id")) is int else name


def differences(record: dict, config_dirs: Sequence[str] = ()) -> list[str]:
    """Overrides by which the record's config differs from the defaults of its model, inference and protocol.

    A run of an experiment names it, followed by its deviations. Fields that the record lacks are not told.
    The user's own options are looked for in `config_dirs` and where the run had them from.
    """
    if record["experiment"]:
        deviations = (text.partition(" (")[0] for text in record["deviations"])
        return [f"experiment={record['experiment']}", *deviations, *_of_dataset(record["config"])]
    config = record["config"]
    ours = _settings(config)
    folders = _folders(config, config_dirs)
    words = [word for word, _ in _choices(record, folders)]
    theirs = _defaults(tuple(words), folders)
    found = _differing(ours, theirs)
    if ours.get("budget.steps") and any(name in found for name in BY_STEPS):
        steps = f"budget.steps={ours.get('budget.steps')}"
        told = _differing(ours, _defaults((*words, steps), folders))
        if not any(name.startswith("budget.") for name in told):
            found = told | {"budget.steps": ours["budget.steps"]}
    if sum(name.startswith("budget.") for name in found) > 1:
        found = _with_named_budget(found, ours, config["budget"].get("name"), words, folders)
    return [*_of_dataset(config), *(_word(name, value) for name, value in sorted(found.items()))]


def _with_named_budget(
    found: dict[str, Any],
    ours: dict[str, Any],
    name: str | None,
    words: Sequence[str],
    folders: tuple[str, ...],
) -> dict[str, Any]:
    """Return `found` with budget=NAME instead of its fields where they are those of that option."""
    known = options("budget", [conf_dir(), *map(Path, folders)])
    told = _differing(ours, _defaults((*words, f"budget={name}"), folders)) if name in known else found
    return found if any(n.startswith("budget.") for n in told) else told | {"budget": name}


def _differing(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in ours.items()
        if name not in MACHINE and value != theirs.get(name, LATER_DEFAULTS.get(name))
    }


def command(record: dict) -> str:
    """The command that repeats a run."""
    config = record["config"]
    words = ["dgpbench", "run", f"dataset={record['dataset']}"]
    if isinstance(path := config["dataset"].get("path"), str):
        words.append(f"dataset.path={path}")
    if not record["experiment"]:
        words += [word for word, default in _choices(record, _folders(config)) if not default]
    words += [*differences(record), f"split={record['split']}"]
    words += [f"seed={record['seed']}"] if record["seed"] else []
    for folder in config.get("paths", {}).get("config_dirs") or ():
        words += ["--config-dir", folder]
    return " ".join(map(quote, words))


def _folders(config: dict, more: Sequence[str] = ()) -> tuple[str, ...]:
    """Folders of the user's own options that are still there."""
    given = (*more, *(config.get("paths", {}).get("config_dirs") or ()))
    found = {Path(folder).expanduser().resolve() for folder in given if Path(folder).expanduser().is_dir()}
    return tuple(map(str, sorted(found)))


def _choices(record: dict, folders: Sequence[str]) -> list[tuple[str, bool]]:
    """The groups' options that the record names, and whether each is what its model would take anyway."""
    known = {group: options(group, [conf_dir(), *map(Path, folders)]) for group in GROUPS}
    chosen = [(group, record[group]) for group in GROUPS if record[group] in known[group]]
    usual = default_options()
    return [(f"{group}={name}", group != "model" and usual[group] == name) for group, name in chosen]


def _settings(config: dict) -> dict[str, Any]:
    try:
        found = settings(config)
    except KeyError:  # a config of another kind: as it stands
        found = flatten({k: v for k, v in config.items() if k in (*GROUPS, "budget", "precision")})
    return {name: value for name, value in found.items() if not name.startswith("dataset.")}


@lru_cache(maxsize=256)
def _defaults(words: tuple[str, ...], config_dirs: tuple[str, ...]) -> dict[str, Any]:
    """Settings that the options alone give; those of the built-in options where the user's are not here."""
    from dgpbench.config import compose

    for known, folders in ((words, config_dirs), (words, ()), (words[1:], ()), ((), ())):
        try:
            return _settings(compose(list(known), folders))
        except UserError:
            continue
    return {}


def _of_dataset(config: dict) -> list[str]:
    """Fields of the dataset that are not as in its file."""
    given = config.get("dataset", {})
    path = options("dataset").get(given.get("name"))
    theirs = read_option(given["name"], path) if path else given
    return [
        _word(f"dataset.{name}", value)
        for name, value in sorted(given.items())
        if f"dataset.{name}" not in NOT_OF_THE_FILE and name in theirs and value != theirs[name]
    ]


def _word(name: str, value: Any) -> str:
    return f"{name.removesuffix('.name') if name == 'likelihood.name' else name}={show_value(value)}"
