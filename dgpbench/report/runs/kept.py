"""Predictions, draws and trace that were kept of a run, as its pictures take them."""

from __future__ import annotations

import numpy as np

from dgpbench.errors import UserError
from dgpbench.store import read
from dgpbench.store.scan import Unit


def predictions_of(unit: Unit) -> tuple[dict[str, np.ndarray], str]:
    """Columns of the predictions, of several outputs the first; or none, and why."""
    try:
        columns = read.predictions(unit)
    except UserError as error:
        return {}, str(error)
    if "output" not in columns or not columns["output"].any():
        return columns, ""
    first = columns["output"] == 0
    return {name: values[first] for name, values in columns.items()}, "several outputs: the first is drawn"


def draws_over_x(unit: Unit) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """x (R,), observations (R,) and draws (R, n) of the kept rows, of several outputs the first; None where
    there is not one input, or nothing was kept."""
    if unit.record["sizes"].get("inputs") != 1:
        return None
    try:
        kept = read.draws(unit)
    except UserError:
        return None
    first = kept["output"] == 0
    return kept["x"][first, 0], kept["y"][first], kept["draws"][first]


def trace_of(record: dict) -> list[list]:
    """Step, seconds and bound of each entry of the trace, the last two None where they are not known. Entries
    without a step or with fewer numbers, as others may have written them, are left out."""
    trace = record["training"].get("trace") or ()
    return [line[:3] for line in trace if len(line) >= 3 and line[0] is not None]
