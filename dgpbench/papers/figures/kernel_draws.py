"""Draws from two Gaussian processes (Matthews' figure 1.2): the RBF kernel and the Wiener kernel."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dgpbench.report.figures.picture import Picture, panels

POINTS, RANGE, DRAWS, JITTER, SEED = 1000, 10.0, 5, 1e-8, 0
KERNELS = {
    "RBF, l = 1, sigma = 1": lambda x: np.exp(-0.5 * (x[:, None] - x) ** 2),
    "Wiener, lambda = 0.3, l = 1": lambda x: 0.3**2 * np.minimum(x[:, None], x),
}


def draws(kernel, x: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """Functions (DRAWS, N) at the points x."""
    root = np.linalg.cholesky(kernel(x) + JITTER * np.eye(len(x)))
    return (root @ rng.randn(len(x), DRAWS)).T


def picture(spec, units) -> Picture:
    x = np.linspace(0.0, RANGE, POINTS)
    found = {name: draws(kernel, x, np.random.RandomState(SEED)) for name, kernel in KERNELS.items()}
    parts = [
        pd.DataFrame({"kernel": name, "draw": i, "x": x, "f": f})
        for name, F in found.items()
        for i, f in enumerate(F)
    ]

    def paint(figure, theme):
        for place, (name, F) in zip(panels(figure, 2, 1, sharex=True)[:, 0], found.items(), strict=True):
            for f, colour in zip(F, theme["colours"], strict=False):
                place.plot(x, f, lw=0.9, color=colour)
            place.set_title(name, loc="left")
            place.set_ylabel("f(x)")
        place.set_xlabel("x")

    return Picture(spec.name, spec.title, pd.concat(parts), paint, (6.0, 4.5), (f"seed {SEED}",))
