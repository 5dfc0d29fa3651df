"""Quantiles and mean difference E|X - X'| / 2 of Gaussian mixtures, from their density on a grid.

At nodes no further apart than SPACING times the narrowest sd, one exponential per node and component gives
the density and its first four derivatives. Between two nodes the density is the polynomial of degree 9
through both ends' values and derivatives, the distribution function F its integral: both to 1e-9.
E|X - X'| / 2 is the integral of F (1 - F), for which the trapezoidal rule on this grid has an error of
exp(-pi^2 / SPACING^2), 1e-10.
"""

from __future__ import annotations

from functools import lru_cache
from math import factorial

import numpy as np

SPACING = 0.65  # of the narrowest sd
REACH = 6.5  # sds beyond the outermost means: 4e-11 of a component lies further out
MAX_CELLS = 400  # a mixture that needs more has no grid here
BLOCK = 60_000  # entries of a work array, small enough for the cache
NEWTON = 4  # steps to a root inside a cell; each squares the error
LEAST_DENSITY = 0.02  # over the range's: where it is lower, an error of F is too large an error of x
ORDER = 5  # density and derivatives at each end


def summaries(
    mean: np.ndarray, sd: np.ndarray, weights: np.ndarray | None, levels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """E|X - X'| / 2 (m,) and quantiles (m, L) of mixtures with mean, sd and weights (m, S), or equal ones.

    NaN where a grid is not enough: components too narrow for the range, or a level in a gap between them.
    """
    m, S = mean.shape
    difference, quantiles = np.full(m, np.nan), np.full((m, len(levels)), np.nan)
    low, high = (mean - REACH * sd).min(1), (mean + REACH * sd).max(1)
    with np.errstate(all="ignore"):  # what is not finite has no grid
        octaves = np.ceil(4.0 * np.log2((high - low) / (SPACING * sd.min(1)))) / 4.0
    for size in np.unique(octaves[(octaves > 4) & (octaves <= np.log2(MAX_CELLS))]):
        cells = int(np.ceil(2.0**size))
        same = np.flatnonzero(octaves == size)  # a mixture's grid does not depend on its neighbours
        count = max(1, BLOCK // (S * cells))
        for rows in np.split(same, range(count, len(same), count)):
            share = None if weights is None else weights[rows]
            made = _block(mean[rows], sd[rows], share, low[rows], high[rows], cells + 1, levels)
            difference[rows], quantiles[rows] = made
    return difference, quantiles


def _block(mean, sd, weights, low, high, nodes: int, levels) -> tuple[np.ndarray, np.ndarray]:
    """The same for mixtures (b, S) that share a number of nodes between low and high (b,)."""
    step = (high - low) / (nodes - 1)
    ends = _derivatives(mean, sd, weights, low[:, None] + step[:, None] * np.arange(nodes), step)  # b, G, 5
    cells = np.concatenate([ends[:, :-1], ends[:, 1:]], 2) @ _integrated()  # b, G - 1, 10
    cells *= step[:, None, None]
    mass = cells.sum(2)
    F = np.zeros((len(mean), nodes))
    np.cumsum(mass, axis=1, out=F[:, 1:])
    difference = step * (F * (1.0 - F)).sum(1)
    where = np.stack([np.searchsorted(row, levels, side="right") for row in F]) - 1  # b, L
    where = np.clip(where, 0, nodes - 2)
    left = levels - np.take_along_axis(F, where, 1)
    first = np.arange(len(mean))[:, None] * (nodes - 1)
    C = cells.reshape(-1, 2 * ORDER).T.take(first + where, axis=1)  # 10, b, L
    t, change, slope = _inverse(C, left)
    dense = slope * ((high - low) / step)[:, None] >= LEAST_DENSITY
    fine = (dense & (np.abs(change) < 1e-6)).all(1)
    quantiles = low[:, None] + step[:, None] * (where + t)
    return difference, np.where(fine[:, None], quantiles, np.nan)


def _inverse(C: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """t in [0, 1] with sum_k C_k t^(k + 1) = target by Newton's steps, the last step and the slope there."""
    with np.errstate(all="ignore"):  # no density, no root: seen by its slope
        t = np.clip(target / C.sum(0), 0.0, 1.0)
        for _ in range(NEWTON):
            value, slope = C[-1] * t, C[-1] * len(C)
            for k in range(len(C) - 2, -1, -1):
                value += C[k]
                value *= t
                slope *= t
                slope += (k + 1) * C[k]
            change = (value - target) / slope
            t = np.clip(t - change, 0.0, 1.0)
    return t, change, slope


def _derivatives(mean, sd, weights, x: np.ndarray, step: np.ndarray) -> np.ndarray:
    """step^r times the r-th derivative of the density at x (b, G), for r = 0 to 4: (b, G, 5)."""
    inverse = 1.0 / sd
    share = 1.0 / mean.shape[1] if weights is None else weights
    c0 = share * inverse / np.sqrt(2.0 * np.pi)
    ratio = -step[:, None] * inverse
    c1 = c0 * ratio
    c2 = c1 * ratio
    c3 = c2 * ratio
    c4 = c3 * ratio
    u = x[:, :, None] - mean[:, None, :]  # b, G, S
    u *= inverse[:, None, :]
    power = u * u
    power *= -0.5
    np.exp(power, out=power)
    columns = ((c0, -c2, 3.0 * c4), (c1, -3.0 * c3), (c2, -6.0 * c4), (c3,), (c4,))  # of Hermite polynomials
    sums = []
    for r, column in enumerate(columns):
        if r:
            power *= u
        sums.append(power @ np.stack(column, 2))
    s0, s1, s2, s3, s4 = sums
    out = np.empty((*x.shape, ORDER))
    out[..., 0], out[..., 1] = s0[..., 0], s1[..., 0]
    out[..., 2], out[..., 3] = s0[..., 1] + s2[..., 0], s1[..., 1] + s3[..., 0]
    out[..., 4] = s0[..., 2] + s2[..., 1] + s4[..., 0]
    return out


@lru_cache(maxsize=1)
def _integrated() -> np.ndarray:
    """From derivatives at t = 0 and t = 1 (10) to the coefficients of t, t^2, ... t^10 in the integral of the
    polynomial of degree 9 that has them."""
    degree = 2 * ORDER
    rows = np.zeros((degree, degree))
    for r in range(ORDER):
        rows[r, r] = factorial(r)
        for k in range(r, degree):
            rows[ORDER + r, k] = factorial(k) / factorial(k - r)
    return np.linalg.inv(rows).T / np.arange(1, degree + 1)
