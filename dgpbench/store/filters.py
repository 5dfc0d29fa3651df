"""Choosing records by `field=value` words, as in `dataset=kin8nm model=dgp* status=failed,diverged`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from dgpbench.config.schema import show_value
from dgpbench.config.sections import flatten
from dgpbench.config.suggest import did_you_mean
from dgpbench.config.tree import member
from dgpbench.errors import UserError
from dgpbench.store.record import STATUSES, Record
from dgpbench.store.scan import Unit

LABELS = (
    "dataset",
    "model",
    "inference",
    "protocol",
    "experiment",
    "split",
    "seed",
    "status",
    "key",
    "config_key",
    "device",
    "threads",
    "data_hash",
    "git_commit",
)
PREFIXED = ("key", "config_key", "data_hash", "git_commit")  # hashes may be given by their first digits


def select(units: Sequence[Unit], words: Sequence[str]) -> list[Unit]:
    """The units that match all words. Values may be lists (a,b) and patterns (dgp*)."""
    tests = [_test(word, units) for word in words]
    return [unit for unit in units if all(test(unit.record) for test in tests)]


def field_of(record: Record, name: str) -> Any:
    """A label, or a dotted field of the config."""
    if name in LABELS:
        return record[name]
    value: Any = record.config
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _test(word: str, units: Sequence[Unit]) -> Callable[[Record], bool]:
    name, equals, value = word.partition("=")
    if not equals or not name or not value:
        raise UserError(f"filter '{word}' is not of the form field=value, such as dataset=energy")
    if name not in LABELS:
        known = {field for unit in units for field in flatten(unit.record.config)}
        if units and name not in known:
            hint = (
                did_you_mean(name, known | set(LABELS))
                or f"; such as {', '.join(LABELS)}, or any setting of run"
            )
            raise UserError(f"no field '{name}' to filter by{hint}")
    wanted = [value] if value.startswith("[") else value.split(",")
    wanted += [found for w in wanted if (found := member(name, w)) != w]
    if name == "status" and (unknown := [w for w in wanted if w not in STATUSES and not set(w) & set("*?[")]):
        raise UserError(f"no status '{unknown[0]}'{did_you_mean(unknown[0], STATUSES)}")
    if name in PREFIXED:
        wanted = [f"{w}*" for w in wanted]

    def matches(record: Record) -> bool:
        text = show_value(field_of(record, name))
        return any(text == w or fnmatchcase(text, w) or _same_number(text, w) for w in wanted)

    return matches


def _same_number(one: str, other: str) -> bool:
    try:
        return float(one) == float(other)
    except ValueError:
        return False
