"""Charts of one run for its page: predicted against observed, intervals, PIT, classes, training curve."""

from __future__ import annotations

import numpy as np

from dgpbench.errors import UserError
from dgpbench.report.figures.traces import floor_of
from dgpbench.report.page.svg import Chart
from dgpbench.report.runs.panels import pit_shares, recorded_pit, thin
from dgpbench.store import read
from dgpbench.store.scan import Unit

MOST_POINTS, MOST_INTERVALS, MOST_CLASSES = 400, 100, 12


def charts(unit: Unit) -> tuple[list[str], str]:
    """Charts of what was kept of a run as SVG, and what is not there and why."""
    record = unit.record
    columns, why = {}, ""
    if record["status"] == "done":
        try:
            columns = read.predictions(unit)
        except UserError as error:
            why = str(error).replace(f"{unit.folder}/", "")  # a page may be passed on
    if "output" in columns and columns["output"].any():
        first = columns["output"] == 0
        columns, why = {k: v[first] for k, v in columns.items()}, "several outputs: the first is drawn"
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
    trace = record["training"].get("trace") or ()
    if len(trace) > 1:
        found.append(_curve(trace))
    return [chart.svg() for chart in found], why


def _over_x(unit: Unit) -> list[Chart]:
    """Bands of the kept draws over x, where there is one input."""
    if unit.record["sizes"].get("inputs") != 1:
        return []
    try:
        kept = read.draws(unit)
    except UserError:
        return []
    first = np.flatnonzero(kept["output"] == 0)
    order = first[np.argsort(kept["x"][first, 0], kind="stable")]
    x, y = kept["x"][order, 0], kept["y"][order]
    q = np.quantile(kept["draws"][order], (0.05, 0.25, 0.5, 0.75, 0.95), axis=1)
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
    inside = (y >= columns["q05"]) & (y <= columns["q95"])
    order = np.argsort(columns["mean"], kind="stable")
    order = order[thin(len(order), MOST_INTERVALS)]
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
    full = [i for i, n in enumerate(bins["count"]) if n]
    x, y = ([bins[name][i] for i in full] for name in ("confidence", "accuracy"))
    chart = Chart("Reliability", "confidence", "accuracy", [*x, 1.03], [*x, *y, 1.05])  # room for the dots
    chart.line([min(x), 1.0], [min(x), 1.0], "reference")
    chart.line(x, y, "curve")
    for i, a, b in zip(full, x, y, strict=True):
        chart.points([a], [b], "one", 2 + 6 * (bins["count"][i] / max(bins["count"])) ** 0.5)
    return chart


def _curve(trace) -> Chart:
    lines = [line[:3] for line in trace if line[1] is not None and line[2] is not None]
    steps, seconds, bound = (np.array(column, float) for column in zip(*lines, strict=True))
    low = floor_of([(steps, bound)]) if len(bound) > 3 else bound.min()
    title = f"Training: {int(trace[-1][0]):,} steps"
    chart = Chart(title, "training seconds", "bound (nat)", seconds, [low, bound.max()])
    chart.line(seconds, bound, "curve")
    return chart
