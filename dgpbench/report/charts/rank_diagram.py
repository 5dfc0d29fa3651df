"""Critical-difference diagram: average ranks over datasets, joined where they cannot be told apart."""

from __future__ import annotations

import pandas as pd

from dgpbench.report.charts import Nothing
from dgpbench.report.charts.picture import Picture
from dgpbench.report.result_table import Table
from dgpbench.report.significance import LEAST_SETS, rank_groups


def rank_picture(spec, table: Table) -> Picture:
    ranks, cd, p = rank_groups(table)
    sets = int(ranks.n.min()) if len(ranks) else 0
    if len(ranks) < 2 or sets < 2:
        raise Nothing(f"{table.spec.name}: fewer than two datasets have runs in all columns begun")
    joined = groups(ranks["mean"].tolist(), cd) if cd else []
    data = ranks.rename_axis("model").reset_index().assign(critical_difference=cd)

    def paint(figure, theme):
        _diagram(figure.subplots(), ranks, cd, joined, theme)

    known = f"; Friedman p = {p:.3g}" if p is not None else ""
    bars = f"bars join models whose ranks differ by less than {cd:.2f} (Nemenyi, 5 %){known}" if cd else ""
    few = f"no critical difference below {LEAST_SETS} datasets"
    notes = (f"{sets} datasets with all columns; 1 = best; {bars or few}",)
    return Picture(spec.name, spec.title, data, paint, (8, 1.5 + 0.22 * len(ranks)), notes)


def groups(means: list[float], cd: float) -> list[tuple[int, int]]:
    """Longest runs (first, last) of a sorted list whose ends differ by less than cd."""
    found: list[tuple[int, int]] = []
    for first in range(len(means)):
        last = max(i for i in range(first, len(means)) if abs(means[first] - means[i]) < cd)
        if last > first and not any(a <= first and last <= b for a, b in found):
            found.append((first, last))
    return found


def _diagram(axes, ranks: pd.DataFrame, cd: float | None, joined: list[tuple[int, int]], theme: dict) -> None:
    """The axis of ranks, 1 on the left; names on both sides below it, the critical difference above."""
    k, half = len(ranks), (len(ranks) + 1) // 2
    room = 0.06 * k * max(len(f"{name} (0.00)") for name in ranks.index) / 4  # for the names, in ranks
    start = -0.5 * len(joined) - 0.2
    axes.set_axis_off()
    axes.set_xlim(0.9 - room, k + 0.1 + room)
    axes.set_ylim(start - half - 0.3, 2.0 if cd else 1.0)
    axes.plot([1, k], [0, 0], color=theme["ink"], lw=1)
    for tick in range(1, k + 1):
        axes.plot([tick, tick], [0, 0.15], color=theme["ink"], lw=1)
        axes.text(tick, 0.25, str(tick), ha="center", va="bottom")
    if cd:
        axes.plot([1, 1 + cd], [1.2, 1.2], color=theme["colours"][1], lw=2)
        axes.text(1, 1.35, f"critical difference {cd:.2f}", ha="left", va="bottom", fontsize=7)
    for i, (name, mean) in enumerate(ranks["mean"].items()):
        left = i < half
        y = start - 0.5 - (i if left else k - 1 - i)
        edge, shift, side = (0.95, -4, "right") if left else (k + 0.05, 4, "left")
        axes.plot([mean, mean, edge], [0, y, y], color=theme["ink"], lw=0.8)
        axes.annotate(
            f"{name} ({mean:.2f})",
            (edge, y),
            (shift, 0),
            textcoords="offset points",
            ha=side,
            va="center",
            annotation_clip=False,
        )
    for i, (first, last) in enumerate(joined):
        ends = ranks["mean"].iloc[first] - 0.04, ranks["mean"].iloc[last] + 0.04
        axes.plot(ends, [-0.35 - 0.5 * i] * 2, color=theme["colours"][0], lw=4, solid_capstyle="round")
