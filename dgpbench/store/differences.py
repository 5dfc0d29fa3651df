"""Describe a run: its differences from the defaults, and the command that repeats it."""

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
from dgpbench.store.record import Record

GROUPS = ("model", "inference", "protocol")
NOT_OF_THE_FILE = ("dataset.name", "dataset.title", "dataset.traps", "dataset.path")
MACHINE = ("device", "threads")
BY_STEPS = (  # settings that follow from budget.steps unless they are given
    *("budget.growth", "inference.burn_in", "inference.thinning", "inference.start.steps", "model.kept"),
)


def dataset_label(config: dict) -> str:
    """Return the dataset's name; of a user's own file the file name, of OpenML's datasets with the number."""
    dataset = config["dataset"]
    name, path, number = dataset["name"], dataset.get("path"), dataset.get("id")
    if name == "csv" and isinstance(path, str):
        return Path(path).name
    return f"openml {number}" if name == "openml" and type(number) is int else name


def differences(record: Record, config_dirs: Sequence[str] = ()) -> list[str]:
    """Return the overrides by which a run differs from the defaults of its model, inference and protocol.

    A run of an experiment names it, followed by its deviations. The user's own options are looked for in
    `config_dirs` and where the run had them from.
    """
    if record.experiment:
        deviations = (text.partition(" (")[0] for text in record.deviations)
        return [f"experiment={record.experiment}", *deviations, *_dataset_changes(record.config)]
    return config_differences(record.config, config_dirs)


def config_differences(config: dict, config_dirs: Sequence[str] = ()) -> list[str]:
    """Return the overrides by which a config differs from the defaults; fields that it lacks are ignored."""
    values = _settings(config)
    folders = _folders(config, config_dirs)
    words = [word for word, _ in _choices(config, folders)]
    found = _changes(values, _defaults(tuple(words), folders))
    if values.get("budget.steps") and any(name in found for name in BY_STEPS):
        steps = f"budget.steps={values.get('budget.steps')}"
        shorter = _changes(values, _defaults((*words, steps), folders))
        if not any(name.startswith("budget.") for name in shorter):
            found = shorter | {"budget.steps": values["budget.steps"]}
    if sum(name.startswith("budget.") for name in found) > 1:
        found = _with_named_budget(found, values, config["budget"].get("name"), words, folders)
    return [*_dataset_changes(config), *(_word(name, value) for name, value in sorted(found.items()))]


def _with_named_budget(
    found: dict[str, Any],
    values: dict[str, Any],
    name: str | None,
    words: Sequence[str],
    folders: tuple[str, ...],
) -> dict[str, Any]:
    """Return `found` with budget=NAME instead of its fields where they are those of that option."""
    known = options("budget", [conf_dir(), *map(Path, folders)])
    shorter = _changes(values, _defaults((*words, f"budget={name}"), folders)) if name in known else found
    return found if any(n.startswith("budget.") for n in shorter) else shorter | {"budget": name}


def _changes(values: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in values.items()
        if name not in MACHINE and value != defaults.get(name, LATER_DEFAULTS.get(name))
    }


def command(record: Record) -> str:
    """Return the command that repeats a run."""
    config = record.config
    words = ["dgpbench", "run", f"dataset={record.dataset}"]
    if isinstance(path := config["dataset"].get("path"), str):
        words.append(f"dataset.path={path}")
    if not record.experiment:
        words += [word for word, default in _choices(config, _folders(config)) if not default]
    words += [*differences(record), f"split={record.split}"]
    words += [f"seed={record.seed}"] if record.seed else []
    for folder in config.get("paths", {}).get("config_dirs") or ():
        words += ["--config-dir", folder]
    return " ".join(map(quote, words))


def _folders(config: dict, more: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the existing folders of the user's own options."""
    given = (*more, *(config.get("paths", {}).get("config_dirs") or ()))
    found = {Path(folder).expanduser().resolve() for folder in given if Path(folder).expanduser().is_dir()}
    return tuple(map(str, sorted(found)))


def _choices(config: dict, folders: Sequence[str]) -> list[tuple[str, bool]]:
    """Return the options that a config names, and whether each is the model's default."""
    known = {group: options(group, [conf_dir(), *map(Path, folders)]) for group in GROUPS}
    chosen = [(group, config[group]["name"]) for group in GROUPS if config[group]["name"] in known[group]]
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
    """Return the defaults of some options, of the built-in ones if the user's are not here."""
    from dgpbench.config import compose

    for known, folders in ((words, config_dirs), (words, ()), (words[1:], ()), ((), ())):
        try:
            return _settings(compose(list(known), folders, trusted=False))
        except UserError:
            continue
    return {}


def _dataset_changes(config: dict) -> list[str]:
    """Return overrides for the dataset fields that differ from the catalogue."""
    given = config["dataset"]
    path = options("dataset").get(given["name"])
    defaults = read_option(given["name"], path) if path else given
    return [
        _word(f"dataset.{name}", value)
        for name, value in sorted(given.items())
        if f"dataset.{name}" not in NOT_OF_THE_FILE and name in defaults and value != defaults[name]
    ]


def _word(name: str, value: Any) -> str:
    return f"{name.removesuffix('.name') if name == 'likelihood.name' else name}={show_value(value)}"
