"""Ours against published, cell by cell, and counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dgpbench.papers.cells import Cell
from dgpbench.papers.table import Table
from dgpbench.papers.verdict import FEW, NEAR, OTHERS, counts, mark, verdict
from dgpbench.papers.views import (
    cell_frame,
    gap_of,
    ours_entry,
    published_entry,
    row_head,
    rule_notes,
    state_notes,
    variant_blocks,
)
from dgpbench.report import missing
from dgpbench.report.grid import Entry, Grid, Line, plain
from dgpbench.report.rules import summarise

HOW = "difference: ours minus published; in s.e.: over the root of the sum of both squared standard errors"
MARKS = {
    FEW: "(t): beyond so many standard errors, but few splits leave the error itself uncertain (Student's t)",
    NEAR: "(0.05 nat): beyond 2 standard errors, but the printed error is 0.00 and the gap at most 0.05 nat",
}
ZERO = "a printed error of 0.00 counts as 0.005, which it is below"


def comparison(table: Table) -> Grid:
    """One line per cell that has ours: ours, published, and the difference in combined standard errors."""
    spec = table.spec
    lines = []
    for (row, column), cell in table.cells.items():
        ours = table.ours(row, column)
        if ours is None and not cell.failed:
            continue
        found, fmt = cell.published, cell.place.format
        gap = gap_of(cell, ours)
        entries = (
            Entry(column),
            Entry(cell.count),
            replace(ours_entry(table, cell, ours, False), count=""),
            published_entry(found, False, fmt, spec.minus_infinity),
            Entry(f"{gap.value:+{fmt}}", value=gap.value) if gap else Entry(),
            Entry(f"{gap.ratio:+.1f}", value=gap.ratio) if gap and gap.ratio is not None else Entry(),
            Entry(_verdict(table, (row, column))),
        )
        lines.append(Line((row,), entries))
    notes = [] if lines else ["none of these cells has been run yet"]
    notes += [
        HOW,
        *([ZERO] if any(c.published and c.published.error == 0 for c in table.cells.values()) else []),
    ]
    marks = {mark(table, at) for at in table.cells}
    notes += [text for name, text in MARKS.items() if name in marks]
    notes += [*rule_notes(table, ()), *spec.notes, *state_notes(table, 0), *explanations(table)]
    return Grid(
        f"{spec.name}-compared",
        f"{table.title}: ours against published",
        spec.units,
        (row_head(table),),
        ("model", "splits", "ours", "published", "difference", "in s.e.", "verdict"),
        tuple(lines),
        lambda: cell_frame(table),
        tuple(notes),
        tuple(missing.summary(table.cells.values())),
        variant_blocks(table),
    )


def _verdict(table: Table, at: tuple[str, str]) -> str:
    found = verdict(table, at) or ""
    return f"{found} ({why})" if (why := mark(table, at)) else found


def explanations(table: Table) -> list[str]:
    """What explains a cell: its run and what that gives."""
    return [
        f"{at[0]}, {at[1]}: explained by {' '.join(other.cell.place.words)} ({other.why}), "
        f"{other.cell.count} splits: {_number(other.cell)}"
        for at, other in table.explaining.items()
        if verdict(table, at) == "explained"
    ]


def _number(cell: Cell) -> str:
    """'-2.37 (0.05)'."""
    found, fmt = summarise(cell.values.values()), cell.place.format
    assert found is not None  # a cell without values explains none
    return f"{found.mean:{fmt}}" + ("" if found.error is None else f" ({found.error:{fmt}})")


def counted(tables: Sequence[Table]) -> Grid:
    """One line per table that has both sides: cells compared, within 2 and 3 s.e., explained, open."""
    lines: list[dict[str, Any]] = []
    others = 0
    for table in tables:
        judged = _judged(table)
        found = counts(judged.values())
        others += sum(kind == OTHERS for kind, _ in judged.values())
        if any(found.values()):
            lines.append({"table": " ".join([table.spec.name, *table.spec.chosen]), **found})
    twice = 0
    if len(lines) > 1:
        lines.append({"table": "all", **agreement(tables)})
        twice = sum(line["compared"] + line["no printed error"] for line in lines[:-1])
        twice -= lines[-1]["compared"] + lines[-1]["no printed error"]
    notes = (
        "within k s.e.: at most k combined standard errors; by few splits: below the quantile of Student's t "
        "for k, as far as the printed spread allows; by 0.05 nat: where the printed error is 0.00",
        "by few splits, by 0.05 nat: of those within 2, the ones that owe it to that: (t), (0.05 nat)",
        "explained: another run that the table's file names agrees with print; open: neither",
        *((f"all: cells that stand in two tables count once ({twice})",) if twice else ()),
        *((f"not counted, with records of others (verdict {OTHERS}): {others}",) if others else ()),
        *(("no cell has both ours and a published number",) if not lines else ()),
    )
    return plain("Ours against published, counted", lines, name="counted", notes=notes)


def agreement(tables: Sequence[Table]) -> dict[str, int]:
    """Return how many cells of some tables agree with print; one in two tables counts once."""
    every: dict[tuple, tuple[str | None, str]] = {}
    for table in tables:
        found = {_compared(table.cells[at]): pair for at, pair in _judged(table).items() if pair[0]}
        every = found | every
    return counts(every.values())


def _judged(table: Table) -> dict[tuple[str, str], tuple[str | None, str]]:
    """Return verdict and mark of each cell; none for step times, which are of other machines."""
    if table.spec.ours == "perf":
        return {}
    return {at: (verdict(table, at), mark(table, at)) for at in table.cells}


def _compared(cell: Cell) -> tuple:
    """What a cell compares: the same in two tables that show the same runs beside the same printed number."""
    place = cell.place
    return cell.config_key, place.metric, place.scale, place.shift, cell.published
