"""Posterior marginals scaled to mean 0 and deviation 1, coloured by the inputs (thesis figures 5.6, 5.7)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dgpbench.papers.figures.draws import Kept, kept_draws, panel_for_each
from dgpbench.report.figures.picture import Picture

GRID = np.linspace(-4, 4, 81)


def picture(spec, units) -> Picture:
    found, left_out = kept_draws(units)
    width = max(len(runs) for runs in found.values())
    data = pd.concat([marginals(run) for runs in found.values() for run in runs], ignore_index=True)

    peaks = data.groupby(["dataset", "model", "row"]).density.max().groupby("dataset").quantile(0.98)
    top = {name: max(0.5, min(1.5, 1.05 * peaks[name])) for name in found}

    def paint(figure, theme):
        from matplotlib import colormaps

        for place, run in panel_for_each(figure, found, "density", sharex=True):
            part = data[(data.dataset == run.dataset) & (data.model == run.label)]
            _panel(place, part, top[run.dataset], colormaps["viridis"], theme)

    notes = (
        "one curve per kept test point, coloured by the first component of its inputs; dotted: Gaussian",
        *left_out,
    )
    return Picture(spec.name, spec.title, data, paint, (2.4 * width + 0.8, 2.1 * len(found) + 0.5), notes)


def standardised_densities(draws: np.ndarray, grid: np.ndarray = GRID) -> np.ndarray:
    """Kernel density (R, G) of each line of draws (R, n) after scaling it to mean 0 and deviation 1."""
    z = draws.astype(float)
    z -= z.mean(1, keepdims=True)
    z /= np.maximum(z.std(1, keepdims=True), np.finfo(float).tiny)
    n = z.shape[1]
    width = 1.06 * n**-0.2  # Silverman's rule, deviation 1
    out = np.empty((len(z), len(grid)))
    for i, line in enumerate(z):
        out[i] = np.exp(-0.5 * ((grid[:, None] - line) / width) ** 2).mean(1) / (width * np.sqrt(2 * np.pi))
    return out


def marginals(run: Kept) -> pd.DataFrame:
    """dataset, model, row, component (of the inputs), z, density."""
    values = standardised_densities(run.draws)
    deviation = run.x.std(0)
    deviation[deviation == 0] = 1.0
    scaled = (run.x - run.x.mean(0)) / deviation
    component = scaled @ np.linalg.svd(scaled, full_matrices=False)[2][0]
    R, G = values.shape
    return pd.DataFrame(
        {
            "dataset": run.dataset,
            "model": run.label,
            "row": np.repeat(run.row, G),
            "component": np.repeat(component, G),
            "z": np.tile(GRID, R),
            "density": values.ravel(),
        }
    )


def _panel(axes, part: pd.DataFrame, top: float, colours, theme: dict) -> None:
    from matplotlib.collections import LineCollection

    lines = part.density.to_numpy().reshape(-1, len(GRID))
    component = part.component.to_numpy()[:: len(GRID)]
    rank = component.argsort().argsort() / max(len(component) - 1, 1)
    curves = [np.column_stack([GRID, line]) for line in lines]
    axes.add_collection(LineCollection(curves, colors=colours(rank), linewidths=0.6, alpha=0.7))
    axes.plot(GRID, np.exp(-0.5 * GRID**2) / np.sqrt(2 * np.pi), ":", color=theme["ink"], lw=1.2)
    axes.set_xlim(GRID[0], GRID[-1])
    axes.set_ylim(0, top)
    axes.set_xlabel("standardised y")
