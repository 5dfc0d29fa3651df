"""Accuracy against training time: one panel per dataset, the undominated models joined."""

from __future__ import annotations

import math

from dgpbench.report.extras import frontier_frame
from dgpbench.report.figures.picture import Nothing, Picture, panels
from dgpbench.report.table import Table

COLUMNS = 4


def picture(spec, table: Table) -> Picture:
    data = frontier_frame(table)
    if data.empty:
        raise Nothing(f"table {table.spec.name}: no finished run with its training seconds")
    names = [row for row in table.spec.rows if row in set(data.dataset)]
    columns = min(COLUMNS, len(names))
    rows = math.ceil(len(names) / columns)
    models = list(table.spec.columns)

    def paint(figure, theme):
        axes = panels(figure, rows, columns)
        for place, name in zip(axes.flat, names, strict=False):
            part = data[data.dataset == name].sort_values("seconds")
            front = part[part.frontier]
            place.plot(front.seconds, front.value, color=theme["faint"], lw=2, zorder=0)
            for line in part.itertuples():
                colour = theme["colours"][models.index(line.model) % len(theme["colours"])]
                place.plot(
                    line.seconds,
                    line.value,
                    "o",
                    color=colour,
                    mfc=colour if line.frontier else theme["paper"],
                )
                place.annotate(
                    line.model, (line.seconds, line.value), (4, 4), textcoords="offset points", fontsize=7
                )
            place.set_xscale("log")
            place.margins(0.25, 0.2)
            place.set_title(name, loc="left")
            place.grid(lw=0.4)
            place.set_xlabel("training seconds")
        for place in axes.flat[len(names) :]:
            place.set_visible(False)
        axes[0, 0].set_ylabel(table.spec.units)

    notes = (
        "filled: no other model is at least as good and as quick; seconds as recorded, whatever else ran "
        "beside it",
    )
    return Picture(spec.name, spec.title, data, paint, (3.0 * columns + 0.6, 2.5 * rows + 0.5), notes)
