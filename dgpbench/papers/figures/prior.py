"""One draw from the prior of four models (figure 5.3): GPs of one output, RBF kernels of unit lengthscale.

Inner layers have the identity as mean function. Every point has a latent variable of its own, so that a model
with latents draws a cloud where one without draws a curve.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from dgpbench.report.figures.picture import Picture, panels

POINTS, RANGE, JITTER, SEED = 1500, 4.0, 1e-8, 2
MODELS = {"GP": ["gp"], "GP-GP": ["gp", "gp"], "LV-GP": ["lv", "gp"], "LV-GP-GP": ["lv", "gp", "gp"]}


def draw(layers: list[str], x: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """One draw (N,) of the last function at the points x (N,)."""
    H = x[:, None]
    for i, layer in enumerate(layers):
        if layer == "lv":
            H = np.column_stack([H, rng.randn(len(x))])
        else:
            F = gp_draw(H, rng)
            last = i == len(layers) - 1
            H = F[:, None] if last else (H[:, 0] + F)[:, None]
    return H[:, 0]


def gp_draw(H: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """A zero-mean GP with a unit RBF kernel at the rows of H."""
    squares = ((H[:, None] - H[None]) ** 2).sum(-1)
    K = np.exp(-0.5 * squares) + JITTER * np.eye(len(H))
    return np.linalg.cholesky(K) @ rng.randn(len(H))


def picture(spec, units) -> Picture:
    x = np.linspace(-RANGE, RANGE, POINTS)
    found = {name: draw(layers, x, np.random.RandomState(SEED)) for name, layers in MODELS.items()}
    data = pd.concat([pd.DataFrame({"model": name, "x": x, "y": y}) for name, y in found.items()])

    def paint(figure, theme):
        axes = panels(figure, 1, len(found), sharex=True, sharey=True)[0]
        for place, (name, y) in zip(axes, found.items(), strict=True):
            place.plot(x, y, ".", ms=1.5, color=theme["colours"][0])
            place.set_title(name, loc="left")
            place.set_xlabel("x")
        axes[0].set_ylabel("y")

    return Picture(
        spec.name, spec.title, data, paint, (3.0 * len(found), 2.8), ("drawn from the priors, seed 2",)
    )
