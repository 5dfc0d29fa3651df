"""The commands that would produce what a table lacks. Their wording stands here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable

from dgpbench.report.cells import Cell


def run_command(cell: Cell, split: int | str) -> str:
    place = cell.place
    if place.case:
        return f"dgpbench perf --cases {place.case} --systems {place.system}"
    words = [f"experiment={place.experiment}", f"dataset={place.dataset}", *place.overrides, f"split={split}"]
    return " ".join(["dgpbench run", *words])


def missing(cells: Iterable[Cell]) -> list[str]:
    """One command per unit that is neither done nor failed, ready for a shell."""
    return [run_command(cell, split) for cell in cells for split in cell.missing]


def summary(cells: Iterable[Cell]) -> list[str]:
    """What is missing, one line per column: how much, and the command of its first unit."""
    columns: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.missing:
            columns.setdefault(cell.place.column, []).append(cell)
    lines = []
    for column, lacking in columns.items():
        units = sum(len(cell.missing) for cell in lacking)
        first = run_command(lacking[0], lacking[0].missing[0])
        lines.append(f"{column}: {units} in {len(lacking)} cells, e.g. {first}")
    return lines
