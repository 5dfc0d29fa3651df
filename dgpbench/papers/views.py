"""A published table as grids: side by side with print, cell by cell with verdicts, and counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dgpbench.evaluate.metrics import SHAPIRO
from dgpbench.papers.paper_cells import Cell
from dgpbench.papers.paper_table import Table
from dgpbench.papers.published import Published, citations
from dgpbench.papers.verdict import EXPLAINED, OTHERS, Verdict, counts, verdict
from dgpbench.report.grid import Entry, Grid, Line, number, plain, with_error
from dgpbench.report.result_table import (
    MARK,
    NOT_RERUN,
    community,
    community_note,
    few,
    missing_summary,
    not_recomputed,
    run_command,
)
from dgpbench.report.rules import (
    NON_GAUSSIAN,
    Difference,
    Summary,
    average_ranks,
    difference,
    median_difference,
    overlapping,
    summarise,
)

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
        gap, result = gap_of(cell, ours), verdict(table, (row, column))
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
                SHAPIRO: w.mean if w else None,
                "published": found.value if found else None,
                "published_stderr": found.error if found else None,
                "published_confidence": found.confidence if found else None,
                "published_bold": column in bold["published"][row],
                "difference": gap.value if gap else None,
                "difference_stderr": gap.error if gap else None,
                "difference_in_stderr": gap.ratio if gap else None,
                "margin": result.margin if result else None,
                "furthest": result.furthest if result else None,
                "verdict": result.kind if result else None,
                "deciding_runs": result.runs if result else None,
                "reason": cell.absent or "; ".join(f"split {k}: {v}" for k, v in cell.failed.items()),
                "command": run_command(cell, cell.missing[0]) if cell.missing else "",
            }
        )
    return pd.DataFrame(lines).astype({"n_expected": "Int64", "deciding_runs": "Int64"})


FROM_MEANS = "published footers: computed from the printed dataset means; printed: as printed"
ROUNDED = "published: bold by the same rule on the rounded printed values"


def rule_notes(table: Table, sides: tuple[str, ...]) -> list[str]:
    """How to read the numbers: means, marks, printed errors, source."""
    spec = table.spec
    better = {cell.place.better for cell in table.cells.values()}
    wanted = " or ".join(sorted(better))
    notes = [f"mean (standard error) over splits, n done / n expected; {wanted} is better"]
    if spec.ours == "perf":
        notes = ["ours: median of the turns, n turns; published: mean of 100 steps"]
    if sides and spec.bold != "none":
        notes.append("bold: error bars overlap those of the best")
        notes += [ROUNDED] if "published" in sides else []
    if spec.footers and "published" in sides and not table.published_frame().empty:
        notes.append(FROM_MEANS)
    if spec.italics and "ours" in sides:
        notes.append(f"italics: non-Gaussian, median Shapiro W below {NON_GAUSSIAN}")
    if any(c.published and c.published.doubtful for c in table.cells.values()):
        notes.append("?: doubtful reading of a damaged copy; shown, never compared with")
    errors = {text for c in table.cells.values() if c.published and (text := c.place.published.get("error"))}
    notes += [
        f"published error: {text}; comparisons turn it into a standard error" for text in sorted(errors)
    ]
    if spec.source:
        notes.append(f"published: {citations().get(spec.source, spec.source)}")
    return notes


def state_notes(table: Table, idle: int) -> list[str]:
    """How far ours has been run, what cannot be and why, failures; `idle` counts rows without a run."""
    notes = []
    if table.expected:
        others = {unit.record.key for cell in table.cells.values() for unit in community(cell.units)}
        among = f"; {len(others)} of the records by others" if others else ""
        notes.append(f"ours: {table.done} of {table.expected} splits done, {table.failed} failed{among}")
    notes += community_note(table.cells)
    if idle:
        notes.append(f"{idle} of {len(table.spec.rows)} rows have no run of ours")
    notes += [f"{', '.join(where)}: {reason}" for reason, where in _absent(table).items()]
    return [*notes, *table.failures()]


def _absent(table: Table) -> dict[str, list[str]]:
    """Columns and rows of which no cell can be run, and rows without data, by the reason; single cells that a
    spec leaves out are said in its own notes."""
    out: dict[str, list[str]] = {}
    for axis, names in ((1, table.spec.columns), (0, table.spec.rows)):
        for name in names:
            reasons = {cell.absent for at, cell in table.cells.items() if at[axis] == name}
            if axis == 0:
                reasons = {why for why in reasons if why and why.startswith("no dataset")} or reasons
            if len(reasons) == 1 and (reason := reasons.pop()):
                out.setdefault(reason, []).append(name)
    return out


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
        tuple(missing_summary(table.cells.values())),
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
        command = run_command(cell, cell.missing[0])
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
