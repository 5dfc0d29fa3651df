"""Sequences before and after their warps, and how far apart they are."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pandas as pd

from dgpbench.report.figures.picture import Picture, legend_below, panels

GRID = 200  # points at which two sequences are compared
DRAWS = 8  # of each warp that are shown


def distance(x: np.ndarray, y: np.ndarray, sequence: np.ndarray) -> float:
    """Mean squared difference between two sequences (straight lines between their points) where both are,
    averaged over all pairs."""
    lines = {}
    for name in np.unique(sequence):
        order = np.argsort(x[sequence == name], kind="stable")
        lines[name] = x[sequence == name][order], y[sequence == name][order]
    found = []
    for (a, ya), (b, yb) in combinations(lines.values(), 2):
        grid = np.linspace(max(a[0], b[0]), min(a[-1], b[-1]), GRID)
        found.append(np.mean((np.interp(grid, a, ya) - np.interp(grid, b, yb)) ** 2))
    return float(np.mean(found))


def alignment_picture(name: str, title: str, split, warps: Callable[[np.ndarray], np.ndarray]) -> Picture:
    """Observed sequences, draws of their warps, and the sequences at the means of their warps.

    `warps` gives draws (S, N) of what the first layer makes of scaled inputs (N, 2).
    """
    X, y = split.X_train, split.Y_train[:, 0]
    order = np.lexsort((X[:, 0], X[:, 1]))
    X, y = X[order], y[order] * np.ravel(split.y_std)[0] + np.ravel(split.y_mean)[0]
    scale, shift = np.ravel(split.x_std)[0], np.ravel(split.x_mean)[0]
    time, draws = X[:, 0] * scale + shift, warps(X) * scale + shift
    names = np.round(X[:, 1] * np.ravel(split.x_std)[1] + np.ravel(split.x_mean)[1], 6)
    data = pd.DataFrame({"sequence": names, "time": time, "warped": draws.mean(0), "y": y})
    data = data.assign(**{f"draw{i}": draws[i] for i in range(DRAWS)})
    before, after = (distance(data[x].to_numpy(), y, names) for x in ("time", "warped"))

    def paint(figure, theme):
        axes = panels(figure, 1, 3)[0]
        handles, line = {}, {"lw": 0.8, "ms": 3}
        for i, (sequence, part) in enumerate(data.groupby("sequence")):
            colour = theme["colours"][i % len(theme["colours"])]
            handles[f"sequence {sequence:g}"] = axes[0].plot(part.time, part.y, ".-", color=colour, **line)[0]
            for k in range(DRAWS):
                axes[1].plot(part.time, part[f"draw{k}"], color=colour, lw=0.6, alpha=0.6)
            axes[2].plot(part.warped, part.y, ".-", color=colour, **line)
        axes[1].plot(time, time, ".", ms=0.8, color=theme["ink"])
        words = f"as observed: distance {before:.2g}", "warps", f"aligned: distance {after:.2g}"
        for place, word in zip(axes, words, strict=True):
            place.set_title(word, loc="left")
            place.set_xlabel("warped input" if place is axes[2] else "input")
        axes[0].set_ylabel("y")
        legend_below(figure, handles.values(), handles)

    notes = (
        f"mean squared difference between two sequences: {before:.3g} as observed, {after:.3g} aligned; "
        f"{DRAWS} draws of each warp beside the identity (dots), aligned at the mean of {len(draws)}",
    )
    return Picture(name, title, data, paint, (9.6, 3.3), notes)
