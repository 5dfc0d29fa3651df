"""Draws of a GP with a latent variable among its inputs (thesis figure 4.2), for three variances of it.

One draw f(x, w) of a GP with unit RBF kernel is the surface; each point has a latent w of its own. Outputs
lie on the surface, and their projection onto the back pane is what is observed: (x, y).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from dgpbench.report.figures.picture import Picture

GRID, POINTS, RANGE, SEED = 25, 150, 3.0, 4
SDS = (0.0, 0.2, 1.0)  # of the latent; the small one is not stated


def sample(rng: np.random.RandomState, grid: int = GRID, points: int = POINTS) -> tuple[np.ndarray, ...]:
    """Inputs (x, w) of the surface (grid^2, 2) and of the points (3, points, 2), and a draw of f at both."""
    line = np.linspace(-RANGE, RANGE, grid)
    surface = np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2)
    x, w = rng.uniform(-RANGE, RANGE, points), rng.randn(points)
    inputs = np.stack([np.stack([x, sd * w], 1) for sd in SDS])
    every = np.concatenate([surface, inputs.reshape(-1, 2)])
    K = np.exp(-0.5 * ((every[:, None] - every[None]) ** 2).sum(-1))
    values, vectors = np.linalg.eigh(K)
    f = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.randn(len(every)))
    return surface, inputs, f[: len(surface)], f[len(surface) :].reshape(len(SDS), points)


def picture(spec, units) -> Picture:
    surface, inputs, height, y = sample(np.random.RandomState(SEED))
    data = pd.concat(
        [
            pd.DataFrame({"latent_sd": sd, "x": at[:, 0], "w": at[:, 1], "y": out})
            for sd, at, out in zip(SDS, inputs, y, strict=True)
        ]
    )
    a, b, c = (v.reshape(GRID, GRID) for v in (*surface.T, height))

    def paint(figure, theme):
        for i, (sd, at, out) in enumerate(zip(SDS, inputs, y, strict=True)):
            place = figure.add_subplot(1, len(SDS), i + 1, projection="3d")
            place.plot_wireframe(a, b, c, lw=0.4, color=theme["colours"][0], alpha=0.6)
            kept = np.abs(at[:, 1]) <= RANGE
            place.scatter(*at[kept].T, out[kept], s=7, color=theme["colours"][1], depthshade=False)
            place.scatter(at[:, 0], np.full(len(out), RANGE), out, s=3, color=theme["ink"], depthshade=False)
            place.set_zlabel("y", labelpad=1)
            place.set(xlabel="x", ylabel="w", xlim=(-RANGE, RANGE), ylim=(-RANGE, RANGE))
            place.set_title(f"Standard deviation of w: {sd:g}", loc="left", y=0.96)
            place.view_init(25, -60)
            place.set_box_aspect(None, zoom=0.8)

    told = "surface: one draw of f(x, w); orange: points with their own w; black: what is observed of them"
    return Picture(spec.name, spec.title, data, paint, (10.5, 3.6), (told, f"seed {SEED}"))
