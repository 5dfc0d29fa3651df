"""Panels of one run: predicted against observed, intervals, PIT, classes, training curve.

Each takes matplotlib axes and numpy columns as `store.read` gives them.
"""

from __future__ import annotations

import numpy as np

from dgpbench.report.figures.traces import floor_of

MOST_POINTS = 2000  # drawn of a scatter
MOST_INTERVALS = 150
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)  # of bands over x
PIT_BINS = (5, 20)  # of a histogram: a tenth of its rows, between these


def thin(count: int, most: int) -> np.ndarray:
    """At most `most` positions, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(int))


def by_mean(columns: dict[str, np.ndarray], most: int) -> tuple[np.ndarray, np.ndarray]:
    """Whether each observation is inside its 90 % interval, and the rows in the order of the predicted mean,
    at most `most` of them, evenly spread."""
    inside = (columns["y"] >= columns["q05"]) & (columns["y"] <= columns["q95"])
    order = np.argsort(columns["mean"], kind="stable")
    return inside, order[thin(len(order), most)]


def bands(x: np.ndarray, draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows in the order of x, and LEVELS (5, R) of their draws (R, n) in that order."""
    order = np.argsort(x, kind="stable")
    return order, np.quantile(draws[order], LEVELS, axis=1)


def filled(bins: dict[str, list]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Confidence, accuracy and number of rows of the bins that have any."""
    full = [i for i, n in enumerate(bins["count"]) if n]
    confidence, accuracy, count = (
        np.array([bins[name][i] for i in full]) for name in ("confidence", "accuracy", "count")
    )
    return confidence, accuracy, count


def predicted(axes, columns: dict[str, np.ndarray], theme: dict) -> None:
    """Observed against predicted mean; the diagonal is perfect."""
    kept = thin(len(columns["y"]), MOST_POINTS)
    mean, y = columns["mean"][kept], columns["y"][kept]
    low, high = min(mean.min(), y.min()), max(mean.max(), y.max())
    pad = 0.04 * (high - low) or 1.0
    axes.plot([low - pad, high + pad], [low - pad, high + pad], color=theme["faint"], lw=1.5, zorder=0)
    axes.plot(mean, y, "o", ms=3, mew=0, alpha=0.6, color=theme["colours"][0], rasterized=len(kept) > 500)
    axes.set_xlabel("predicted mean")
    axes.set_ylabel("observed")
    axes.set_title("Predicted and observed", loc="left")


def intervals(axes, columns: dict[str, np.ndarray], theme: dict) -> float:
    """Central 90 % and 50 % intervals in the order of the predicted mean; returns the share of all
    observations inside the 90 % interval."""
    inside, order = by_mean(columns, MOST_INTERVALS)
    at = np.arange(len(order))
    colour = theme["colours"][0]
    axes.vlines(at, columns["q05"][order], columns["q95"][order], color=colour, lw=0.8, alpha=0.45)
    axes.vlines(at, columns["q25"][order], columns["q75"][order], color=colour, lw=2.2, alpha=0.6)
    for part, name in ((inside[order], 0), (~inside[order], 1)):
        dot = theme["ink"] if name == 0 else theme["colours"][1]
        axes.plot(at[part], columns["y"][order][part], ".", ms=4, color=dot)
    axes.set_xlabel("test rows by predicted mean")
    axes.set_ylabel("y")
    axes.set_title(f"90 % and 50 % intervals: {100 * inside.mean():.0f} % inside 90 %", loc="left")
    return float(inside.mean())


def over_x(axes, x: np.ndarray, y: np.ndarray, draws: np.ndarray, theme: dict) -> None:
    """Of one input: 90 % and 50 % bands of the draws and their median over x, with the observations."""
    order, q = bands(x, draws)
    colour = theme["colours"][0]
    axes.fill_between(x[order], q[0], q[4], color=colour, alpha=0.2, lw=0)
    axes.fill_between(x[order], q[1], q[3], color=colour, alpha=0.35, lw=0)
    axes.plot(x[order], q[2], color=colour, lw=1.2)
    axes.plot(x, y, ".", ms=3.5, color=theme["colours"][1])
    axes.set_xlabel("x")
    axes.set_ylabel("y")
    axes.set_title("90 % and 50 % bands over x", loc="left")


def pit_shares(values: np.ndarray) -> np.ndarray:
    """Shares of PIT values in equal bins of [0, 1]: as many bins as the rows can fill."""
    bins = int(np.clip(len(values) // 10, *PIT_BINS))
    return np.histogram(values, bins=bins, range=(0, 1))[0] / len(values)


def pit(axes, values: np.ndarray, theme: dict) -> np.ndarray:
    """Histogram of PIT values, which is flat if calibrated; returns the shares."""
    return bars(axes, pit_shares(values), theme)


def bars(axes, shares: np.ndarray, theme: dict) -> np.ndarray:
    """Shares per bin of [0, 1] as bars, with the level of a calibrated model."""
    edges = np.linspace(0, 1, len(shares) + 1)
    axes.bar(
        edges[:-1], shares * len(shares), np.diff(edges), align="edge", color=theme["colours"][0], alpha=0.7
    )
    axes.axhline(1.0, color=theme["colours"][1], lw=1)
    axes.set_xlim(0, 1)
    axes.set_xlabel("PIT")
    axes.set_ylabel("density (1 is calibrated)")
    axes.set_title("Where observations fall in their predictions", loc="left")
    return shares


def recorded_pit(record: dict) -> np.ndarray | None:
    """The histogram that the record itself holds, for a run without its predictions."""
    found = record["details"].get("pit_histogram")
    return np.asarray(found, float) if found else None


def reliability(axes, bins: dict[str, list], theme: dict) -> None:
    """Accuracy against confidence, areas by the number of rows; the diagonal is calibrated."""
    confidence, accuracy, count = filled(bins)
    axes.plot([0, 1], [0, 1], color=theme["faint"], lw=1.5, zorder=0)
    axes.plot(confidence, accuracy, color=theme["colours"][0], lw=1, alpha=0.6)
    axes.scatter(confidence, accuracy, 10 + 150 * count / count.max(), color=theme["colours"][0], lw=0)
    axes.set_xlim(min(0.45, confidence.min() - 0.05), 1.03)
    axes.set_ylim(min(0.45, accuracy.min() - 0.05), 1.05)
    axes.set_xlabel("confidence")
    axes.set_ylabel("accuracy")
    axes.set_title("Reliability: area is the number of rows", loc="left")


def confusion(axes, y: np.ndarray, chosen: np.ndarray, theme: dict) -> np.ndarray:
    """Rows of each class by the class predicted; returns the counts (C, C)."""
    from matplotlib.colors import LinearSegmentedColormap

    C = int(max(y.max(), chosen.max())) + 1
    counts = np.zeros((C, C), int)
    np.add.at(counts, (y, chosen), 1)
    colours = LinearSegmentedColormap.from_list("counts", [theme["paper"], theme["colours"][0]])
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    axes.imshow(share, cmap=colours, vmin=0, vmax=1, aspect="auto")
    if C <= 12:
        for i, j in zip(*np.nonzero(counts), strict=True):
            ink = theme["paper"] if share[i, j] > 0.5 else theme["ink"]
            axes.text(j, i, str(counts[i, j]), ha="center", va="center", fontsize=7, color=ink)
        axes.set_xticks(range(C))
        axes.set_yticks(range(C))
    axes.set_xlabel("predicted class")
    axes.set_ylabel("observed class")
    axes.set_title("Classes", loc="left")
    return counts


def curve(axes, trace: list[list], theme: dict) -> None:
    """The bound by training seconds; the lowest values of the start are cut off."""
    values = np.array([[np.nan if v is None else v for v in line[:3]] for line in trace], float)
    axes.plot(values[:, 1], values[:, 2], color=theme["colours"][0], lw=1.2)
    finite = values[np.isfinite(values[:, 2]), 2]
    if len(finite) > 3:
        low, high = floor_of([(values[:, 0], values[:, 2])]), finite.max()
        pad = 0.06 * (high - low) or 1.0
        axes.set_ylim(low - pad, high + pad)
    axes.set_xlabel("training seconds")
    axes.set_ylabel("bound (nat)")
    axes.set_title(f"Training: {int(values[-1, 0]):,} steps", loc="left")
