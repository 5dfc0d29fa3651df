"""Quantities that a config implies: numbers of splits and of steps."""

from __future__ import annotations

import math
from typing import Any

from dgpbench.config.keys import later_defaults

GROWTH_ROWS = 1000  # up to here budget.growth=sqrt changes nothing


def budget_of(cfg: dict) -> dict[str, Any]:
    """Return the budget section. Fields that an older config lacks get their defaults."""
    return later_defaults("budget") | cfg["budget"]


def planned_steps(budget: dict, rows: int) -> int | None:
    """Return the number of training steps for `rows` training rows.

    Under growth=sqrt, budget.steps applies up to 1,000 rows. Beyond that, the number of steps grows with the
    square root of the rows, up to max_steps.
    """
    steps, most = budget["steps"], budget.get("max_steps")
    if steps is None or budget.get("growth", "none") == "none":
        return steps
    grown = round(steps * math.sqrt(max(1.0, rows / GROWTH_ROWS)))
    return max(steps, min(grown, most)) if most else grown


def budget_text(budget: dict, rows: int | None = None) -> str:
    """Return '20,000 steps', '60 s' or 'at most 100,000 steps, until ...' (for `rows` training rows)."""
    grows = rows is None and budget.get("growth", "none") == "sqrt"
    steps = budget["steps"] if rows is None else planned_steps(budget, rows)
    most = f", at most {budget['max_steps']:,}" if grows and budget.get("max_steps") else ""
    limits = (
        (steps, "{:,} steps" + (f" times sqrt(N / 1000){most}" if grows else "")),
        (budget["seconds"], "{:g} s"),
    )
    length = " or ".join(text.format(limit) for limit, text in limits if limit)
    stop = budget.get("stop", "none")
    ends = {"converged": "until the bound has converged", "validation": "while validation rows gain"}
    return length if stop == "none" else f"at most {length}, {ends[stop]}"


def every(steps: int) -> str:
    """Return 'every step' or 'every 25 steps'."""
    return "every step" if steps == 1 else f"every {steps:,} steps"


def is_trial(cfg: dict) -> bool:
    """Return whether a config is that of a tuning trial, which never uses test rows."""
    return (cfg.get("protocol") or {}).get("evaluate") == "validation"


def own_test(dataset: dict, protocol: dict) -> bool:
    """Return whether the dataset's own train/test division is used."""
    fixed = protocol.get("fixed_test", True) and protocol["split_rule"] != "published"
    return dataset.get("train_rows") is not None and fixed


def num_splits(dataset: dict, protocol: dict) -> int:
    """Return the number of splits: the protocol's, or 1 if the dataset has its own test rows."""
    if own_test(dataset, protocol) and protocol["split_rule"] == "shuffle":
        return 1
    return protocol["splits"]
