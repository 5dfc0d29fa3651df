"""The numbers of a table: which cells are bold, how far ours are from published, all cells as a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dgpbench.papers.cells import Cell
from dgpbench.papers.table import Table
from dgpbench.papers.verdict import mark, verdict
from dgpbench.report import missing
from dgpbench.report.rules import Difference, Summary, difference, overlapping, summarise

if TYPE_CHECKING:
    import pandas as pd


def _summary(table: Table, row: str, column: str, side: str) -> Summary | None:
    return table.ours(row, column) if side == "ours" else table.published(row, column)


def bold_columns(table: Table, row: str, side: str) -> set[str]:
    """Columns to be set bold in a row, whichever way the table compares."""
    spec = table.spec
    if spec.bold == "none":
        return set()
    if spec.bold == "row":
        better = table.cells[row, spec.columns[0]].place.better
        return overlapping({column: _summary(table, row, column, side) for column in spec.columns}, better)
    chosen = set()
    for column in spec.columns:
        better = table.cells[row, column].place.better
        if row in overlapping({other: _summary(table, other, column, side) for other in spec.rows}, better):
            chosen.add(column)
    return chosen


def gap_of(cell: Cell, ours: Summary | None) -> Difference | None:
    """Ours minus published; None where one is missing or the published one is doubtful."""
    found = cell.published
    if ours is None or found is None or found.doubtful:
        return None
    return difference(ours, found.value, found.error)


def cell_frame(table: Table) -> pd.DataFrame:
    """Every cell as one line of numbers: what --format csv prints."""
    import pandas as pd

    bold = {
        side: {row: bold_columns(table, row, side) for row in table.spec.rows}
        for side in ("ours", "published")
    }
    lines = []
    for (row, column), cell in table.cells.items():
        ours, found = table.ours(row, column), cell.published
        gap = gap_of(cell, ours)
        w = summarise(cell.w.values())
        lines.append(
            {
                "table": table.spec.name,
                "row": row,
                "column": column,
                "dataset": cell.place.dataset,
                "experiment": cell.place.experiment,
                "overrides": " ".join(cell.place.overrides),
                "metric": cell.place.metric,
                "config_key": cell.config_key,
                **cell.numbers(ours),
                "bold": column in bold["ours"][row],
                "shapiro_w_median": w.mean if w else None,
                "published": found.value if found else None,
                "published_stderr": found.error if found else None,
                "published_confidence": found.confidence if found else None,
                "published_bold": column in bold["published"][row],
                "difference": gap.value if gap else None,
                "difference_stderr": gap.error if gap else None,
                "difference_in_stderr": gap.ratio if gap else None,
                "verdict": verdict(table, (row, column)),
                "allowance": mark(table, (row, column)),
                "reason": cell.absent or "; ".join(f"split {k}: {v}" for k, v in cell.failed.items()),
                "command": missing.run_command(cell, cell.missing[0]) if cell.missing else "",
            }
        )
    return pd.DataFrame(lines).astype({"n_expected": "Int64"})
