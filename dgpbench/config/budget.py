"""Length of a training run: how many steps a budget means for a dataset, and when it may end before."""

from __future__ import annotations

import math
from typing import Any

from dgpbench.config.keys import later_defaults

GROWTH_ROWS = 1000  # up to here budget.growth=sqrt changes nothing


def budget_of(cfg: dict) -> dict[str, Any]:
    """The budget section, completed where it is of an older config."""
    return later_defaults("budget") | cfg["budget"]


def planned_steps(budget: dict, rows: int) -> int | None:
    """Steps for so many training rows; under growth=sqrt budget.steps is for 1,000 of them, and max_steps the
    most that there are for more."""
    steps, most = budget["steps"], budget.get("max_steps")
    if steps is None or budget.get("growth", "none") == "none":
        return steps
    grown = round(steps * math.sqrt(max(1.0, rows / GROWTH_ROWS)))
    return max(steps, min(grown, most)) if most else grown


def budget_text(budget: dict, rows: int | None = None) -> str:
    """'20,000 steps', '60 s', 'at most 100,000 steps, until ...'; for so many training rows if given."""
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


def refuses_stop(cfg: dict) -> str | None:
    """Why budget.stop does not fit a config; None where it does."""
    budget, model, protocol = budget_of(cfg), cfg["model"], cfg["protocol"]
    stop = budget["stop"]
    if stop == "none":
        return None
    if model.get("own_training") or model.get("closed_form"):
        return (
            f"budget.stop={stop} is not for model={model['name']}, which trains in its own way; leave it out"
        )
    if stop == "converged":
        return None
    if "layers" not in model:
        return (
            f"budget.stop=validation is for GP models; model={model['name']} is none: use converged or none"
        )
    if not protocol["validation"] or protocol.get("evaluate") == "validation":
        return (
            "budget.stop=validation takes rows out of the training rows to look at; set protocol.validation, "
            "e.g. to 0.1, with protocol.evaluate=test"
        )
    return None
