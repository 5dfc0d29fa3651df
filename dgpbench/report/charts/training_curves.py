"""Training curves (thesis figures 3.2 to 3.8) from the traces in records: the bound by time or step.

A line of a trace is [step, seconds, bound], and [step, seconds, bound, step size, test log-likelihood] where
these were recorded; either may be null.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dgpbench.report.charts import Axis, Layer, Nothing, Panel, Rows, thin
from dgpbench.report.charts.picture import Picture, PictureSpec, panels_picture
from dgpbench.store.record import Record
from dgpbench.store.scan import Unit

MORE = ("step_size", "test_loglik")  # further fields of an entry
LABELS = {
    "step": "step",
    "seconds": "training seconds",
    "cpu_seconds": "processor seconds",
    "bound": "bound (nat)",
    "step_size": "step size",
    "test_loglik": "test log-likelihood",
}
POINTS = 120  # drawn of a curve
MOST_LINES = 5  # curves of one model in one panel
COLUMNS = 3
LOWEST = 0.15  # quantile of the bounds at which a panel is cut off below,
SETTLED = 0.2  # or the lowest line after this share of its steps, if that is higher
WHOLE = 10.0  # times the range above the cut: a range up to which nothing is cut off
LEAST_SMOOTHED = 20  # entries of a trace
NOISY = 0.1  # share of steps down
CURVES = "Smoothed, with the raw values behind; each line is a split."

Named = Callable[[Record], tuple[str, str]]  # from a record to its panel and method


def trace_picture(spec: PictureSpec, units: Sequence[Unit], named: Named | None = None) -> Picture:
    """Draw training curves; panels and methods go by the experiments' names, or as `named` says."""
    data = trace_frame(units, spec.panel, spec.strip, named)
    if data.empty:
        raise Nothing("these records hold no training trace")
    panels = trace_panels(data, spec, named is None)
    if not panels:
        raise Nothing("these records hold no training trace with times after the start")
    notes: tuple[str, ...] = (
        "one line per split, smoothed, raw values behind; a bound is a mean over the steps since the last",
    )
    if spec.lower and data[spec.lower].isna().all():
        notes += (f"these records hold no {LABELS[spec.lower]}: the lower row is left out",)
    columns = min(COLUMNS, data.panel.nunique())
    return panels_picture(spec.name, spec.title, panels, data, notes, columns, (3.4, 2.4))


def trace_panels(data: pd.DataFrame, spec: PictureSpec, ordered: bool = True) -> list[Panel]:
    """Return panels of the bound, then of the figure's other quantity, `ordered` by name."""
    models = list(dict.fromkeys(data.method))
    if ordered:
        data, models = data.sort_values("panel", kind="stable"), sorted(models)
    found = training(data, models, spec.x)
    if spec.lower and data[spec.lower].notna().any():
        found += training(data, models, spec.x, spec.lower)
    return found


def training(data: pd.DataFrame, columns: Sequence[str], x: str = "seconds", y: str = "bound") -> list[Panel]:
    """Return a panel per dataset of `trace_frame`: each curve smoothed, with its raw values behind."""
    found = []
    for name in dict.fromkeys(data.panel):
        lines: list[tuple[str, Any, pd.DataFrame]] = []
        for (method, split), part in data[data.panel == name].groupby(["method", "split"], sort=False):
            known = np.isfinite(part[x]) & np.isfinite(part[y]) & (part[x] > 0)
            if y == "step_size":
                known &= part[y] > 0
            part = part[known].sort_values("step")
            if len(part) > 1 and sum(line[0] == method for line in lines) < MOST_LINES:
                lines.append((method, split, part))
        if lines:
            found.append(_curves(name, lines, tuple(columns), x, y))
    return found


def _curves(
    name: str, lines: Sequence[tuple[str, Any, pd.DataFrame]], columns: tuple[str, ...], x: str, y: str
) -> Panel:
    rows: Rows = []
    for number, (method, split, part) in enumerate(lines):
        raw, smoothed = part[y].to_numpy(float), smooth(part[y].to_numpy(float))
        for i in _spread(part[x].to_numpy(float)):
            rows.append(
                {
                    "model": method,
                    "line": number,
                    "split": str(split),
                    "x": float(part[x].iloc[i]),
                    "raw": float(raw[i]),
                    "y": float(smoothed[i]),
                    "step": int(part.step.iloc[i]),
                    "end": bool(i == len(part) - 1),
                }
            )
    low, high = view_of([(part.step.to_numpy(float), part[y].to_numpy(float)) for _, _, part in lines])
    if y == "step_size":
        low, high = (float(find([row["y"] for row in rows])) for find in (min, max))
    seen = [row["x"] for row in rows if row["y"] >= low]
    tips = {"model": "model", "split": "split", "step": "step", "y": LABELS[y], "raw": "not smoothed"}
    layers = (
        Layer("line", y="raw", by="line", size=1, opacity=0.3),
        Layer("line", by="line", size=2),
        Layer("point", size=60, opacity=0, tips=tips),
        Layer("point", only="end", size=80, tips=tips),
    )
    horizontal = Axis(LABELS[x], (min(seen), 1.1 * max(seen)), log=True)
    return Panel(name, rows, horizontal, Axis(LABELS[y], (low, high), log=y == "step_size"), layers, columns)


def _spread(x: np.ndarray) -> np.ndarray:
    """Return at most POINTS positions, half of them evenly spread and half evenly on a logarithmic axis."""
    if len(x) <= POINTS:
        return np.arange(len(x))
    places = np.geomspace(max(x[0], 1e-9), x[-1], POINTS // 2)
    near = np.searchsorted(x, places).clip(0, len(x) - 1)
    return np.unique(np.concatenate([thin(len(x), POINTS // 2), near]))


def trace_frame(
    units: Sequence[Unit], panel: str = "dataset", strip: str = "", named: Named | None = None
) -> pd.DataFrame:
    """One line per trace entry, with the panel and the method it belongs to.

    The method is what stands behind `strip` in the experiment's name; where panels are experiments, the first
    word of it is the panel. cpu_seconds are the step times the run's mean of processor time for one step.
    """
    lines = []
    for unit in units:
        record, training = unit.record, unit.record.training
        group, method = named(record) if named else _named(record, panel, strip)
        spent = training.get("cpu_seconds")
        each = math.nan if spent is None else spent / max(training.get("steps") or 0, 1)
        for entry in training.get("trace", ()):
            step, seconds, bound, size, test = [*entry, *[None] * 5][:5]
            if step is not None:  # others may have written such entries
                lines.append((group, method, record.split, step, seconds, each * step, bound, size, test))
    names = ["panel", "method", "split", "step", "seconds", "cpu_seconds", "bound", *MORE]
    frame = pd.DataFrame(lines, columns=names)
    return frame.astype({name: float for name in names[4:]})


def _named(record: Record, panel: str, strip: str) -> tuple[str, str]:
    name = record.experiment or f"{record.model}-{record.inference}"
    group, method = record.dataset, name.removeprefix(strip)
    if panel == "experiment":  # likelihood_method: one panel per likelihood
        group, _, method = method.partition("_")
        return group, method
    return group, method.removeprefix("student_")  # the likelihood goes with the dataset


def floor_of(lines: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
    """Where a panel of curves (steps, values) begins below: the steep start would hide all that follows."""
    kept = [(steps[np.isfinite(values)], values[np.isfinite(values)]) for steps, values in lines]
    kept = [(steps, values) for steps, values in kept if len(values)]
    later = [values[np.searchsorted(steps, SETTLED * steps[-1])] for steps, values in kept]
    return float(max(np.quantile(np.concatenate([values for _, values in kept]), LOWEST), min(later)))


def view_of(lines: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float]:
    """Return the lowest and highest value that a panel of curves (steps, values) shows.

    The start is cut off only where it would take most of the panel.
    """
    values = np.concatenate([values[np.isfinite(values)] for _, values in lines])
    floor, lowest, high = floor_of(lines), float(values.min()), float(values.max())
    low = lowest if high - lowest <= WHOLE * (high - floor) else floor
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


def smooth(values: np.ndarray) -> np.ndarray:
    """Return running means of running medians over a tenth of the values.

    Windows are centred and shrink towards the start, where curves are steep. A curve with few values, or one
    that hardly ever falls, is returned as it is.
    """
    if len(values) < LEAST_SMOOTHED or np.mean(np.diff(values) < 0) < NOISY:
        return values
    half = max(1, len(values) // 20)
    for take in (np.median, np.mean):
        reach = np.minimum(np.arange(len(values)), half)
        values = np.array([take(values[i - r : i + r + 1]) for i, r in enumerate(reach)])
    return values
