"""What the report opens with: which model is best, by how much, how certain that is, and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import NamedTuple

import numpy as np
import pandas as pd

from dgpbench.report.charts import Panel, table_charts
from dgpbench.report.charts.table_charts import LEVELS, SCORES, TIME, quantity
from dgpbench.report.charts.training_curves import CURVES, trace_frame, training
from dgpbench.report.charts.vega import group
from dgpbench.report.comparison.compare_runs import Comparison, logarithms
from dgpbench.report.comparison.methods import named_units
from dgpbench.report.leaderboard import board, by_dataset, intervals
from dgpbench.report.result_table import Table

RANKS = "Ranks among the models that ran on the same split, with 95 % bootstrap intervals."


class Lead(NamedTuple):
    """The best model against the next: mean difference (positive: better), its interval, splits won."""

    best: str
    next: str
    gap: float
    low: float
    high: float
    won: int
    pairs: int


def overview(comparison: Comparison, name: str) -> str:
    """Return the answer in a few numbers, then the charts behind it."""
    table, title = comparison.table, comparison.metric.title
    html = ""
    if comparison.metric.better is not None:
        charts = [*table_charts.ranks(table), *table_charts.heat(table, title)]
        html = tiles(comparison) + group(f"{name}-models", "Models by datasets", charts, RANKS)
    html += figure_charts(table, "dots", f"{name}-scores", f"{title} by dataset")
    return html + figure_charts(table, "frontier", f"{name}-seconds", "Score against training time")


def behaviour(comparison: Comparison, name: str) -> str:
    """Return calibration and training curves."""
    found = figure_charts(comparison.table, "calibration", f"{name}-calibration", "Calibration")
    columns = comparison.table.spec.columns
    return found + group(f"{name}-curves", "Training curves", _curves(comparison), CURVES, columns)


def _curves(comparison: Comparison) -> list[Panel]:
    units, names = named_units(comparison)
    data = trace_frame(units, named=lambda record: names[record.key])
    return training(data, comparison.table.spec.columns)


def lead(comparison: Comparison) -> Lead | None:
    """Return how far the best model is ahead of the next on common splits; None if none are common."""
    lines = [line for line in board(comparison.table).data.to_dict("records") if np.isfinite(line["rank"])]
    if len(lines) < 2:
        return None
    best, other = (str(line["method"]) for line in lines[:2])
    wide = logarithms(comparison).frame().pivot(index=["row", "split"], columns="column", values="value")
    gaps = (wide[best] - wide[other]).dropna()
    if gaps.empty:
        return None
    values = gaps.to_numpy(float)[:, None] * (-1.0 if comparison.metric.better == "lower" else 1.0)
    rows = gaps.index.get_level_values("row").to_numpy()
    low, high = intervals(values, rows)
    return Lead(
        best, other, by_dataset(values, rows)[0], low[0], high[0], int((values > 0).sum()), len(values)
    )


def tiles(comparison: Comparison) -> str:
    """Return the answers as tiles: the best model, its lead, how certain it is, what it costs."""
    table, metric = comparison.table, comparison.metric
    found = {line["method"]: line for line in pd.DataFrame(board(table).data).to_dict("records")}
    ahead = lead(comparison)
    if ahead is None:
        few = (
            "No two models have runs on the same split yet, so that none can be called better; "
            "dgpbench compare --run adds what is missing."
        )
        return f'<p class="notes">{escape(few)}</p>'
    best, other = found[ahead.best], found[ahead.next]
    sure = ahead.low > 0
    unit = metric.units.partition(",")[0] if not metric.ratio else ""
    amounts = [_amount(v, metric.ratio) for v in (ahead.gap, ahead.low, ahead.high)]
    sets = f"{best['datasets']} dataset{'s' if best['datasets'] > 1 else ''}"
    verdict = "clear" if sure else "not clear"
    answers = [
        ("Best", ahead.best, f"average rank {best['rank']:.2f} of {len(found)} models on {sets}"),
        ("Lead", f"{amounts[0]} {unit}".strip(), f"{metric.title} over the next, {ahead.next}"),
        (
            "Certainty",
            verdict,
            f"95 % interval {amounts[1]} to {amounts[2]}; better on {ahead.won} of {ahead.pairs} splits",
        ),
    ]
    if best["seconds"] is not None and np.isfinite(best["seconds"]):
        times = (
            f"{best['seconds'] / other['seconds']:.2g} times that of {ahead.next}" if other["seconds"] else ""
        )
        answers.append(
            ("Cost", f"{best['seconds']:.3g} s", f"training per run (median); {times}".rstrip("; "))
        )
    inside = "".join(
        f"<div><dt>{escape(head)}</dt><dd><strong>{escape(value)}</strong><span>{escape(more)}</span></dd></div>"
        for head, value, more in answers
    )
    return f'<dl class="tiles">{inside}</dl>'


def _amount(value: float, ratio: bool) -> str:
    """A difference with its sign; of errors, as a share of the smaller."""
    return f"{np.expm1(value):+.1%}" if ratio else f"{value:+.3g}"


GROUPS: dict[str, tuple[Callable[[Table], list[Panel]], str, bool]] = {  # charts, note, with a legend
    "dots": (lambda table: table_charts.scores(table, quantity(table)), SCORES, False),
    "ranks": (table_charts.ranks, RANKS, False),
    "frontier": (lambda table: table_charts.seconds(table, quantity(table)), TIME, True),
    "calibration": (table_charts.calibration, LEVELS, True),
}


def figure_charts(table: Table, kind: str, name: str, title: str) -> str:
    """Return the charts that show what a table's figure of this kind shows; none for other kinds."""
    if kind not in GROUPS:
        return ""
    charts, note, legend = GROUPS[kind]
    return group(name, title, charts(table), note, table.spec.columns if legend else ())
