"""Accuracy against training time: which model no other beats in both."""

from __future__ import annotations

import pandas as pd

from dgpbench.report.grid import Grid, plain
from dgpbench.report.others import others_note
from dgpbench.report.table import Table
from dgpbench.store.seconds import training_seconds


def frontier_frame(table: Table) -> pd.DataFrame:
    """Value and training seconds per cell; `frontier` marks what no other model of the dataset beats."""
    lines = []
    for (row, column), cell in table.cells.items():
        seconds: dict[int, list[float]] = {}
        for unit in cell.units:
            spent = training_seconds(unit.record)
            if unit.record["status"] == "done" and spent is not None:
                seconds.setdefault(unit.record["split"], []).append(spent)
        common = [split for split in cell.values if split in seconds]
        if common:
            mean_seconds = sum(sum(seconds[s]) / len(seconds[s]) for s in common) / len(common)
            value = sum(cell.values[s] for s in common) / len(common)
            lines.append((row, column, len(common), value, mean_seconds, cell.place.better))
    frame = pd.DataFrame(lines, columns=["dataset", "model", "splits", "value", "seconds", "better"])
    frame["frontier"] = [_undominated(frame, line) for line in frame.itertuples()]
    return frame.drop(columns="better")


def _undominated(frame: pd.DataFrame, line) -> bool:
    others = frame[frame.dataset == line.dataset]
    sign = 1 if line.better == "higher" else -1
    as_good = (sign * others.value >= sign * line.value) & (others.seconds <= line.seconds)
    strictly = (sign * others.value > sign * line.value) | (others.seconds < line.seconds)
    return not (as_good & strictly).any()


def frontier(table: Table) -> Grid:
    """One line per cell with a value and training seconds, marked if no other model is better in both."""
    frame = frontier_frame(table)
    shown = frame.assign(frontier=["yes" if on else "" for on in frame.frontier])
    if any(cell.community for cell in table.cells.values()):
        places = zip(frame.dataset, frame.model, strict=True)
        shown["community"] = [table.cells[at].community for at in places]
    notes = (
        "seconds of training in which the run had a core, on whatever machine and threads; yes: no other "
        "model of this dataset is at least as good and as quick, and better in one",
        *others_note(table.cells),
    )
    return plain(
        f"Accuracy against training seconds: {table.spec.title}",
        shown,
        {"value": ".3f", "seconds": ".1f"},
        name=f"{table.spec.name}-frontier",
        heads=2,
        notes=notes,
    )
