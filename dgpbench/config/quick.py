"""Compose plain configs without Hydra, a hundred times as fast; leave all others to Hydra.

Plain are name=value with a word, a path, a number, true, false, null or a list of these; groups whose files
list parts of their own group and `_self_`; the inference that a model names in its defaults; interpolations
such as ${oc.env:NAME,word}; files without a package header. The order is Hydra's: config.yaml, its groups in
the order of its defaults list, the experiment, the values of the command line. A choice of the command line
wins over one of the experiment, this over one of the model, and this over the default.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from dgpbench.config import expand
from dgpbench.config.tree import default_groups, groups, read_option
from dgpbench.errors import UserError

OVERRIDE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)=(\S*)")
WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")
REAL = re.compile(r"-?[0-9]+\.[0-9]+(e-?[0-9]+)?|-?[0-9]+e-?[0-9]+")
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
PATH = re.compile(r"\.{0,2}/?[A-Za-z_][A-Za-z0-9_./-]*", re.ASCII)  # of a file
CONSTANTS = {"true": True, "false": False, "null": None}
NOT_WORDS = {"nan", "inf", *CONSTANTS}
VARIABLE = re.compile(r"\$\{oc\.env:(\w+),(\w+)\}")
HEADER = re.compile(r"^# @package", re.M)
MODELS_INFERENCE = "override /inference@_global_.inference"


class _NotPlainError(Exception):
    """Something that only Hydra can do."""


def quick(overrides: Sequence[str], folders: Sequence[Path]) -> dict | None:
    """The config as Hydra composes it, resolved but not checked; None where a case is not plain."""
    try:
        return _quick(overrides, tuple(folders))
    except (_NotPlainError, OSError):
        return None


def _quick(overrides: Sequence[str], folders: tuple[Path, ...]) -> dict:
    chosen, values = _parse(overrides, _groups(folders, tuple(f.stat().st_mtime_ns for f in folders)))
    main = _copied(_read(folders[0] / "config.yaml"))
    order = _order(main.pop("defaults", None))
    experiment = _experiment(chosen.pop("experiment", None), folders)
    for entry in experiment.pop("defaults", []):
        ((name, option),) = entry.items()
        chosen.setdefault(name.removeprefix("override /"), option)
    out = main
    model = _option("model", str(chosen.get("model", order["model"])), folders)
    if named := model.pop(MODELS_INFERENCE, None):
        chosen.setdefault("inference", named)
    for group, default in order.items():
        if group == "experiment":
            continue
        name = str(chosen.pop(group, default))
        section = model if group == "model" else _option(group, name, folders)
        if MODELS_INFERENCE in section:
            raise _NotPlainError
        _merge(out, {group: section})
    if chosen:  # a group of the user's own
        raise _NotPlainError
    _merge(out, experiment)
    for name, value in values:
        _set(out, name.split("."), value)
    return _resolved(out)


@lru_cache(maxsize=8)
def _groups(folders: tuple[Path, ...], _changed: tuple[int, ...]) -> list[str]:
    return groups(folders)


def _parse(overrides: Sequence[str], known: Sequence[str]) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    chosen: dict[str, Any] = {}
    values = []
    for text in overrides:
        match = OVERRIDE.fullmatch(text)
        if not match:
            raise _NotPlainError
        name, value = match[1], _value(match[2])
        if name not in known:
            values.append((name, value))
        elif not (name == "experiment" and value is None):
            if name in chosen or not isinstance(value, str):
                raise _NotPlainError
            chosen[name] = value
    return chosen, values


def _value(text: str) -> Any:
    if text in CONSTANTS:
        return CONSTANTS[text]
    if WHOLE.fullmatch(text):
        return int(text)
    if REAL.fullmatch(text):
        return float(text)
    if text[:1] + text[-1:] == "[]":
        return [_value(part) for part in text[1:-1].split(",")] if text != "[]" else []
    if (WORD.fullmatch(text) or PATH.fullmatch(text)) and text.lower() not in NOT_WORDS:
        return text
    raise _NotPlainError


def _order(defaults: Any) -> dict[str, str | None]:
    """Groups of config.yaml and their default options; `_self_` comes first."""
    if not isinstance(defaults, list) or defaults[:1] != ["_self_"]:
        raise _NotPlainError
    return {name: option for entry in defaults[1:] for name, option in entry.items()}


def _experiment(name: str | None, folders: tuple[Path, ...]) -> dict:
    if name is None:
        return {}
    path = _find("experiment", name, folders)
    if path.parent.name != expand.FOLDERS["experiment"]:
        raise _NotPlainError
    return _copied(read_option(name, path))


def _option(group: str, name: str, folders: tuple[Path, ...]) -> dict:
    path = _find(group, name, folders)
    if path.parent.name in expand.FOLDERS.values():
        return _copied(read_option(name, path))
    return _parts(path, folders)


def _parts(path: Path, folders: tuple[Path, ...]) -> dict:
    """A file with the parts that its defaults list names, merged in that order."""
    own = _copied(_read(path))
    out: dict[str, Any] = {}
    defaults = own.pop("defaults", ["_self_"])
    if not isinstance(defaults, list) or "_self_" not in defaults:
        raise _NotPlainError
    for entry in defaults:
        if entry == "_self_":
            _merge(out, own)
        elif isinstance(entry, str) and WORD.fullmatch(entry):
            _merge(out, _parts(_part(path.parent.name, entry, folders), folders))
        elif isinstance(entry, dict) and list(entry) == [MODELS_INFERENCE]:
            out[MODELS_INFERENCE] = entry[MODELS_INFERENCE]
        else:
            raise _NotPlainError
    return out


def _find(group: str, name: str, folders: tuple[Path, ...]) -> Path:
    """The file of an option: its own, or one with many."""
    for folder in folders:
        if not name.startswith("_") and (path := folder / group / f"{name}.yaml").is_file():
            return path
        for path in expand.files(group, folder):
            if name in expand.names(path, default_groups()):
                return path
    raise _NotPlainError


def _part(group: str, name: str, folders: tuple[Path, ...]) -> Path:
    for folder in folders:
        if (path := folder / group / f"{name}.yaml").is_file():
            return path
    raise _NotPlainError


def _read(path: Path) -> dict:
    stat = path.stat()
    return _read_version(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=256)
def _read_version(path: Path, *_version: int) -> dict:
    if HEADER.search(path.read_text(encoding="utf-8")):
        raise _NotPlainError
    try:
        tree = expand.read(path)
    except UserError:
        raise _NotPlainError from None
    if not isinstance(tree, dict):
        raise _NotPlainError
    return tree


def _copied(value: Any) -> Any:
    """A copy of what a yaml file holds, several times as fast as copy.deepcopy."""
    if isinstance(value, dict):
        return {name: _copied(part) for name, part in value.items()}
    return [_copied(part) for part in value] if isinstance(value, list) else value


def _merge(into: dict, given: dict) -> None:
    """`given` over `into`: sections field by field, all else replaced."""
    for name, value in given.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = value


def _set(tree: dict, path: list[str], value: Any) -> None:
    """Set a field that is there; Hydra explains one that is not."""
    *parents, leaf = path
    for name in parents:
        inner = tree.get(name)
        tree = inner if isinstance(inner, dict) else {}
    if leaf not in tree or isinstance(tree[leaf], dict):
        raise _NotPlainError
    tree[leaf] = value


def _resolved(value: Any) -> Any:
    if isinstance(value, dict):
        if not all(type(key) in (str, int) for key in value):  # numbers of layers
            raise _NotPlainError
        return {key: _resolved(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_resolved(part) for part in value]
    if value == "???":
        raise _NotPlainError
    if not isinstance(value, str) or "${" not in value:
        return value
    match = VARIABLE.fullmatch(value)
    if not match:
        raise _NotPlainError
    default = None if match[2] == "null" else match[2]
    return os.environ.get(match[1], default)
