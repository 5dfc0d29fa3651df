"""Draws beside observations in the plane of the first two principal components of (x, y) (figure 5.5)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dgpbench.papers.figures.draws import Kept, kept_draws, panel_for_each
from dgpbench.report.figures.picture import Picture

SHOWN = 20  # draws per test point


def picture(spec, units) -> Picture:
    found, left_out = kept_draws(units)
    width = max(len(runs) for runs in found.values())
    data = pd.concat([projected(run) for runs in found.values() for run in runs], ignore_index=True)

    def paint(figure, theme):
        drawn = panel_for_each(figure, found, "component 2", sharex="row")
        for place, run in drawn:
            part = data[(data.dataset == run.dataset) & (data.model == run.label)]
            for kind, colour, size in (("draw", 1, 2), ("observed", 0, 9)):
                points = part[part.kind == kind]
                place.scatter(
                    points.pc1,
                    points.pc2,
                    s=size,
                    color=theme["colours"][colour],
                    lw=0,
                    label=kind,
                    alpha=0.5 if kind == "draw" else 1,
                    rasterized=True,
                )
            place.set_xlabel("component 1")
        handles, labels = drawn[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower right", ncols=2, markerscale=2)

    notes = (
        f"kept test points and {SHOWN} draws of each; components of the standardised kept points (x, y)",
        *left_out,
    )
    return Picture(spec.name, spec.title, data, paint, (2.6 * width + 0.8, 2.4 * len(found) + 0.8), notes)


def components(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mean, deviation, first two principal axes (D + 1, 2)) of the standardised points (x, y)."""
    points = np.column_stack([x, y])
    mean, deviation = points.mean(0), points.std(0)
    deviation[deviation == 0] = 1.0
    _, _, axes = np.linalg.svd((points - mean) / deviation, full_matrices=False)
    axes = axes[:2].T
    return mean, deviation, axes * np.sign(axes[np.abs(axes).argmax(0), range(axes.shape[1])])


def projected(run: Kept) -> pd.DataFrame:
    """Observed points and draws as coordinates: dataset, model, kind, row, pc1, pc2."""
    mean, deviation, axes = components(run.x, run.y)
    draws = run.draws[:, np.linspace(0, run.draws.shape[1] - 1, min(SHOWN, run.draws.shape[1])).astype(int)]
    parts = []
    for kind, values in (("draw", draws), ("observed", run.y[:, None])):
        count = values.shape[1]
        points = np.column_stack([np.repeat(run.x, count, axis=0), values.ravel()])
        plane = ((points - mean) / deviation) @ axes
        row = np.repeat(run.row, count)
        parts.append(pd.DataFrame({"kind": kind, "row": row, "pc1": plane[:, 0], "pc2": plane[:, 1]}))
    out = pd.concat(parts, ignore_index=True)
    out.insert(0, "dataset", run.dataset)
    out.insert(1, "model", run.label)
    return out
