"""The numbers behind a grid, one line per cell."""

from __future__ import annotations

from dgpbench.report.grid import Grid


def render(grid: Grid) -> str:
    return grid.data.to_csv(index=False, lineterminator="\n")
