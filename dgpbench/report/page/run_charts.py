"""Charts of one run for its page: predicted against observed, intervals, PIT, classes, training curve."""

from __future__ import annotations

import numpy as np

from dgpbench.report.figures.traces import floor_of
from dgpbench.report.page.svg import Chart
from dgpbench.report.runs.kept import draws_over_x, predictions_of, trace_of
from dgpbench.report.runs.panels import bands, by_mean, filled, pit_shares, recorded_pit, thin
from dgpbench.store.scan import Unit

MOST_POINTS, MOST_INTERVALS, MOST_CLASSES = 400, 100, 12


def charts(unit: Unit) -> tuple[list[str], str]:
    """Charts of what was kept of a run as SVG, and what is not there and why."""
    record = unit.record
    columns, why = predictions_of(unit) if record["status"] == "done" else ({}, "")
    why = why.replace(f"{unit.folder}/", "")  # a page may be passed on
    found = _over_x(unit)
    if "mean" in columns:
        found.append(_predicted(columns))
    if "q05" in columns:
        found.append(_intervals(columns))
    if "predicted" in columns:
        found.append(_classes(columns["y"], columns["predicted"]))
    shares = pit_shares(columns["pit"]) if "pit" in columns else recorded_pit(record)
    if shares is not None:
        found.append(_pit(shares))
    if bins := record["details"].get("reliability"):
        found.append(_reliability(bins))
    trace = [line for line in trace_of(record) if None not in line]
    if len(trace) > 1:
        found.append(_curve(trace))
    return [chart.svg() for chart in found], why


def _over_x(unit: Unit) -> list[Chart]:
    """Bands of the kept draws over x, where there is one input."""
    kept = draws_over_x(unit)
    if kept is None:
        return []
    x, y, draws = kept
    order, q = bands(x, draws)
    x, y = x[order], y[order]
    chart = Chart("90 % and 50 % bands over x", "x", "y", x, np.concatenate([q[0], q[4], y]))
    chart.band(x, q[0], q[4], "wide")
    chart.band(x, q[1], q[3], "wide")
    chart.line(x, q[2], "curve")
    chart.points(x, y, "two", 1.8)
    return [chart]


def _predicted(columns: dict[str, np.ndarray]) -> Chart:
    kept = thin(len(columns["y"]), MOST_POINTS)
    mean, y = columns["mean"][kept], columns["y"][kept]
    both = np.concatenate([mean, y])
    chart = Chart("Predicted and observed", "predicted mean", "observed", both, both)
    ends = [both.min(), both.max()]
    chart.line(ends, ends, "reference")
    chart.points(mean, y, "one")
    return chart


def _intervals(columns: dict[str, np.ndarray]) -> Chart:
    y = columns["y"]
    inside, order = by_mean(columns, MOST_INTERVALS)
    at = np.arange(len(order))
    heights = np.concatenate([columns[name][order] for name in ("q05", "q95", "y")])
    title = f"90 % and 50 % intervals: {100 * inside.mean():.0f} % of {len(y):,} inside 90 %"
    chart = Chart(title, "test rows by predicted mean", "y", [-1, len(at)], heights)
    chart.segments(at, columns["q05"][order], columns["q95"][order], "thin")
    chart.segments(at, columns["q25"][order], columns["q75"][order], "thick")
    for part, kind in ((inside[order], "ink"), (~inside[order], "two")):
        chart.points(at[part], y[order][part], kind, 1.8)
    return chart


def _pit(shares: np.ndarray) -> Chart:
    density = shares * len(shares)
    chart = Chart("PIT: flat if calibrated", "PIT", "density", [0, 1], [0, max(1.1, float(density.max()))])
    chart.bars(np.linspace(0, 1, len(shares) + 1), density, "one")
    chart.line([0, 1], [1, 1], "level")
    return chart


def _classes(y: np.ndarray, chosen: np.ndarray) -> Chart:
    """Share of each class that was predicted right, with the rows it has."""
    present = np.unique(y)[:MOST_CLASSES]
    right = [float((chosen[y == c] == c).mean()) for c in present]
    title = f"Share predicted right, by class: {100 * (y == chosen).mean():.1f} % of {len(y):,}"
    chart = Chart(title, "class", "share", [-0.5, len(present) - 0.5], [0, 1])
    for i, share in enumerate(right):
        chart.bars([i - 0.4, i + 0.4], [share], "one")
    return chart


def _reliability(bins: dict[str, list]) -> Chart:
    x, y, count = filled(bins)
    chart = Chart("Reliability", "confidence", "accuracy", [*x, 1.03], [*x, *y, 1.05])  # room for the dots
    chart.line([x.min(), 1.0], [x.min(), 1.0], "reference")
    chart.line(x, y, "curve")
    for a, b, radius in zip(x, y, 2 + 6 * np.sqrt(count / count.max()), strict=True):
        chart.points([a], [b], "one", radius)
    return chart


def _curve(trace: list[list[float]]) -> Chart:
    steps, seconds, bound = np.array(trace, float).T
    low = floor_of([(steps, bound)]) if len(bound) > 3 else bound.min()
    title = f"Training: {int(steps[-1]):,} steps"
    chart = Chart(title, "training seconds", "bound (nat)", seconds, [low, bound.max()])
    chart.line(seconds, bound, "curve")
    return chart
