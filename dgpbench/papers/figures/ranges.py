"""The same training curves in three ranges of the bound (thesis figure 4.8): all, later, around the best."""

from __future__ import annotations

import pandas as pd

from dgpbench.report.figures.picture import Nothing, Picture, legend_below, panels
from dgpbench.report.figures.traces import trace_frame

TITLES = ("all of it", "from where the worst ends", "around the best")
MARGIN = 0.05


def limits(data: pd.DataFrame) -> list[tuple[float, float]]:
    """Lower and upper end of the three ranges."""
    ends = data.sort_values("step").groupby("method").bound.last().sort_values()
    top, low = float(data.bound.max()), float(data.bound.min())
    near = float(ends.iloc[-min(2, len(ends))])  # the second best
    size = max(top - near, 0.01 * (top - float(ends.iloc[0])), 1e-6)
    out = [(low, top), (float(ends.iloc[0]), top), (near - 2.0 * size, top)]
    return [(a - MARGIN * max(b - a, 1e-6), b + MARGIN * max(b - a, 1e-6)) for a, b in out]


def picture(spec, units) -> Picture:
    data = trace_frame(units, strip=spec.strip).dropna(subset=["bound"])
    if data.empty:
        raise Nothing("these records hold no training trace")
    methods = sorted(set(data.method))

    def paint(figure, theme):
        axes = panels(figure, 1, 3)[0]
        for place, title, (low, high) in zip(axes, TITLES, limits(data), strict=True):
            for method, colour in zip(methods, theme["colours"], strict=False):
                line = data[data.method == method].sort_values("step")
                place.plot(line.step, line.bound, color=colour, lw=1.2, label=method)
            place.set_ylim(low, high)
            place.set_title(title, loc="left")
            place.set_xlabel("step")
            place.grid(lw=0.4)
        axes[0].set_ylabel("bound (nat)")
        legend_below(figure, *axes[0].get_legend_handles_labels())

    ends = data.sort_values("step").groupby("method").bound.last()
    note = "last bound: " + ", ".join(f"{name} {value:,.0f}" for name, value in ends.items())
    return Picture(spec.name, spec.title, data, paint, (9.6, 3.2), (note,))
