"""Training curves (thesis figures 3.2 to 3.8) from the traces in records: the bound by time or step.

A line of a trace is [step, seconds, bound], and [step, seconds, bound, step size, test log-likelihood] where
these were recorded; either may be null.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from dgpbench.evaluate.metric_table import LOGLIK
from dgpbench.report.figures.log_ticks import plain_log_ticks
from dgpbench.report.figures.picture import (
    Nothing,
    Picture,
    columns_for,
    legend_below,
    legends_of,
    panels,
    style_of,
)
from dgpbench.store.scan import Unit

COLUMNS = 3
MORE = ("step_size", LOGLIK)  # what an entry may have besides
LABELS = {
    "step": "step",
    "seconds": "training seconds",
    "cpu_seconds": "processor seconds",
    "bound": "bound (nat)",
    "step_size": "step size",
    LOGLIK: "test log-likelihood",
}
LOWEST = 0.15  # quantile of the bounds at which a panel is cut off below,
START = 0.7  # of the first x that is seen: where a panel begins
SETTLED = 0.2  # or where the lowest line is after this share of its steps, if that is higher
WHOLE = 10.0  # times what is above that: a range up to which nothing is cut off
LEAST_SMOOTHED = 20  # entries of a trace
NOISY = 0.1  # share of steps down


Named = Callable[[dict], tuple[str, str]]  # from a record to its panel and method


def picture(spec, units: Sequence[Unit], named: Named | None = None) -> Picture:
    """Panels and methods go by the experiments' names, or as `named` says, in the order of the units."""
    data = trace_frame(units, spec.panel, spec.strip, named)
    if data.empty:
        raise Nothing("these records hold no training trace")
    names, methods = (list(dict.fromkeys(data[column])) for column in ("panel", "method"))
    if named is None:
        names, methods = sorted(names), sorted(methods)
    shown = ["bound"]
    if spec.lower and data[spec.lower].notna().any():
        shown.append(spec.lower)
    columns = columns_for(len(names), COLUMNS)
    rows = math.ceil(len(names) / columns) * len(shown)

    def paint(figure, theme):
        axes = panels(figure, rows, columns)
        for place in axes.flat:
            place.set_visible(False)
        for i, name in enumerate(names):
            row, column = divmod(i, columns)
            part = data[data.panel == name]
            places = [axes[row * len(shown) + below, column] for below in range(len(shown))]
            starts = [
                _panel(place, part, methods, spec.x, y, theme) for place, y in zip(places, shown, strict=True)
            ]
            places[0].set_title(name, loc="left")
            _same_x([place for place in places if place.get_visible()], [s for s in starts if s])
        found = legends_of(axes.flat)
        drawn = [name for name in methods if name in found]
        handles = [found[name] for name in drawn]
        legend_below(figure, handles, drawn)

    notes: tuple[str, ...] = (
        "one line per split, smoothed, raw values behind; a bound is a mean over the steps since the last",
    )
    if spec.lower and len(shown) == 1:
        notes += (f"these records hold no {LABELS[spec.lower]}: the lower row is left out",)
    return Picture(spec.name, spec.title, data, paint, (3.4 * columns + 0.4, 2.4 * rows + 0.9), notes)


def trace_frame(
    units: Sequence[Unit], panel: str = "dataset", strip: str = "", named: Named | None = None
) -> pd.DataFrame:
    """One line per trace entry, with the panel and the method it belongs to.

    The method is what stands behind `strip` in the experiment's name; where panels are experiments, the first
    word of it is the panel. cpu_seconds are the step times the run's mean of processor time for one step.
    """
    lines = []
    for unit in units:
        record, training = unit.record, unit.record["training"]
        group, method = named(record) if named else _named(record, panel, strip)
        spent = training.get("cpu_seconds")
        each = math.nan if spent is None else spent / max(training.get("steps") or 0, 1)
        for entry in training.get("trace", ()):
            step, seconds, bound, size, test = [*entry, *[None] * 5][:5]
            if step is not None:  # others may have written such entries
                lines.append((group, method, record["split"], step, seconds, each * step, bound, size, test))
    names = ["panel", "method", "split", "step", "seconds", "cpu_seconds", "bound", *MORE]
    frame = pd.DataFrame(lines, columns=names)
    return frame.astype({name: float for name in names[4:]})


def _named(record: dict, panel: str, strip: str) -> tuple[str, str]:
    name = record["experiment"] or f"{record['model']}-{record['inference']}"
    group, method = record["dataset"], name.removeprefix(strip)
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


def _same_x(places: list, starts: list[float]) -> None:
    """Panels above each other begin and end at the same x, with numbers that can be read."""
    if not starts:
        return
    low, high = START * min(starts), max(place.get_xlim()[1] for place in places)
    for place in places:
        place.set_xlim(low, high)
        plain_log_ticks(place.xaxis, low, high)


def _panel(axes, part: pd.DataFrame, methods: list[str], x: str, y: str, theme: dict) -> float | None:
    """Draw the lines of one panel; returns the first x above 0 that is seen, if any."""
    if not part[y].notna().any() or (y == "step_size" and not (part[y] > 0).any()):
        return None
    axes.set_visible(True)
    for (method, _), line in part.groupby(["method", "split"], sort=True):
        line = line[(line[y] > 0) if y == "step_size" else line[y].notna()]
        known = axes.get_legend_handles_labels()[1]
        label = None if method in known else method
        paint_curve(axes, line[x], line[y], theme, methods.index(method), label)
    axes.set_xlabel(LABELS[x])
    axes.set_ylabel(LABELS[y])
    if (part[x] > 0).any():
        axes.set_xscale("log")
    if y == "step_size":
        axes.set_yscale("log")
        return _first(part[x][part[y] > 0])
    if np.isfinite(part[y].to_numpy(float)).any():
        groups = part.groupby(["method", "split"], sort=True)
        low, high = view_of([(line.step.to_numpy(float), line[y].to_numpy(float)) for _, line in groups])
        axes.set_ylim(low, high)
        part = part[part[y] >= low]  # what lies below is cut off: so is its time
    axes.grid(lw=0.4)
    return _first(part[x])


def paint_curve(axes, x: pd.Series, y: pd.Series, theme: dict, number: int, label: str | None) -> None:
    """Draw a curve smoothed, its raw values behind, in the colour and with the marker of a model's number."""
    colour, marker = style_of(number, theme)
    axes.plot(x, y, color=colour, lw=0.7, alpha=0.35)
    every = max(1, len(y) // 4)
    style = {"marker": marker, "ms": 4, "markevery": (every // 2, every)}
    axes.plot(x, smooth(y.to_numpy(float)), color=colour, lw=1.4, label=label, **style)


def _first(x: pd.Series) -> float | None:
    return float(x[x > 0].min()) if (x > 0).any() else None
