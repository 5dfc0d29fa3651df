"""Accuracy against training time: one panel per dataset, the undominated models joined."""

from __future__ import annotations

import math
from itertools import pairwise

from dgpbench.report.figures.picture import Nothing, Picture, columns_for, legend_below, panels, side_label
from dgpbench.report.frontier import frontier_frame
from dgpbench.report.table import Table

COLUMNS = 4
MOST_TICKS = 4  # labels that fit below a panel
LEAST_GAP = 0.17  # between two of them, as a share of the axis
MARKERS = "osD^vPX*h"


def picture(spec, table: Table) -> Picture:
    data = frontier_frame(table)
    if data.empty:
        raise Nothing(f"table {table.spec.name}: no finished run with its training seconds")
    names = [row for row in table.spec.rows if row in set(data.dataset)]
    columns = columns_for(len(names), COLUMNS)
    rows = math.ceil(len(names) / columns)
    models = list(table.spec.columns)

    def paint(figure, theme):
        from matplotlib.lines import Line2D
        from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

        handles: dict = {}
        axes = panels(figure, rows, columns)
        for place, name in zip(axes.flat, names, strict=False):
            part = data[data.dataset == name].sort_values("seconds")
            front = part[part.frontier]
            place.plot(front.seconds, front.value, color=theme["faint"], lw=2, zorder=0)
            for line in part.itertuples():
                i = models.index(line.model)
                colour = theme["colours"][i % len(theme["colours"])]
                inside = colour if line.frontier else theme["paper"]
                marker = MARKERS[i % len(MARKERS)]
                place.plot(line.seconds, line.value, marker, color=colour, mfc=inside)
                handles.setdefault(line.model, Line2D([], [], ls="", marker=marker, color=colour))
            place.set_xscale("log")
            place.margins(0.25, 0.2)
            place.xaxis.set_major_locator(FixedLocator(second_ticks(*place.get_xlim())))
            place.xaxis.set_major_formatter("{x:g}")
            place.xaxis.set_minor_locator(NullLocator())
            place.xaxis.set_minor_formatter(NullFormatter())
            place.set_title(name, loc="left")
            place.grid(lw=0.4)
            place.set_xlabel("training seconds")
        for place in axes.flat[len(names) :]:
            place.set_visible(False)
        side_label(figure, table.spec.units)
        shown = [name for name in models if name in handles]
        legend_below(figure, [handles[name] for name in shown], shown)

    notes = (
        "filled: no other model is at least as good and as quick; seconds as recorded, whatever else ran "
        "beside it",
    )
    return Picture(spec.name, spec.title, data, paint, (3.0 * columns + 0.6, 2.4 * rows + 0.8), notes)


def second_ticks(low: float, high: float) -> list[float]:
    """At most MOST_TICKS round numbers of a logarithmic axis: as many as fit, powers of ten last."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    powers = range(first, last + 1)
    for digits in (range(1, 10), (1, 2, 5), (1, 3), (1,)):
        ticks = [float(f"{digit}e{power}") for power in powers for digit in digits]
        ticks = [tick for tick in ticks if low <= tick <= high]
        room = (high / low) ** LEAST_GAP
        apart = all(after >= room * before for before, after in pairwise(ticks))
        if len(ticks) <= MOST_TICKS and apart:
            return ticks or [float(f"{math.sqrt(low * high):.1g}")]
    step = math.ceil(len(ticks) / MOST_TICKS)
    return ticks[::step]
