"""A comparison as grids and text: the table, its columns, ranks and paired tests."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean

import pandas as pd

from dgpbench.errors import UserError
from dgpbench.evaluate.metric_table import LOGLIK
from dgpbench.evaluate.metrics import LOGLIK_KDE
from dgpbench.report import render as renderers
from dgpbench.report.comparison.compare_runs import Comparison, logarithms
from dgpbench.report.comparison.fairness import (
    DIFFERENT,
    columns_grid,
    in_words,
    marks,
    training_seconds,
    uneven,
)
from dgpbench.report.grid import NOTHING, Entry, Grid, Line, plain
from dgpbench.report.result_table import Cell, community_note, few, missing_summary, run_command
from dgpbench.report.rules import Summary, overlapping, summarise
from dgpbench.report.significance import (
    LEAST_SETS,
    OVER_DATASETS,
    ROPE,
    TEST_FORMATS,
    explain_tests,
    paired,
    rank_groups,
)

BOLD = "bold: error bars overlap those of the best"
NO_LOGLIK = "{}: predicts by draws, which have no {}; --metric {} is there for all"


def grids(comparison: Comparison) -> list[Grid]:
    """Everything there is to say, the table first."""
    found = [main_grid(comparison), columns_grid(comparison)]
    if comparison.metric.better and len(comparison.table.spec.columns) > 1:
        found += tests_grids(comparison)
    return found


def main_grid(comparison: Comparison) -> Grid:
    """Datasets by columns: mean (standard error) over splits, ranks and training seconds below."""
    table, metric = comparison.table, comparison.metric
    spec = table.spec
    marked = uneven(comparison)
    lines = []
    for row in spec.rows:
        label = f"{row} †" if row in marked else row
        lines.append(Line((label,), _entries(comparison, row)))
    lines += _footers(comparison)
    wanted = f"; {metric.better} is better" if metric.better else "; neither higher nor lower is better"
    errors = "standard error corrected for shared rows" if spec.corrected_errors else "plain standard error"
    notes = [f"mean ({errors}) over splits, n done / n expected{wanted}"]
    notes += [BOLD] if spec.bold == "row" and len(spec.columns) > 1 else []
    notes += [*community_note(table.cells), *marks(comparison), *comparison.notes]
    notes += [*_lacking(comparison), *table.failures()]
    between = "; " if any(", " in column for column in spec.columns) else ", "
    return Grid(
        spec.name,
        f"{spec.title}: {between.join(spec.columns)}",
        spec.units,
        ("dataset",),
        spec.columns,
        tuple(lines),
        frame(comparison),
        tuple(notes),
        tuple(missing_summary(table.cells.values())),
        hint="--run runs it all, or:",
    )


def common_summaries(comparison: Comparison, row: str) -> dict[str, Summary | None]:
    """Mean and error of each column over the splits that all columns with runs have."""
    cells = {column: comparison.table.cells[row, column] for column in comparison.table.spec.columns}
    held = [set(cell.values) for cell in cells.values() if cell.values]
    common = set.intersection(*held) if held else set()
    return {
        c: summarise([v for s, v in cell.values.items() if s in common], comparison.table.test_ratio(row, c))
        for c, cell in cells.items()
    }


def _bold(comparison: Comparison, row: str) -> set[str]:
    spec, better = comparison.table.spec, comparison.metric.better
    if better is None or spec.bold == "none" or len(spec.columns) < 2:
        return set()
    return overlapping(common_summaries(comparison, row), better)


def decimals(summaries: list[Summary]) -> int:
    """Digits after the point for one row: two of its smallest error, or four of its smallest value."""
    errors = [s.error for s in summaries if s.error]
    if errors:
        return min(4, max(0, math.ceil(-math.log10(min(errors))) + 1))
    sizes = [abs(s.mean) for s in summaries if s.mean]
    return min(4, max(0, 3 - math.floor(math.log10(min(sizes))))) if sizes else 2


def _entries(comparison: Comparison, row: str) -> tuple[Entry, ...]:
    table = comparison.table
    found = {column: table.ours(row, column) for column in table.spec.columns}
    digits = decimals([s for s in found.values() if s])
    bold = _bold(comparison, row)
    out = []
    for column, summary in found.items():
        cell = table.cells[row, column]
        out.append(
            Entry(
                shown(summary, digits) if summary else NOTHING,
                cell.count,
                column in bold,
                detail=_detail(cell),
                links=cell.links(),
                value=summary.mean if summary else None,
                others=cell.community > 0,
            )
        )
    return tuple(out)


def shown(summary: Summary, digits: int) -> str:
    """'1.23 (0.04)' with so many digits behind the point."""
    error = "" if summary.error is None else f" ({summary.error:.{digits}f})"
    text = f"{summary.mean:.{digits}f}"
    return (text[1:] if not text.strip("-0.") and text[0] == "-" else text) + error  # no minus zero


def _detail(cell: Cell) -> tuple[str, ...]:
    lines = [f"split {split} {text}" for split, text in cell.failed.items()]
    if cell.missing:
        lines.append(f"no record of splits {few(cell.missing)}: {run_command(cell, cell.missing[0])}")
    return (*lines, *([f"config {cell.config_key[:8]}"] if cell.config_key else []))


def _footers(comparison: Comparison) -> list[Line]:
    spec = comparison.table.spec
    lines = []
    ranks = rank_groups(comparison.table)[0] if comparison.metric.better else pd.DataFrame()
    if len(ranks) > 1 and int(ranks.n.min()):
        entries = []
        for column in spec.columns:
            if column not in ranks.index:
                entries.append(Entry())
                continue
            mean, error = float(ranks["mean"][column]), ranks["error"][column]
            summary = Summary(mean, None if error != error else float(error), 1)
            entries.append(Entry(shown(summary, 2), _sets(int(ranks.n[column])), value=mean))
        lines.append(Line(("average rank (1 = best)",), tuple(entries), "footer"))
    if comparison.metric.better and (wins := _wins(comparison)):
        entries = [Entry(wins.get(column, NOTHING)) for column in spec.columns]
        lines.append(Line((f"win/tie/loss against {spec.baseline}",), tuple(entries), "footer"))
    entries = [_seconds_entry(comparison, column) for column in spec.columns]
    if any(entry.value is not None for entry in entries):
        lines.append(Line(("training seconds",), tuple(entries), "footer"))
    return lines


def _sets(count: int) -> str:
    return f"{count} set{'' if count == 1 else 's'}"


def _wins(comparison: Comparison) -> dict[str, str]:
    """Win/tie/loss of each column over all its pairs of dataset and split with the baseline."""
    tests = paired(logarithms(comparison))
    counts = tests[tests.dataset != OVER_DATASETS].groupby("model")[["win", "tie", "loss"]].sum()
    return {column: "/".join(map(str, line)) for column, *line in counts.itertuples()}


def _seconds_entry(comparison: Comparison, column: str) -> Entry:
    spent = training_seconds(comparison, column)
    return Entry(f"{spent:.3g}", value=spent) if spent is not None else Entry()


def _lacking(comparison: Comparison) -> list[str]:
    """Columns whose done runs have no such metric, and one that they have."""
    notes = []
    for column in comparison.table.spec.columns:
        cells = [comparison.table.cells[row, column] for row in comparison.table.spec.rows]
        if any(cell.lacking for cell in cells):
            name = comparison.metric.name
            other = name.replace(LOGLIK, LOGLIK_KDE)
            has = any(u.record.metrics.get(other) is not None for c in cells for u in c.units)
            draws = name.startswith(LOGLIK) and "kde" not in name and has
            text = f"{column}: done without {name}; dgpbench rescore computes it where it applies"
            notes.append(NO_LOGLIK.format(column, name, other) if draws else text)
    return notes


def tests_grids(comparison: Comparison) -> list[Grid]:
    """Paired tests against the baseline on common splits, and what the ranks tell."""
    table, metric = logarithms(comparison), comparison.metric
    against = table.spec.baseline
    what = "differences of logarithms" if metric.ratio else "differences"
    notes = explain_tests(str(against), what, f"{ROPE} (1 %)" if metric.ratio else str(ROPE))
    ranks, cd, p = rank_groups(table)
    sets = int(ranks.n.min()) if len(ranks) else 0
    if cd is not None:
        friedman = f"; Friedman p = {p:.3g}" if p is not None else ""
        notes.append(
            f"average ranks over {sets} datasets: critical difference {cd:.2f} (Nemenyi, 5 %){friedman}"
        )
    elif sets:
        notes.append(
            f"no critical difference of ranks below {LEAST_SETS} datasets with all columns: {sets} here"
        )
    tests = paired(table, against).rename(columns={"model": "column"})
    title = f"Paired tests against {against}"
    return [plain(title, tests, TEST_FORMATS, name="comparison-tests", heads=2, notes=tuple(notes))]


def frame(comparison: Comparison) -> pd.DataFrame:
    """Every cell as one line of numbers: what --format csv prints."""
    lines = []
    for (row, column), cell in comparison.table.cells.items():
        config, summary = comparison.configs[row, column], comparison.table.ours(row, column)
        common = common_summaries(comparison, row)[column]
        done = [unit.record for unit in cell.units if unit.record.done]
        spent = [s for r in done if (s := r["training"].get("seconds")) is not None]
        wall = [s for r in done if (s := r["wall_seconds"]) is not None]
        lines.append(
            {
                "dataset": row,
                "column": column,
                "metric": comparison.metric.name,
                **cell.numbers(summary),
                "n_common": common.n if common else 0,
                "mean_common": common.mean if common else None,
                "bold": column in _bold(comparison, row),
                "training_seconds": fmean(spent) if spent else None,
                "seconds": fmean(wall) if wall else None,
                **in_words(config),
                "config_key": cell.config_key,
                "command": run_command(cell, cell.missing[0]) if cell.missing else "",
            }
        )
    return pd.DataFrame(lines)


def paper_grid(comparison: Comparison) -> Grid:
    """The table as a paper prints it: no counts where all cells have the same, no commands, short notes."""
    grid = main_grid(comparison)
    table, metric = comparison.table, comparison.metric
    counts = {len(cell.values) for cell in table.cells.values() if cell.values}
    even = len(counts) == 1
    lines = [replace(line, entries=tuple(_for_paper(e, even) for e in line.entries)) for line in grid.lines]
    over = f"over {counts.pop()} splits" if even else "over splits, number of splits behind it"
    direction = f"; {metric.better} is better" if metric.better else ""
    errors = ", corrected for rows that splits share" if table.spec.corrected_errors else ""
    notes = [f"Mean (standard error{errors}) {over}{direction}"]
    notes += ["Bold: error bars overlap those of the best"] if table.spec.bold == "row" else []
    notes += [f"† {DIFFERENT}"] if uneven(comparison) else []
    notes += community_note(table.cells)
    title = f"{metric.title} ({table.spec.units})" if table.spec.units else metric.title
    return replace(grid, title=title, caption="", lines=tuple(lines), notes=tuple(notes), missing=())


def _for_paper(entry: Entry, even: bool) -> Entry:
    done = entry.count.partition("/")[0]
    return replace(entry, count="" if even or "/" not in entry.count else done)


FORMATS = ("markdown", "latex", "csv", "html")


def render(comparison: Comparison, name: str) -> str:
    """Return the comparison in the format of that name; of CSV its first table alone."""
    if name not in FORMATS:
        raise UserError(f"no format '{name}'; allowed: {', '.join(FORMATS)}")
    if name == "latex":
        return _latex(comparison)
    found = grids(comparison)
    if name == "html":
        from dgpbench.report.page.frame import standalone

        return standalone(comparison.metric.title, "".join(map(renderers.to_html, found)))
    return "\n".join(renderers.render(grid, name) for grid in (found[:1] if name == "csv" else found))


def _latex(comparison: Comparison) -> str:
    """Return a booktabs table with caption and label; settings, budgets and marks are comments."""
    lines = []
    for line in columns_grid(comparison).data.to_dict("records"):
        column = line.pop("column")
        known = {name: v for name, v in line.items() if v not in ("", None) and v == v}
        facts = [f"{name} {v:.3g}" if isinstance(v, float) else f"{name} {v}" for name, v in known.items()]
        lines.append(f"{column}: {', '.join(facts)}")
    lines += [f"note: {text}" for text in marks(comparison)]
    if lacking := sum(len(cell.missing) for cell in comparison.table.cells.values()):
        lines.append(f"note: {lacking} splits have not been run")
    comments = "".join(f"% {' '.join(line.split())}\n" for line in lines)
    return comments + renderers.to_latex(paper_grid(comparison))
