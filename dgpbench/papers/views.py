"""A table as a grid: ours beside published, with its marks and footers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dgpbench.papers.cells import Cell
from dgpbench.papers.notes import rule_notes, state_notes
from dgpbench.papers.numbers import bold_columns, cell_frame
from dgpbench.papers.published import Published
from dgpbench.papers.table import Table
from dgpbench.report import missing
from dgpbench.report.grid import Entry, Grid, Line, number, plain, with_error
from dgpbench.report.others import MARK, NOT_RERUN, not_recomputed
from dgpbench.report.rules import (
    NON_GAUSSIAN,
    Summary,
    average_ranks,
    median_difference,
    summarise,
)
from dgpbench.report.table import few

if TYPE_CHECKING:
    import pandas as pd


def side_by_side(table: Table, show: str = "both") -> Grid:
    """Rows with our line and the published line below it; `show` is both, ours or published."""
    spec = table.spec
    sides = {"both": ("ours", "published")}.get(show, (show,))
    lines: list[Line] = []
    idle = 0
    for row in spec.rows:
        shown = [side for side in sides if _has(table, row, side)]
        if show == "both" and "ours" not in shown:
            idle += 1
        for i, side in enumerate(shown or sides[:1]):
            lines.append(Line((row if i == 0 else "", side), _entries(table, row, side), side))
    lines += [line for side in sides for line in _footers(table, side)]
    notes = [*rule_notes(table, sides), *spec.notes, *state_notes(table, idle)]
    return Grid(
        spec.name,
        table.title,
        spec.units,
        (row_head(table), ""),
        spec.columns,
        tuple(lines),
        lambda: cell_frame(table),
        tuple(notes),
        tuple(missing.summary(table.cells.values())),
        variant_blocks(table),
    )


def row_head(table: Table) -> str:
    """Heading of the rows: datasets, unless they are something else of one dataset."""
    return "dataset" if len({place.dataset for place in table.spec.places.values()}) > 1 else ""


def _has(table: Table, row: str, side: str) -> bool:
    cells = [table.cells[row, column] for column in table.spec.columns]
    return any(cell.published if side == "published" else cell.values or cell.failed for cell in cells)


def _entries(table: Table, row: str, side: str) -> tuple[Entry, ...]:
    bold = bold_columns(table, row, side)
    out = []
    for column in table.spec.columns:
        cell = table.cells[row, column]
        if side == "ours":
            out.append(ours_entry(table, cell, table.ours(row, column), column in bold))
        else:
            out.append(
                published_entry(cell.published, column in bold, cell.place.format, table.spec.minus_infinity)
            )
    return tuple(out)


def ours_entry(table: Table, cell: Cell, ours: Summary | None, bold: bool) -> Entry:
    """A cell with our number; without one, what its runs are at."""
    spec, w = table.spec, summarise(cell.w.values())
    links = cell.links()
    if ours is None:
        return Entry(count=cell.count, detail=_detail(cell, w), links=links)
    if spec.blank_above is not None and ours.mean >= spec.blank_above:
        text = ""
    else:
        text = _clipped(ours.mean, ours.error, cell.place.format, spec.minus_infinity)
    italic = spec.italics and w is not None and w.mean < NON_GAUSSIAN
    return Entry(
        text,
        cell.count,
        bold,
        italic,
        detail=_detail(cell, w),
        links=links,
        value=ours.mean,
        others=cell.community > 0,
    )


def _detail(cell: Cell, w: Summary | None) -> tuple[str, ...]:
    """Details of a cell, shown on demand: failures, commands for missing splits, provenance."""
    lines = [cell.absent] if cell.absent else []
    lines += [f"split {split} {text}" for split, text in cell.failed.items()]
    if cell.lacking:
        lines.append(f"splits {few(cell.lacking)} done without {cell.place.metric}; dgpbench rescore")
    if cell.missing:
        command = missing.run_command(cell, cell.missing[0])
        lines.append(f"no record of splits {few(cell.missing)}: {command}")
    if w:
        lines.append(f"median Shapiro W {w.mean:.4f}")
    if cell.community:
        told = f"{NOT_RERUN}{not_recomputed(cell.units)}"
        lines.append(f"{cell.community} of these from results/community/: {told}")
    if cell.config_key:
        lines.append(f"experiment {cell.place.experiment}, config {cell.config_key[:8]}")
    return tuple(lines)


def published_entry(found: Published | None, bold: bool, fmt: str, floor: float | None = -1000.0) -> Entry:
    """A cell with a printed number, or an empty one."""
    if found is None:
        return Entry()
    detail = (f"{found.source}, table {found.table}: {found.confidence}", found.note)
    return Entry(
        _clipped(found.value, found.printed_error, fmt, floor),
        bold=bold,
        doubtful=found.doubtful,
        detail=detail,
        value=found.value,
    )


def _clipped(mean: float, error: float | None, fmt: str, floor: float | None) -> str:
    """The number, or minus infinity below `floor`."""
    return "-∞" if floor is not None and mean < floor else with_error(mean, error, fmt)


def _footers(table: Table, side: str) -> list[Line]:
    """Median difference from the baseline and average ranks: over dataset-split pairs, or printed means."""
    spec = table.spec
    frame = table.frame() if side == "ours" else table.published_frame()
    if frame.empty or not spec.footers:
        return []
    better = next(iter(table.cells.values())).place.better
    unit = "pairs" if side == "ours" else "sets"
    lines = []
    if "median_difference" in spec.footers and spec.baseline:
        gaps = median_difference(frame, spec.baseline)
        entries = [_footer(gaps, column, "median", None, unit) for column in spec.columns]
        lines.append(Line((f"median diff. from {spec.baseline}", side), tuple(entries), "footer"))
    if "ranks" in spec.footers:
        ranks = average_ranks(frame, better)
        entries = [_footer(ranks, column, "mean", "error", unit) for column in spec.columns]
        lines.append(Line((f"average rank ({len(ranks)} = best)", side), tuple(entries), "footer"))
    if side == "ours" and any(cell.community for cell in table.cells.values()):
        lines = [_with_others(line) for line in lines]
    if side == "published":
        lines += [line for name in spec.footers if (line := _printed(table, name))]
    return lines


def _with_others(line: Line) -> Line:
    """A line whose numbers rest on records of others among the rest."""
    return replace(line, entries=tuple(replace(e, others=e.value is not None) for e in line.entries))


def _footer(frame: pd.DataFrame, column: str, value: str, error: str | None, unit: str) -> Entry:
    if column not in frame.index or not frame.n[column]:
        return Entry(count=f"0 {unit}" if column in frame.index else "")
    spread = frame[error][column] if error else None
    spread = None if spread is None or spread != spread else float(spread)
    mean = float(frame[value][column])
    count = int(frame.n[column])
    return Entry(with_error(mean, spread), f"{count} {unit if count != 1 else unit[:-1]}", value=mean)


def _printed(table: Table, name: str) -> Line | None:
    found = [table.printed_footer(name, column) for column in table.spec.columns]
    if not any(found):
        return None
    names = {"median_difference": f"median diff. from {table.spec.baseline}", "ranks": "average rank"}
    return Line((names[name], "printed"), tuple(published_entry(f, False, ".2f") for f in found), "footer")


def variant_blocks(table: Table) -> tuple[Grid, ...]:
    """The runs near a table's cells that none of them holds, as a smaller table; none without such runs."""
    if not table.variants:
        return ()
    lines = []
    for variant in table.variants:
        found = summarise(variant.values.values())
        shown = with_error(found.mean, found.error) if found else number(None)
        shown += MARK if variant.community else ""
        lines.append(
            {
                "dataset": variant.dataset,
                "column": variant.column,
                "variant": variant.name,
                "value": shown,
                "done": len(variant.values),
                "failed": variant.failed,
                "config": variant.config_key[:8],
            }
        )
    return (
        plain(
            "Variants: other settings, never averaged in",
            lines,
            name=f"{table.spec.name}-variants",
        ),
    )
