"""Columns of refits: what `dgpbench tune` chose for each split by itself, as one method.

Such runs have settings of their own on each split, and so a config_key each. They belong to a column if they
agree with it in everything that was not tuned.
"""

from __future__ import annotations

from collections.abc import Sequence

from dgpbench.config.keys import hashed, settings
from dgpbench.store.scan import Unit


def tuned_names(text: str) -> tuple[str, ...]:
    """Names of the settings that were chosen, from what a record says of its tuning."""
    return tuple(name.strip() for name in text.partition(":")[0].split(","))


def refits(config: dict, units: Sequence[Unit]) -> dict[str, list[Unit]]:
    """Refits that are `config` but for what was tuned, by what was tuned; of a split and seed the latest."""
    found: dict[str, dict[tuple[int, int], Unit]] = {}
    for unit in sorted(units, key=lambda u: (u.record["status"] == "done", u.record["finished"])):
        record = unit.record
        text = record["config"].get("tuned")
        if text and _agree(config, record["config"], tuned_names(str(text))):
            found.setdefault(str(text), {})[record["split"], record["seed"]] = unit
    return {text: list(units.values()) for text, units in found.items()}


def _agree(config: dict, theirs: dict, names: Sequence[str]) -> bool:
    ours, other = (_rest(given, names) for given in (config, theirs))
    return ours == other


def _rest(config: dict, names: Sequence[str]) -> dict:
    """Settings without the names; of a group, such as model, without all its fields."""
    parts = tuple(f"{name}." for name in names)
    flat = hashed(settings(config))
    return {name: v for name, v in flat.items() if name not in names and not name.startswith(parts)}


def tuned_labels(column: str, texts: Sequence[str]) -> dict[str, str]:
    """Labels of a column's refits, by what was tuned; told apart by it where that differs."""
    if len(texts) == 1:
        return {texts[0]: f"{column}, tuned"}
    return {text: f"{column}, tuned {text}" for text in texts}
