"""Ours against published, cell by cell, and the counts of equivalent, different and other cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dgpbench.papers.cells import Cell
from dgpbench.papers.table import Table
from dgpbench.papers.verdict import EXPLAINED, OTHERS, Verdict, counts, verdict
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
from dgpbench.report.grid import Entry, Grid, Line, plain
from dgpbench.report.result_table import missing_summary
from dgpbench.report.rules import summarise

HOW = (
    "difference: ours minus published; in s.e.: over the root of the sum of both squared standard errors; at "
    "most: |difference| + 1.645 standard errors"
)
KINDS = (
    "equivalent: at most 0.1 nat (log-likelihoods), 10 % (RMSE and others) or 0.01 (shares of test rows), "
    "over as many runs as print; different: beyond that with the same certainty; undecided: too few runs, in "
    "brackets how many would decide; explained: different, with a known cause"
)
ZERO = "a printed error of 0.00 counts as 0.005, which it is below"


def comparison(table: Table) -> Grid:
    """Return one line per cell that has ours: ours, published, their difference and the verdict."""
    spec = table.spec
    lines = []
    for (row, column), cell in table.cells.items():
        ours = table.ours(row, column)
        if ours is None and not cell.failed:
            continue
        found, fmt = cell.published, cell.place.format
        gap, result = gap_of(cell, ours), verdict(table, (row, column))
        furthest = result.furthest if result and result.furthest == result.furthest else None
        entries = (
            Entry(column),
            Entry(cell.count),
            replace(ours_entry(table, cell, ours, False), count=""),
            published_entry(found, False, fmt, spec.minus_infinity),
            Entry(f"{gap.value:+{fmt}}", value=gap.value) if gap else Entry(),
            Entry(f"{gap.ratio:+.1f}", value=gap.ratio) if gap and gap.ratio is not None else Entry(),
            Entry(f"{furthest:{fmt}}", value=furthest) if furthest is not None else Entry(),
            Entry(result.text if result else ""),
        )
        lines.append(Line((row,), entries))
    notes = [] if lines else ["none of these cells has been run yet"]
    notes += [HOW, KINDS]
    notes += [ZERO] if any(c.published and c.published.error == 0 for c in table.cells.values()) else []
    notes += [*rule_notes(table, ()), *spec.notes, *state_notes(table, 0), *explanations(table)]
    return Grid(
        f"{spec.name}-compared",
        f"{table.title}: ours against published",
        spec.units,
        (row_head(table),),
        ("model", "splits", "ours", "published", "difference", "in s.e.", "at most", "verdict"),
        tuple(lines),
        lambda: cell_frame(table),
        tuple(notes),
        tuple(missing_summary(table.cells.values())),
        variant_blocks(table),
    )


def explanations(table: Table) -> list[str]:
    """Return the cause of each explained cell, with the run that shows it."""
    notes = []
    for at, cause in table.explaining.items():
        result = verdict(table, at)
        if result and result.kind == EXPLAINED:
            by = ""
            if cause.cell:
                words = " ".join(cause.cell.place.words)
                by = f"; {words}, {cause.cell.count} splits: {_number(cause.cell)}"
            notes.append(f"{at[0]}, {at[1]}: explained by {cause.why}{by}")
    return notes


def _number(cell: Cell) -> str:
    """'-2.37 (0.05)'."""
    found, fmt = summarise(cell.values.values()), cell.place.format
    assert found is not None  # a cell without values explains none
    return f"{found.mean:{fmt}}" + ("" if found.error is None else f" ({found.error:{fmt}})")


def counted(tables: Sequence[Table]) -> Grid:
    """Return one line per table with the number of cells of each verdict."""
    lines: list[dict[str, Any]] = []
    community = 0
    for table in tables:
        judged = _judged(table).values()
        found = counts(judged)
        community += sum(result is not None and result.kind == OTHERS for result in judged)
        if any(found.values()):
            lines.append({"table": " ".join([table.spec.name, *table.spec.chosen]), **found})
    twice = 0
    if len(lines) > 1:
        lines.append({"table": "all", **agreement(tables)})
        twice = sum(line["compared"] + line["no printed error"] for line in lines[:-1])
        twice -= lines[-1]["compared"] + lines[-1]["no printed error"]
    notes = (
        KINDS,
        "within half: equivalent within half the margin too, 0.05 nat; no printed error: not compared",
        *((f"all: cells that are in two tables count once ({twice})",) if twice else ()),
        *((f"not counted, with records of others (verdict {OTHERS}): {community}",) if community else ()),
        *(("no cell has both ours and a published number",) if not lines else ()),
    )
    return plain("Ours against published, counted", lines, name="counted", notes=notes)


def agreement(tables: Sequence[Table]) -> dict[str, int]:
    """Count the cells of each verdict in some tables; a cell that is in two tables counts once."""
    every: dict[tuple, Verdict] = {}
    for table in tables:
        found = {_compared(table.cells[at]): result for at, result in _judged(table).items() if result}
        every = found | every
    return counts(every.values())


def _judged(table: Table) -> dict[tuple[str, str], Verdict | None]:
    """Return the verdict on each cell; none for step times, which are of other machines."""
    return {} if table.spec.ours == "perf" else {at: verdict(table, at) for at in table.cells}


def _compared(cell: Cell) -> tuple:
    """Identify what a cell compares: the same runs and printed number may be in two tables."""
    place = cell.place
    return cell.config_key, place.metric, place.scale, place.shift, cell.published
