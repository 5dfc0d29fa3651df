"""The numbers behind a grid, one line per cell."""

from __future__ import annotations

from dgpbench.plain_text import csv_value
from dgpbench.report.grid import Grid


def render(grid: Grid) -> str:
    data = grid.data.copy()
    for name in data.select_dtypes(include=["object", "string"]):
        data[name] = data[name].map(csv_value)
    return data.to_csv(index=False, lineterminator="\n")
