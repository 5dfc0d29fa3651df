"""Bandwidths of kernel density estimates: leave-one-out likelihood, and Silverman's rule."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import minimize

LOG_2PI = math.log(2.0 * math.pi)
LOWEST, HIGHEST = 1e-3, 1e2  # of a bandwidth, in standard deviations
GRID_ROWS = 200  # rows scored at each point of the first grid
BLOCK = 1 << 20  # entries of a work array


def silverman(n: int, dim: int) -> float:
    """The rule of thumb for n points in `dim` dimensions, in standard deviations."""
    return (4.0 / ((dim + 2.0) * n)) ** (1.0 / (dim + 4.0))


def squared_distances(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """|a - b|^2 (m, n) of rows A (m, D) and B (n, D)."""
    cross = A @ B.T
    cross *= -2.0
    cross += np.sum(A * A, 1)[:, None]
    cross += np.sum(B * B, 1)
    return np.maximum(cross, 0.0, out=cross)


def log_sum_exp(A: np.ndarray) -> np.ndarray:
    """Over the last axis; -inf entries count as nothing."""
    top = A.max(-1)
    return top + np.log(np.exp(A - top[..., None]).sum(-1))


def loo_loglik(
    Y: np.ndarray, rows: np.ndarray, h: float, X: np.ndarray | None = None, h_x: float = math.inf
) -> float:
    """Mean over i in `rows` of log sum_j k_ij N(y_i | y_j, h^2 I) / sum_j k_ij over all j but i.

    k_ij = exp(-|x_i - x_j|^2 / 2 h_x^2), or 1 without X: the conditional and the unconditional estimate.
    """
    P, total = Y.shape[1], 0.0
    step = max(1, BLOCK // len(Y))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        if X is None:
            log_kernel = np.zeros((len(part), len(Y)))
        else:
            log_kernel = squared_distances(X[part], X) * (-0.5 / h_x**2)
        log_kernel[np.arange(len(part)), part] = -np.inf
        joint = log_kernel + squared_distances(Y[part], Y) * (-0.5 / h**2)
        total += float(np.sum(log_sum_exp(joint) - log_sum_exp(log_kernel)))
    return total / len(rows) - P * (math.log(h) + 0.5 * LOG_2PI)


def maximise(
    objective: Callable[[Sequence[float], np.ndarray], float], rows: np.ndarray, *grids: Sequence[float]
) -> tuple[np.ndarray, float]:
    """The bandwidths with the largest objective(bandwidths, rows), and its value.

    The best point of the grid, judged on the first rows, then Nelder-Mead in the logarithms on all of them.
    """
    best = max(itertools.product(*grids), key=lambda h: objective(h, rows[:GRID_ROWS]))
    start = np.log(best)
    simplex = np.vstack([start, start + 0.3 * np.eye(len(start))])
    low, high = math.log(LOWEST), math.log(HIGHEST)
    found = minimize(
        lambda t: -objective(np.exp(t), rows),
        start,
        method="Nelder-Mead",
        bounds=[(low, high)] * len(start),
        options={"initial_simplex": np.clip(simplex, low, high), "xatol": 1e-3, "fatol": 1e-7},
    )
    return np.exp(found.x), -float(found.fun)
