"""Datasets with a level column, the last input: 0 is the cheapest fidelity, the highest the one that counts.

Test rows are of the highest level. The highest level's rows are divided as the protocol divides a dataset's;
all rows below it train, or none with `dataset.train_levels=highest`. Inputs and targets are scaled by the
training rows of all levels together, the level itself not at all.
"""

from __future__ import annotations

import numpy as np

from dgpbench.data.catalogue import Entry
from dgpbench.data.splits import carve_validation, shuffle_rows
from dgpbench.errors import UserError

TRAIN_LEVELS = ("all", "highest")


def check_settings(entry: Entry) -> None:
    """UserError for settings of levels that say nothing."""
    chosen = entry.settings.get("train_levels", "all")
    if chosen not in TRAIN_LEVELS:
        raise UserError(f"dataset.train_levels={chosen!r}; allowed: {', '.join(TRAIN_LEVELS)}")
    if chosen != "all" and entry.level is None:
        raise UserError(f"dataset.train_levels={chosen} needs levels; name their column with dataset.level")


def count_levels(entry: Entry, level: np.ndarray) -> int:
    """The number of levels in the column; UserError unless they are 0, 1, ... without a gap."""
    found = np.unique(np.asarray(level))
    name = f"dataset {entry.name}, level column {entry.level!r}"
    if not np.array_equal(found, np.round(found)) or found[0] < 0 or len(found) > 100:
        shown = ", ".join(f"{v:g}" for v in found[:5])
        raise UserError(
            f"{name}: levels must be whole numbers 0, 1, ..., the highest last; found {shown}"
            + (", ..." if len(found) > 5 else "")
        )
    missing = sorted(set(range(int(found[-1]) + 1)) - set(found.astype(int)))
    if missing:
        raise UserError(
            f"{name}: level {missing[0]} has no rows, though the highest is {int(found[-1])}; number the "
            "levels 0, 1, ... without a gap"
        )
    return len(found)


def divide(entry: Entry, level: np.ndarray, protocol: dict, split: int) -> tuple:
    """Rows to train, test and validate (None where nothing is held out)."""
    if entry.train_rows is not None:
        raise UserError("dataset.train_rows does not go with dataset.level, whose highest rows are divided")
    chosen = entry.settings.get("train_levels", "all")
    level = np.asarray(level)
    high, below = np.flatnonzero(level == level.max()), np.flatnonzero(level < level.max())
    number = 0 if protocol["split_rule"] == "fixed_zero" else split
    train, test = (high[part] for part in shuffle_rows(len(high), number, protocol["train_fraction"]))
    if min(len(train), len(test)) < 1:
        raise UserError(
            f"dataset {entry.name} has {len(high)} rows of its highest level: protocol {protocol['name']} "
            f"leaves {len(train)} to train and {len(test)} to test; change protocol.train_fraction"
        )
    valid = None
    if protocol.get("validation"):
        train, valid = carve_validation(train, split, protocol["validation"])
    return (np.concatenate([below, train]) if chosen == "all" else train), test, valid
