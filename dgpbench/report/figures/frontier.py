"""Accuracy against training time: one panel per dataset, the undominated models joined."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dgpbench.evaluate.metric_table import known_metrics
from dgpbench.report.diagnostics import frontier_frame
from dgpbench.report.figures.log_ticks import plain_log_ticks
from dgpbench.report.figures.picture import (
    Nothing,
    Picture,
    columns_for,
    legend_below,
    panel_each,
    side_label,
    style_of,
)
from dgpbench.report.result_table import Table

COLUMNS = 4
FAR = 5.0  # distances between the quartiles beyond which a value is drawn at the edge, with its number
FAR_GAP = 8.0  # times the range of the values between the ends
ON_A_CORE = "training time on a core (s)"


def shown_range(values: Sequence[float]) -> tuple[float, float]:
    """Lowest and highest value that a panel has room for: one far from all others would flatten them."""
    low, high = np.quantile(values, [0.25, 0.75])
    kept = [v for v in values if low - FAR * (high - low) <= v <= high + FAR * (high - low)]
    return min(kept), max(kept)


def near_range(values: Sequence[float]) -> tuple[float, float]:
    """Return the range without ends that are far away even if most values are nearly equal.

    The lowest or highest value is dropped, again and again, while its distance from the next one is more than
    FAR_GAP times the range of the values between the ends.
    """
    found = np.sort(np.asarray(values, float))
    while len(found) > 2:
        inner = found[1:-1] if len(found) > 4 else None
        gaps = found[1] - found[0], found[-1] - found[-2]
        end = int(np.argmax(gaps))
        core = np.ptp(found[1:] if end == 0 else found[:-1]) if inner is None else np.ptp(inner)
        if not core or gaps[end] <= FAR_GAP * core:
            break
        found = found[1:] if end == 0 else found[:-1]
    return float(found[0]), float(found[-1])


def quantity(table: Table) -> str:
    """Return what an axis of the table's values shows, with units."""
    place = next(iter(table.cells.values())).place
    own = known_metrics().get(place.metric or "")
    title = own.title if own else ""
    return f"{title} ({table.spec.units})" if title and table.spec.units else title or table.spec.units


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

        handles: dict = {}
        for place, name in panel_each(figure, names, columns):
            part = data[data.dataset == name].sort_values("seconds")
            low, high = shown_range(part.value)
            part = part.assign(height=part.value.clip(low, high))
            front = part[part.frontier]
            place.plot(front.seconds, front.height, color=theme["faint"], lw=2, zorder=0)
            for line in part.itertuples():
                i = models.index(line.model)
                colour, marker = style_of(i, theme)
                inside = colour if line.frontier else theme["paper"]
                place.plot(line.seconds, line.height, marker, color=colour, mfc=inside)
                if line.height != line.value:
                    _tell(place, line)
                handles.setdefault(line.model, Line2D([], [], ls="", marker=marker, color=colour))
            place.set_xscale("log")
            place.margins(0.25, 0.2)
            plain_log_ticks(place.xaxis, *place.get_xlim())
            place.set_title(name, loc="left")
            place.grid(lw=0.4)
            place.set_xlabel(ON_A_CORE)
        side_label(figure, quantity(table))
        shown = [name for name in models if name in handles]
        legend_below(figure, [handles[name] for name in shown], shown)

    notes = (
        "filled: no other model is at least as good and as quick; time: seconds in which the run had a core, "
        "for models without a training loop those of the whole run",
        "with an arrow and its number: a value far from all others, drawn at the edge",
    )
    return Picture(spec.name, spec.title, data, paint, (3.0 * columns + 0.6, 2.4 * rows + 0.8), notes)


def _tell(place, line) -> None:
    """The number of a value that is drawn at the edge, with an arrow to where it would be."""
    below = line.value < line.height
    arrow, shift, side = ("↓", (0, -6), "top") if below else ("↑", (0, 6), "bottom")
    place.annotate(
        f"{arrow} {line.value:.3g}",
        (line.seconds, line.height),
        shift,
        textcoords="offset points",
        ha="center",
        va=side,
    )
