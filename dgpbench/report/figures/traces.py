"""Training curves (thesis figures 3.2 to 3.8) from the traces in records: the bound by time or step.

A line of a trace is [step, seconds, bound], and [step, seconds, bound, step size] where one was recorded.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np
import pandas as pd

from dgpbench.report.figures.picture import Nothing, Picture, panels
from dgpbench.store.scan import Unit

COLUMNS = 3
LOWEST = 0.15  # quantile of the bounds at which a panel is cut off below


def picture(spec, units: Sequence[Unit]) -> Picture:
    data = trace_frame(units, spec.panel)
    if data.empty:
        raise Nothing("these records hold no training trace")
    names = sorted(data.panel.unique())
    methods = sorted(data.method.unique())
    two = spec.step_size and data.step_size.notna().any()
    columns = min(COLUMNS, len(names))
    blocks = math.ceil(len(names) / columns)
    rows = blocks * (2 if two else 1)

    def paint(figure, theme):
        axes = panels(figure, rows, columns)
        for place in axes.flat:
            place.set_visible(False)
        for i, name in enumerate(names):
            row, column = divmod(i, columns)
            part = data[data.panel == name]
            _panel(axes[row * (2 if two else 1), column], part, methods, spec.x, "bound", theme)
            axes[row * (2 if two else 1), column].set_title(name, loc="left")
            if two:
                _panel(axes[2 * row + 1, column], part, methods, spec.x, "step_size", theme)
        found = {
            label: handle
            for place in axes.flat
            for handle, label in zip(*place.get_legend_handles_labels(), strict=True)
        }
        figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=min(4, len(found)))

    notes = ("one line per split; the bound is a mean over the steps between two entries",)
    if spec.step_size and not two:
        notes += ("these records hold no step sizes: the lower row is left out",)
    return Picture(spec.name, spec.title, data, paint, (3.4 * columns + 0.4, 2.4 * rows + 0.9), notes)


def trace_frame(units: Sequence[Unit], panel: str = "dataset") -> pd.DataFrame:
    """One line per trace entry, with the panel and the method it belongs to."""
    names = [
        unit.record["experiment"] or f"{unit.record['model']}-{unit.record['inference']}" for unit in units
    ]
    shared = os.path.commonprefix(sorted(set(names))).rpartition("_")[0] if len(set(names)) > 1 else ""
    lines = []
    for unit, name in zip(units, names, strict=True):
        record = unit.record
        label = name[len(shared) :].lstrip("_") or name
        group, method = record["dataset"], label
        if panel == "experiment":  # likelihood_method: one panel per likelihood
            group, _, method = label.rpartition("_")
        for entry in record["training"].get("trace", ()):
            step, seconds, bound, *rest = entry
            size = rest[0] if rest else math.nan
            lines.append((group or record["dataset"], method, record["split"], step, seconds, bound, size))
    columns = ["panel", "method", "split", "step", "seconds", "bound", "step_size"]
    return pd.DataFrame(lines, columns=columns)


def _panel(axes, part: pd.DataFrame, methods: list[str], x: str, y: str, theme: dict) -> None:
    if y == "step_size" and not (part[y] > 0).any():
        return
    axes.set_visible(True)
    for (method, _), line in part.groupby(["method", "split"], sort=True):
        line = line[line[y].notna()]
        colour = theme["colours"][methods.index(method) % len(theme["colours"])]
        known = axes.get_legend_handles_labels()[1]
        label = None if method in known else method
        axes.plot(line[x], line[y], color=colour, lw=1, alpha=0.85, label=label)
    axes.set_xlabel("step" if x == "step" else "training seconds")
    if (part[x] > 0).any():
        axes.set_xscale("log")
    if y == "step_size":
        axes.set_yscale("log")
        axes.set_ylabel("step size")
        return
    axes.set_ylabel("bound (nat)")
    values = part[y].to_numpy(float)
    values = values[np.isfinite(values)]
    if len(values):
        low, high = np.quantile(values, LOWEST), values.max()
        margin = 0.05 * (high - low) or 1.0
        axes.set_ylim(low - margin, high + margin)
        entered = part[x][(part[y] >= low) & (part[x] > 0)]  # what lies below is cut off: so is its time
        if len(entered):
            axes.set_xlim(left=0.7 * entered.min())
    axes.grid(lw=0.4)
