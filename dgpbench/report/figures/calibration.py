"""Calibration curves from the records: the share of PIT values below each level; of classes, the accuracy at
each confidence."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from dgpbench.report.figures.picture import (
    Nothing,
    Picture,
    columns_for,
    legend_below,
    legends_of,
    panel_each,
    side_label,
    style_of,
)
from dgpbench.report.result_table import Table

COLUMNS = 4


def picture(spec, table: Table) -> Picture:
    data, classes = curves(table), False
    if data.empty:
        data, classes = reliability_curves(table), True
    if data.empty:
        raise Nothing(f"table {table.spec.name}: no finished run with a PIT histogram or reliability data")
    names = [row for row in table.spec.rows if row in set(data.dataset)]
    columns = columns_for(len(names), COLUMNS)
    rows = math.ceil(len(names) / columns)
    models = list(table.spec.columns)

    def paint(figure, theme):
        drawn = panel_each(figure, names, columns, sharex=True, sharey=True)
        for place, name in drawn:
            place.axhline(0, color=theme["faint"], lw=2, zorder=0)
            for model, part in data[data.dataset == name].groupby("model", sort=False):
                colour, marker = style_of(models.index(model), theme)
                style = {"color": colour, "marker": marker, "ms": 4, "lw": 1}
                place.plot(part.level, part.share - part.level, label=model, **style)
            place.set_title(name, loc="left")
            place.set_xlabel("confidence" if classes else "level")
            place.tick_params(labelbottom=True)  # also where the panel below is empty
        text = "accuracy minus confidence" if classes else "share of PIT values below, minus the level"
        side_label(figure, text)
        found = legends_of(place for place, _ in drawn)
        legend_below(figure, found.values(), found.keys())

    notes = ("mean over splits; 0 is calibrated; down then up: too wide, up then down: too narrow",)
    if classes:
        notes = ("test rows of all splits, by the largest probability; 0 is calibrated, below: too sure",)
    return Picture(spec.name, spec.title, data, paint, (2.5 * columns + 0.6, 2.2 * rows + 0.8), notes)


def curves(table: Table) -> pd.DataFrame:
    """dataset, model, splits, level, share: cumulated mean histograms of PIT values."""
    lines = []
    for (row, column), cell in table.cells.items():
        found = [h for unit in cell.units if (h := unit.record["details"].get("pit_histogram"))]
        if found:
            share = np.concatenate([[0.0], np.cumsum(np.mean(found, axis=0))])
            level = np.linspace(0, 1, len(share))
            lines += [(row, column, len(found), x, y) for x, y in zip(level, share, strict=True)]
    return pd.DataFrame(lines, columns=["dataset", "model", "splits", "level", "share"])


def reliability_curves(table: Table) -> pd.DataFrame:
    """dataset, model, splits, level, share: mean confidence and accuracy of each bin that has rows."""
    lines = []
    for (row, column), cell in table.cells.items():
        found = [r for unit in cell.units if (r := unit.record["details"].get("reliability"))]
        if not found:
            continue
        count = np.array([r["count"] for r in found])  # splits, bins
        sums = [
            (count * np.array([[v or 0.0 for v in r[name]] for r in found])).sum(0)
            for name in ("confidence", "accuracy")
        ]
        total = count.sum(0)
        full = total > 0
        level, share = (s[full] / total[full] for s in sums)
        lines += [(row, column, len(found), x, y) for x, y in zip(level, share, strict=True)]
    return pd.DataFrame(lines, columns=["dataset", "model", "splits", "level", "share"])
