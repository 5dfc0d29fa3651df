"""The numbers behind a grid, one line per cell."""

from __future__ import annotations

from dgpbench.plain_text import csv_value
from dgpbench.report.grid import Grid


def render(grid: Grid) -> str:
    return grid.data.map(csv_value).to_csv(index=False, lineterminator="\n")
