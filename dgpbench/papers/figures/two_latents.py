"""Three variational approximations of a posterior over two latent variables (Matthews' figure 2.2).

Prior N(0, [[1, b], [b, 1]]) with b = 0.85, two labels 1 under Phi(3 f). All integrals are sums over one grid.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.stats import multivariate_normal, norm

from dgpbench.report.figures.picture import Picture, panels

CORRELATION, SLOPE = 0.85, 3.0
AXIS = np.linspace(-3.0, 5.0, 321)
CELL = (AXIS[1] - AXIS[0]) ** 2
POINTS = np.stack(np.meshgrid(AXIS, AXIS, indexing="ij"), -1)
PRIOR = np.array([[1.0, CORRELATION], [CORRELATION, 1.0]])


def log_joint() -> np.ndarray:
    """log p(f1, f2) p(y | f1) p(y | f2) on the grid."""
    return multivariate_normal(np.zeros(2), PRIOR).logpdf(POINTS) + norm.logcdf(SLOPE * POINTS).sum(-1)


def exact() -> tuple[np.ndarray, float]:
    """Posterior density on the grid, and the evidence."""
    p = np.exp(log_joint())
    total = p.sum() * CELL
    return p / total, float(total)


def divergence(q: np.ndarray, p: np.ndarray) -> float:
    """KL[q || p] of densities on the grid."""
    inside = q > 1e-300
    return float(np.sum(q[inside] * (np.log(q[inside]) - np.log(np.maximum(p[inside], 1e-300)))) * CELL)


def mean_field(sweeps: int = 200) -> np.ndarray:
    """The best product of two free marginals: each is Phi(3 f) N(f; b E f', 1 - b^2), normalised."""
    factor, mean, width = norm.cdf(SLOPE * AXIS), 0.0, AXIS[1] - AXIS[0]
    for _ in range(sweeps):  # the two are alike
        q = factor * norm.pdf(AXIS, CORRELATION * mean, np.sqrt(1.0 - CORRELATION**2))
        q /= q.sum() * width
        mean = float(q @ AXIS * width)
    return np.outer(q, q)


def gaussian(correlated: bool) -> np.ndarray:
    """The Gaussian that minimises KL[q || p]: both means and deviations alike, by symmetry."""

    def density(t: np.ndarray) -> np.ndarray:
        var, r = np.exp(2.0 * t[1]), np.tanh(t[2]) if correlated else 0.0
        return multivariate_normal([t[0], t[0]], var * np.array([[1.0, r], [r, 1.0]])).pdf(POINTS)

    p, _ = exact()
    start = [0.8, np.log(0.5), 0.8] if correlated else [0.8, np.log(0.5)]
    return density(minimize(lambda t: divergence(density(t), p), start, method="Nelder-Mead").x)


def picture(spec, units) -> Picture:
    p, _ = exact()
    found = {
        "correlated Gaussian": gaussian(True),
        "factorised Gaussian": gaussian(False),
        "mean field": mean_field(),
    }
    frames, width = [], AXIS[1] - AXIS[0]
    for name, q in ({"exact": p} | found).items():
        numbers = {"f": AXIS, "marginal": q.sum(1) * width, "kl": divergence(q, p)}
        frames.append(pd.DataFrame({"approximation": name} | numbers))

    def paint(figure, theme):
        grid = panels(figure, 2, 3, sharex=True)
        for (top, bottom), (name, q), colour in zip(grid.T, found.items(), theme["colours"], strict=False):
            top.contour(AXIS, AXIS, p.T, 6, colors=theme["ink"], linewidths=0.7)
            top.contour(AXIS, AXIS, q.T, 6, colors=colour, linewidths=0.9)
            top.set_title(f"{name}, KL {divergence(q, p):.3f}", loc="left")
            top.set_ylim(-1.0, 3.5)
            bottom.plot(AXIS, p.sum(0) * width, color=theme["ink"], lw=1, label="exact")
            bottom.plot(AXIS, q.sum(0) * width, color=colour, lw=1.2, label="q")
            bottom.set_xlim(-1.0, 3.5)
            bottom.set_xlabel("f1")
            bottom.legend()
        grid[0, 0].set_ylabel("f2")
        grid[1, 0].set_ylabel("marginal density")

    return Picture(
        spec.name, spec.title, pd.concat(frames), paint, (9.0, 5.5), ("black: the exact posterior",)
    )
