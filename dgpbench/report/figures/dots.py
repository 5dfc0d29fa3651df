"""Dot and whisker per dataset (thesis figures 2.4, 4.6): mean and standard error, ours beside published."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dgpbench.report.figures.frontier import near_range, quantity
from dgpbench.report.figures.picture import Nothing, Picture, columns_for, panel_each
from dgpbench.report.result_table import Table

if TYPE_CHECKING:
    import pandas as pd

KEPT = [
    "row",
    "column",
    "n_done",
    "n_expected",
    "n_failed",
    "mean",
    "stderr",
    "published",
    "published_stderr",
]
COLUMNS = 4


def picture(spec, table: Table) -> Picture:
    data = _numbers(table)
    rows = [
        row for row in table.spec.rows if data[data.row == row][["mean", "published"]].notna().any(axis=None)
    ]
    if not rows:
        raise Nothing(f"table {table.spec.name} has no run and nothing published")
    columns = columns_for(len(rows), COLUMNS)
    height = 0.9 + math.ceil(len(rows) / columns) * (0.55 + 0.19 * len(table.spec.columns))
    label = 0.07 * max(map(len, table.spec.columns))  # inches of the names on the left

    def paint(figure, theme):
        drawn = panel_each(figure, rows, columns, sharey=True)
        for place, row in drawn:
            _panel(place, data[data.row == row].set_index("column"), table, theme)
            place.set_title(row, loc="left")
        if data.published.notna().any():
            handles, labels = drawn[0][0].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside lower right", ncols=3)
        figure.supxlabel(quantity(table), fontsize=8)

    return Picture(
        spec.name, spec.title, data, paint, (max(3.6, 2.3 * columns + label), height), _notes(table)
    )


def _numbers(table: Table) -> pd.DataFrame:
    """Our mean and error of each cell, and the published ones."""
    import pandas as pd

    lines = []
    for (row, column), cell in table.cells.items():
        theirs = table.published(row, column)
        lines.append(
            {
                "row": row,
                "column": column,
                **cell.numbers(table.ours(row, column)),
                "published": theirs.mean if theirs else None,
                "published_stderr": theirs.error if theirs else None,
            }
        )
    return pd.DataFrame(lines).astype({"n_expected": "Int64"})[KEPT]


def _compares(table: Table) -> bool:
    return any(table.published(*at) for at in table.cells)


def _panel(axes, cells, table: Table, theme: dict) -> None:
    names = list(table.spec.columns)
    ours, theirs = theme["colours"][1], theme["colours"][0]
    hollow = {"mfc": theme["paper"], "color": theirs, "label": "published"}
    series = [
        ("published", "published_stderr", 0.16, hollow),
        ("mean", "stderr", -0.16, {"color": ours, "label": "ours"}),
    ]
    if not _compares(table):
        series = [("mean", "stderr", 0.0, {"color": ours})]
    drawn = cells[[column for column, *_ in series]].astype(float).to_numpy()
    low, high = near_range(drawn[np.isfinite(drawn)])
    ends: list[float] = []  # of whiskers
    for column, error, offset, style in series:
        at = np.array([names.index(name) + offset for name in cells.index])
        values = cells[column].astype(float).to_numpy()
        far = (values < low) | (values > high)
        bars = np.where(far, 0.0, cells[error].astype(float).fillna(0.0))
        shown = values.clip(low, high)
        axes.errorbar(shown, at, xerr=bars, fmt="o", ms=4, capsize=2, lw=1, **style)
        ends += [*(shown - bars), *(shown + bars)]
        for value, x, y in zip(values[far], shown[far], at[far], strict=True):
            _tell(axes, value, x, y)
    span = (high - low) or 0.1 * max(abs(high), 1.0)
    kept = np.array(ends)[np.isfinite(ends)]
    start, end = max(low - span, kept.min()), min(high + span, kept.max())
    axes.set_xlim(start - 0.06 * (end - start or span), end + 0.06 * (end - start or span))
    base = table.spec.baseline
    for column, colour in (("published", theirs), ("mean", ours)):
        if base in cells.index and cells[column].notna()[base]:
            axes.axvline(
                float(np.clip(cells[column][base], low, high)), color=colour, lw=0.8, ls=":", zorder=0
            )
    axes.set_yticks(range(len(names)), [name.replace("$", r"\$") for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="y", lw=0.4)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    axes.locator_params(axis="x", nbins=4)


def _tell(axes, value: float, x: float, y: float) -> None:
    """Write the number of a value at the edge, with an arrow to where it would be."""
    left = value < x
    text, shift = (f"← {value:.3g}", 6) if left else (f"{value:.3g} →", -6)
    axes.annotate(
        text, (x, y), (shift, 0), textcoords="offset points", va="center", ha="left" if left else "right"
    )


def _notes(table: Table) -> tuple[str, ...]:
    better = next(iter(table.cells.values())).place.better
    side = "right" if better == "higher" else "left"
    whose = "ours: " if _compares(table) else ""
    base = f"; dotted: {table.spec.baseline}" if table.spec.baseline else ""
    return (
        f"dots: mean, whiskers: standard error; to the {side} is better{base}",
        "with an arrow and its number: a value far from all others, drawn at the edge",
        f"{whose}{table.done} of {table.expected} splits done, {table.failed} failed",
    )
