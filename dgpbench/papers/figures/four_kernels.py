"""Draws from GP priors and posteriors with four kernels (thesis figures 1.1 and 1.3).

The kernels have unit variance and lengthscale, in their usual forms: the thesis prints exp(-r^2) and
(1 + sqrt(3) r) exp(-r), and the arc-cosine without the lengths of its arguments, which take a bias here.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from dgpbench.report.figures.picture import Picture, panels

POINTS, RANGE, DRAWS, SEED = 500, 3.0, 5, 0
NOISES = (1e-6, 1e-2)  # variances of the likelihood: the rows of figure 1.3
X_DATA, Y_DATA = np.array([-1.5, 0.0, 2.0]), np.array([-0.8, 0.7, 1.2])  # three observations, not stated


def matern32(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    r = np.sqrt(3.0) * np.abs(a[:, None] - b)
    return (1.0 + r) * np.exp(-r)


def arc_cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Order 1, of the arguments (x, 1)."""
    lengths = np.sqrt(a[:, None] ** 2 + 1.0) * np.sqrt(b**2 + 1.0)
    angle = np.arccos(np.clip((a[:, None] * b + 1.0) / lengths, -1.0, 1.0))
    return lengths * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / np.pi


KERNELS = {
    "RBF": lambda a, b: np.exp(-0.5 * (a[:, None] - b) ** 2),
    "Matern 3/2": matern32,
    "ArcCosine": arc_cosine,
    "Quadratic": lambda a, b: (a[:, None] * b + 1.0) ** 2,
}


def posterior(kernel, x: np.ndarray, noise: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Mean (N,) and covariance (N, N) at x, (1.11)-(1.12); without noise, of the prior."""
    K = kernel(x, x)
    if noise is None:
        return np.zeros(len(x)), K
    k = kernel(X_DATA, x)
    A = np.linalg.solve(kernel(X_DATA, X_DATA) + noise * np.eye(len(X_DATA)), k)
    return A.T @ Y_DATA, K - k.T @ A


def draws(mean: np.ndarray, cov: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """Functions (DRAWS, N); the covariance may have no full rank."""
    values, vectors = np.linalg.eigh(cov)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return mean + (root @ rng.randn(len(mean), DRAWS)).T


def picture(spec, units) -> Picture:
    x = np.linspace(-RANGE, RANGE, POINTS)
    rows = NOISES if spec.x == "posterior" else (None,)
    found, parts = {}, []
    for noise in rows:
        for name, kernel in KERNELS.items():
            mean, cov = posterior(kernel, x, noise)
            sd = np.sqrt(np.maximum(np.diag(cov), 0.0))
            F = draws(mean, cov, np.random.RandomState(SEED))
            found[noise, name] = mean, sd, F
            own = {"kernel": name, "x": x, "mean": mean, "sd": sd}
            own |= {f"draw_{i}": f for i, f in enumerate(F)}
            parts.append(pd.DataFrame(own if noise is None else {"noise_variance": noise, **own}))

    def paint(figure, theme):
        axes = panels(figure, len(rows), len(KERNELS), sharex=True)
        for place, ((noise, name), (mean, sd, F)) in zip(axes.flat, found.items(), strict=True):
            place.fill_between(x, mean - 2 * sd, mean + 2 * sd, color=theme["faint"], lw=0)
            for f, colour in zip(F, theme["colours"], strict=False):
                place.plot(x, f, lw=0.9, color=colour)
            place.plot(x, mean, ":", lw=1.2, color=theme["ink"])
            if noise is not None:
                place.plot(X_DATA, Y_DATA, "x", ms=6, mew=1.6, color=theme["ink"], zorder=5)
            place.set_title(name if noise is None else f"{name}, noise variance {noise:g}", loc="left")
        for place in axes[-1]:
            place.set_xlabel("x")
        for place in axes[:, 0]:
            place.set_ylabel("f(x)")

    told = "shaded: 2 standard deviations around the mean (dotted)"
    if spec.x == "posterior":
        told += f"; crosses: observations at {', '.join(f'{v:g}' for v in X_DATA)}, chosen here"
    size = (2.6 * len(KERNELS), 0.6 + 2.2 * len(rows))
    return Picture(spec.name, spec.title, pd.concat(parts), paint, size, (told, f"seed {SEED}"))
