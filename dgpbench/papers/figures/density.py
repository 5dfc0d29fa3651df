"""Conditional densities of one-dimensional data (figures 5.1, 5.4): draws per x as columns of an image."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dgpbench.papers.figures.draws import Kept, kept_draws, panel_for_each
from dgpbench.report.figures.picture import Nothing, Picture

BINS = 80
BRIGHTEST = 0.98  # quantile of the density at which the colours end


def picture(spec, units) -> Picture:
    found, left_out = kept_draws(units)
    flat = {name: [run for run in runs if run.x.shape[1] == 1] for name, runs in found.items()}
    flat = {name: runs for name, runs in flat.items() if runs}
    if not flat:
        raise Nothing("densities over x need data with one input")
    width = max(len(runs) for runs in flat.values())
    grids = {
        (run.dataset, run.label): density(run, _edges(flat[run.dataset]))
        for runs in flat.values()
        for run in runs
    }
    data = pd.concat([_frame(run, *grids[run.dataset, run.label]) for runs in flat.values() for run in runs])

    def paint(figure, theme):
        for place, run in panel_for_each(figure, flat, "y", sharex="row"):
            _panel(place, run, *grids[run.dataset, run.label], theme)

    notes = ("each column: 2000 draws of y at one kept test input; dots: the observations there", *left_out)
    return Picture(spec.name, spec.title, data, paint, (3.0 * width + 0.6, 2.4 * len(flat) + 0.5), notes)


def _edges(runs: list[Kept]) -> np.ndarray:
    """Bins of y shared by the panels of a dataset: where the data and nearly all draws are."""
    low = min(min(np.quantile(run.draws, 0.005), run.y.min()) for run in runs)
    high = max(max(np.quantile(run.draws, 0.995), run.y.max()) for run in runs)
    pad = 0.03 * (high - low) or 1.0
    return np.linspace(low - pad, high + pad, BINS + 1)


def density(run: Kept, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(x sorted (R,), edges of y (B + 1,), density of the draws p(y | x) (R, B)). Draws outside count too."""
    order = np.argsort(run.x[:, 0], kind="stable")
    draws = run.draws[order]
    counts = np.stack([np.histogram(line, edges)[0] for line in draws])
    return run.x[order, 0], edges, counts / (draws.shape[1] * np.diff(edges))


def _frame(run: Kept, x: np.ndarray, edges: np.ndarray, values: np.ndarray) -> pd.DataFrame:
    R, B = values.shape
    return pd.DataFrame(
        {
            "dataset": run.dataset,
            "model": run.label,
            "x": np.repeat(x, B),
            "y_low": np.tile(edges[:-1], R),
            "y_high": np.tile(edges[1:], R),
            "density": values.ravel(),
        }
    )


def _panel(axes, run: Kept, x, edges, values, theme: dict) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    x, first = np.unique(x, return_index=True)  # a column per input
    values = values[first]
    middle = (x[1:] + x[:-1]) / 2
    borders = np.concatenate([x[:1], middle, x[-1:]])
    colours = LinearSegmentedColormap.from_list("density", [theme["paper"], theme["colours"][0]])
    top = np.quantile(values[values > 0], BRIGHTEST)
    axes.pcolormesh(borders, edges, values.T, cmap=colours, vmin=0, vmax=top, rasterized=True)
    axes.plot(run.x[:, 0], run.y, ".", ms=2.5, color=theme["colours"][1], alpha=0.8)
    axes.set_xlabel("x")
