"""A table as grids: ours beside published, and the comparison cell by cell."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from dgpbench.report import commands
from dgpbench.report.cells import Cell
from dgpbench.report.grid import Entry, Grid, Line, number, plain, with_error
from dgpbench.report.published import Published, citations
from dgpbench.report.rules import (
    NON_GAUSSIAN,
    Summary,
    average_ranks,
    difference,
    median_difference,
    overlapping,
    summarise,
)
from dgpbench.report.table import Table

SHOWN_LINKS = 25
ROUNDED = "published: bold by the same rule on the rounded printed values"


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
    notes = [*_rule_notes(table, sides), *spec.notes, *_state_notes(table, idle)]
    return Grid(spec.name, _title(table), spec.units, ("", ""), spec.columns, tuple(lines), cell_frame(table),
                tuple(notes), tuple(commands.summary(table.cells.values())), _variant_blocks(table))


def comparison(table: Table) -> Grid:
    """One line per cell that has ours: ours, published, and the difference in combined standard errors."""
    spec = table.spec
    lines = []
    for (row, column), cell in table.cells.items():
        ours = table.ours(row, column)
        if ours is None and not cell.failed:
            continue
        found, fmt = cell.published, cell.place.format
        gap = difference(ours, found.value, found.error) if ours and found and not found.doubtful else None
        entries = (
            Entry(column), Entry(cell.count), replace(_ours_entry(table, cell, ours, False), count=""),
            _published_entry(found, False, fmt),
            Entry(f"{gap.value:+{fmt}}", value=gap.value) if gap else Entry(),
            Entry(f"{gap.ratio:+.1f}", value=gap.ratio) if gap and gap.ratio is not None else Entry(),
        )
        lines.append(Line((row,), entries))
    notes = ["difference: ours minus published; s.e.: the difference over the root of the sum of both squared errors",
             *(["a printed error of 0.00 may be anything below 0.005: large ratios say little there"]
               if spec.places and any(c.published and c.published.error == 0 for c in table.cells.values()) else []),
             *_rule_notes(table, ()), *spec.notes, *_state_notes(table, 0)]
    if not lines:
        notes.insert(0, "none of these cells has been run yet")
    return Grid(spec.name, f"{_title(table)}: ours against published", spec.units, ("",),
                ("model", "splits", "ours", "published", "difference", "in s.e."), tuple(lines), cell_frame(table),
                tuple(notes), tuple(commands.summary(table.cells.values())), _variant_blocks(table))


def cell_frame(table: Table) -> pd.DataFrame:
    """Every cell as one line of numbers: what --format csv prints."""
    bold = {side: {row: _bold(table, row, side) for row in table.spec.rows} for side in ("ours", "published")}
    lines = []
    for (row, column), cell in table.cells.items():
        ours, found = table.ours(row, column), cell.published
        gap = difference(ours, found.value, found.error) if ours and found and not found.doubtful else None
        w = summarise(cell.w.values())
        lines.append({
            "table": table.spec.name, "row": row, "column": column, "dataset": cell.place.dataset,
            "experiment": cell.place.experiment, "overrides": " ".join(cell.place.overrides),
            "metric": cell.place.metric, "config_key": cell.config_key, "n_done": len(cell.values),
            "n_expected": cell.expected, "n_failed": len(cell.failed), "mean": ours.mean if ours else None,
            "stderr": ours.error if ours else None, "bold": column in bold["ours"][row],
            "shapiro_w_median": w.mean if w else None, "published": found.value if found else None,
            "published_stderr": found.error if found else None,
            "published_confidence": found.confidence if found else None,
            "published_bold": column in bold["published"][row],
            "difference": gap.value if gap else None, "difference_stderr": gap.error if gap else None,
            "difference_in_stderr": gap.ratio if gap else None,
            "reason": cell.absent or "; ".join(f"split {k}: {v}" for k, v in cell.failed.items()),
            "command": commands.run_command(cell, cell.missing[0]) if cell.missing else "",
        })
    return pd.DataFrame(lines)


def _title(table: Table) -> str:
    spec = table.spec
    about = "; ".join(spec.variants[name]["about"] for name in spec.chosen)
    return f"{spec.title} [{', '.join(spec.chosen)}: {about}]" if about else spec.title


def _has(table: Table, row: str, side: str) -> bool:
    cells = [table.cells[row, column] for column in table.spec.columns]
    return any(cell.published if side == "published" else cell.values or cell.failed for cell in cells)


def _summary(table: Table, row: str, column: str, side: str) -> Summary | None:
    return table.ours(row, column) if side == "ours" else table.published(row, column)


def _bold(table: Table, row: str, side: str) -> set[str]:
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


def _entries(table: Table, row: str, side: str) -> tuple[Entry, ...]:
    bold = _bold(table, row, side)
    out = []
    for column in table.spec.columns:
        cell = table.cells[row, column]
        if side == "ours":
            out.append(_ours_entry(table, cell, table.ours(row, column), column in bold))
        else:
            out.append(_published_entry(cell.published, column in bold, cell.place.format, table.spec.minus_infinity))
    return tuple(out)


def _ours_entry(table: Table, cell: Cell, ours: Summary | None, bold: bool) -> Entry:
    spec, w = table.spec, summarise(cell.w.values())
    detail = [cell.absent] if cell.absent else []
    detail += [f"split {split} {text}" for split, text in cell.failed.items()]
    detail += [f"splits {_few(cell.lacking)} done without {cell.place.metric}; dgpbench rescore"] if cell.lacking else []
    detail += [f"no record of splits {_few(cell.missing)}: {commands.run_command(cell, cell.missing[0])}"] if cell.missing else []
    detail += [f"median Shapiro W {w.mean:.4f}"] if w else []
    detail += [f"experiment {cell.place.experiment}, config {cell.config_key[:8]}"] if cell.config_key else []
    links = tuple(dict.fromkeys(str(unit.path) for unit in cell.units))[:SHOWN_LINKS]
    if ours is None:
        return Entry(count=cell.count, detail=tuple(detail), links=links)
    if spec.blank_above is not None and ours.mean >= spec.blank_above:
        text = ""
    else:
        text = _clipped(ours.mean, ours.error, cell.place.format, spec.minus_infinity)
    italic = spec.italics and w is not None and w.mean < NON_GAUSSIAN
    return Entry(text, cell.count, bold, italic, False, tuple(detail), links, ours.mean)


def _published_entry(found: Published | None, bold: bool, fmt: str, floor: float | None = -1000.0) -> Entry:
    if found is None:
        return Entry()
    detail = (f"{found.source}, table {found.table}: {found.confidence}", found.note)
    return Entry(_clipped(found.value, found.error, fmt, floor), "", bold, False, found.doubtful, detail, (), found.value)


def _clipped(mean: float, error: float | None, fmt: str, floor: float | None) -> str:
    return "-∞" if floor is not None and mean < floor else with_error(mean, error, fmt)


def _footers(table: Table, side: str) -> list[Line]:
    """Median difference from the baseline and average ranks, over dataset-split pairs (ours) or dataset means."""
    spec = table.spec
    frame = table.frame() if side == "ours" else table.published_frame()
    if frame.empty or not spec.footers:
        return []
    better = next(iter(table.cells.values())).place.better
    whose, unit = ("ours", "pairs") if side == "ours" else ("published, from dataset means", "sets")
    lines = []
    if "median_difference" in spec.footers:
        gaps = median_difference(frame, spec.baseline)
        entries = [_footer(gaps, column, "median", None, unit) for column in spec.columns]
        lines.append(Line((f"median difference from {spec.baseline}", whose), tuple(entries), "footer"))
    if "ranks" in spec.footers:
        ranks = average_ranks(frame, better)
        entries = [_footer(ranks, column, "mean", "error", unit) for column in spec.columns]
        lines.append(Line((f"average rank ({len(ranks)} = best)", whose), tuple(entries), "footer"))
    if side == "published":
        lines += [line for name in spec.footers if (line := _printed(table, name))]
    return lines


def _footer(frame: pd.DataFrame, column: str, value: str, error: str | None, unit: str) -> Entry:
    if column not in frame.index or not frame.n[column]:
        return Entry(count=f"0 {unit}" if column in frame.index else "")
    spread = frame[error][column] if error else None
    spread = None if spread is None or spread != spread else float(spread)
    mean = float(frame[value][column])
    return Entry(with_error(mean, spread), f"{int(frame.n[column])} {unit}", value=mean)


def _printed(table: Table, name: str) -> Line | None:
    found = [table.printed_footer(name, column) for column in table.spec.columns]
    if not any(found):
        return None
    label = {"median_difference": f"median difference from {table.spec.baseline}", "ranks": "average rank"}[name]
    return Line((label, "printed"), tuple(_published_entry(f, False, ".2f") for f in found), "footer")


def _rule_notes(table: Table, sides: tuple[str, ...]) -> list[str]:
    spec = table.spec
    better = {cell.place.better for cell in table.cells.values()}
    notes = [f"mean (standard error) over splits, n done / n expected; {' or '.join(sorted(better))} is better"]
    if spec.ours == "perf":
        notes = ["ours: median of the turns, n turns; published: mean of 100 steps"]
    if sides and spec.bold != "none":
        notes.append("bold: error bars overlap those of the best" + (f"; {ROUNDED}" if "published" in sides else ""))
    if spec.italics and "ours" in sides:
        notes.append(f"italics: non-Gaussian, median Shapiro W below {NON_GAUSSIAN}")
    if any(c.published and c.published.doubtful for c in table.cells.values()):
        notes.append("?: doubtful reading of a damaged copy; shown, never compared with")
    errors = {c.place.published.get("error") for c in table.cells.values() if c.published} - {None}
    notes += [f"published error: {text}, turned into a standard error" for text in sorted(errors)]
    if spec.source:
        notes.append(f"published: {citations()[spec.source]}")
    return notes


def _state_notes(table: Table, idle: int) -> list[str]:
    notes = []
    if table.expected:
        notes.append(f"ours: {table.done} of {table.expected} splits done, {table.failed} failed")
    if idle:
        notes.append(f"{idle} of {len(table.spec.rows)} rows have no run of ours")
    reasons: dict[str, list[str]] = {}
    for cell in table.cells.values():
        if cell.absent:
            column = cell.place.row if "dataset" in cell.absent else cell.place.column
            reasons.setdefault(cell.absent, []).append(column)
    notes += [f"{', '.join(dict.fromkeys(where))}: {reason}" for reason, where in reasons.items()]
    notes += [f"{at[0]}, {at[1]}, split {split} {text}"
              for at, cell in table.cells.items() for split, text in cell.failed.items()]
    return notes


def _variant_blocks(table: Table) -> tuple[Grid, ...]:
    if not table.variants:
        return ()
    lines = []
    for variant in table.variants:
        found = summarise(variant.values.values())
        shown = with_error(found.mean, found.error) if found else number(None)
        lines.append({"dataset": variant.dataset, "column": variant.column, "variant": variant.name,
                      "value": shown, "done": len(variant.values), "failed": variant.failed,
                      "config": variant.config_key[:8]})
    return (plain("Variants: other settings, never averaged in", pd.DataFrame(lines), name=f"{table.spec.name}-variants"),)


def _few(splits: list[int]) -> str:
    return ", ".join(map(str, splits[:5])) + (f", ... ({len(splits)} in all)" if len(splits) > 5 else "")
