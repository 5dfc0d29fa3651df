"""Log densities of five likelihoods as functions of f (thesis figure 1.4), and quadrature on them.

Links: exponential for the gamma, sigmoid for the Bernoulli and the mean of the beta of unit scale; the
ordinal has switch points at 0 and 1 with a unit of Gaussian noise. Degrees, shapes and observations are ours.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy import special, stats

from dgpbench.report.figures.picture import Picture, panels

RANGE, POINTS, NODES, MANY = 4.0, 401, 20, 200
EDGES = np.array([0.0, 1.0])  # switch points of the ordinal
Density = Callable[[np.ndarray, float], np.ndarray]


def student_t(f: np.ndarray, y: float) -> np.ndarray:
    return stats.t(3.0).logpdf(y - f)


def bernoulli(f: np.ndarray, y: float) -> np.ndarray:
    return special.log_expit(f if y == 1 else -f)


def gamma(f: np.ndarray, y: float) -> np.ndarray:
    """Shape 1, scale exp(f)."""
    return -f - y * np.exp(-f)


def beta(f: np.ndarray, y: float) -> np.ndarray:
    return stats.beta(special.expit(f), special.expit(-f)).logpdf(y)


def ordinal(f: np.ndarray, y: float) -> np.ndarray:
    """Class y of three: f plus a unit of noise lies between the switch points."""
    ends = np.concatenate([[-np.inf], EDGES, [np.inf]])
    low, high = ends[int(y)] - f, ends[int(y) + 1] - f
    flip = low > 0  # by symmetry no difference of two numbers near 1
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    return np.log(special.ndtr(high) - special.ndtr(low))


LIKELIHOODS: dict[str, tuple[Density, tuple[float, ...]]] = {
    "Student-t, 3 degrees": (student_t, (0.0, 2.0)),
    "Bernoulli": (bernoulli, (0.0, 1.0)),
    "Gamma": (gamma, (0.5, 2.0)),
    "Beta": (beta, (0.2, 0.7)),
    "Ordinal": (ordinal, (0.0, 1.0, 2.0)),
}


def expectation(density: Density, y: float, nodes: int) -> float:
    """E log p(y | f) under N(f; 0, 1) by Gauss-Hermite quadrature."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    return float(density(x, y) @ w / w.sum())


def picture(spec, units) -> Picture:
    f = np.linspace(-RANGE, RANGE, POINTS)
    curves = {(name, y): density(f, y) for name, (density, ys) in LIKELIHOODS.items() for y in ys}
    data = pd.concat(
        [pd.DataFrame({"likelihood": n, "y": y, "f": f, "log_density": c}) for (n, y), c in curves.items()]
    )
    errors = [
        abs(expectation(density, y, NODES) - expectation(density, y, MANY))
        for density, ys in LIKELIHOODS.values()
        for y in ys
    ]

    def paint(figure, theme):
        axes = panels(figure, 1, len(LIKELIHOODS), sharex=True)[0]
        for place, (name, (_, ys)) in zip(axes, LIKELIHOODS.items(), strict=True):
            for y, colour in zip(ys, theme["colours"], strict=False):
                place.plot(f, curves[name, y], lw=1.3, color=colour, label=f"y = {y:g}")
            place.set_title(name, loc="left")
            place.set_xlabel("f")
            place.legend(loc="best", fontsize=7)
        axes[0].set_ylabel("log p(y | f)")

    told = f"under N(f; 0, 1), {NODES} quadrature nodes differ from {MANY} by at most {max(errors):.1g} nat"
    return Picture(spec.name, spec.title, data, paint, (12.0, 2.7), (told,))
