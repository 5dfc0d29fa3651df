"""Quantiles and mean difference E|X - X'| / 2 of Gaussian mixtures, from their density on a grid.

Nodes are no further apart than SPACING times the narrowest sd. On them a component's density comes from its
neighbour's by two products (`_density`). Between two nodes the density is the polynomial through the nearest
WIDTH nodes, the distribution function F its integral: both to 1e-9. E|X - X'| / 2 is the integral of
F (1 - F), for which the trapezoidal rule on such a grid is exact to rounding.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

SPACING = 0.28  # of the narrowest sd
WIDTH = 20  # nodes that a polynomial goes through
DEGREE = 9  # that is enough for it between the two nodes in the middle: 1e-12
REACH = 6.5  # sds beyond the outermost means: 4e-11 of a component lies further out
MAX_CELLS = 1024  # a mixture that needs more has no grid here
BLOCK = 12_800  # components of the mixtures that share a pass, small enough for the cache
STRETCH = 100  # nodes on either side of one at which exponentials are taken
NEWTON = 2  # steps to a root inside a cell; each squares the error
SMALL_STEP = 4e-5  # of a cell: the next would be 1e-9
LEAST_DENSITY = 0.02  # over the range's: where it is lower, an error of F is too large an error of x


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
        octaves = np.ceil(2.0 * np.log2((high - low) / (SPACING * sd.min(1)))) / 2.0
    for size in np.unique(octaves[(octaves > 4) & (octaves <= np.log2(MAX_CELLS))]):
        cells = int(np.ceil(2.0**size))
        same = np.flatnonzero(octaves == size)  # a mixture's grid does not depend on its neighbours
        count = max(1, BLOCK // S)
        for rows in np.split(same, range(count, len(same), count)):
            share = None if weights is None else weights[rows]
            made = _block(mean[rows], sd[rows], share, low[rows], high[rows], cells, levels)
            difference[rows], quantiles[rows] = made
    return difference, quantiles


def _block(mean, sd, weights, low, high, cells: int, levels) -> tuple[np.ndarray, np.ndarray]:
    """The same for mixtures (b, S) that share a number of cells between low and high (b,)."""
    b, step, beyond = len(mean), (high - low) / cells, WIDTH // 2 - 1
    share = 1.0 / mean.shape[1] if weights is None else weights
    height = share / (np.sqrt(2.0 * np.pi) * sd)
    f = _density(mean, sd, height, low - beyond * step, step, cells + WIDTH - 1)  # b, cells + WIDTH - 1
    windows = np.lib.stride_tricks.sliding_window_view(f, WIDTH, axis=1)  # b, cells, WIDTH
    mass = windows @ _integrated().sum(0)  # of a cell, over step
    F = np.zeros((b, cells + 1))
    np.cumsum(mass * step[:, None], axis=1, out=F[:, 1:])
    difference = step * (F * (1.0 - F)).sum(1)
    mixture = np.arange(b)[:, None]
    apart = 2.0 * mixture  # one sorted array of all mixtures
    where = np.searchsorted((F + apart).ravel(), (levels + apart).ravel(), side="right").reshape(b, -1)
    where = np.clip(where - mixture * (cells + 1) - 1, 0, cells - 1)  # b, L
    C = _integrated() @ windows[mixture, where].reshape(-1, WIDTH).T  # DEGREE + 1, b L
    left = (levels - np.take_along_axis(F, where, 1)) / step[:, None]
    t, change, density = (a.reshape(b, -1) for a in _inverse(C, left.ravel()))
    dense = density * (high - low)[:, None] >= LEAST_DENSITY
    fine = (dense & (np.abs(change) < SMALL_STEP)).all(1)
    quantiles = low[:, None] + step[:, None] * (where + t)
    return difference, np.where(fine[:, None], quantiles, np.nan)


def _inverse(C: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """t in [0, 1] with sum_k C_k t^(k + 1) = target by Newton's steps, the last step and the slope there.

    They start from the cubic polynomial in the target that has the right values and slopes at both ends."""
    with np.errstate(all="ignore"):  # no density, no root: seen by its slope
        total, end = C.sum(0), np.arange(1.0, len(C) + 1) @ C
        r = target / total
        t = r + r * (1.0 - r) * ((total / C[0] - 1.0) * (1.0 - r) - (total / end - 1.0) * r)
        t = np.clip(t, 0.0, 1.0)
        for _ in range(NEWTON):
            value, slope = C[-1] * t, C[-1].copy()
            value += C[-2]
            for c in C[-3::-1]:  # Horner's rule for the sum over t, and for its derivative
                slope *= t
                slope += value
                value *= t
                value += c
            slope *= t
            slope += value
            value *= t
            change = (value - target) / slope
            t = np.clip(t - change, 0.0, 1.0)
    return t, change, slope


def _density(mean, sd, height, low, step, nodes: int) -> np.ndarray:
    """Densities (b, G) at the nodes low, low + step, ... of mixtures of height exp(-u^2 / 2).

    With u = (x - mean) / sd and d = step / sd a component is its neighbour's times exp(-d u - d^2 / 2), a
    factor that changes by exp(-d^2) from node to node. The chain starts anew in the middle of each
    2 STRETCH + 1 nodes. Where a component starts too small for a float, |u| > 38, it stays below 1e-24.
    """
    b, S = mean.shape
    f, ones, d = np.empty((nodes, b)), np.ones(S), step[:, None] / sd
    bend = np.exp(-d * d)
    for first in range(0, nodes, 2 * STRETCH + 1):
        last = min(first + 2 * STRETCH, nodes - 1)
        middle = (first + last) // 2
        u = ((low + middle * step)[:, None] - mean) / sd
        start = height * np.exp(-0.5 * u * u)
        np.dot(start, ones, out=f[middle])
        for way, end in ((1, last), (-1, first)):
            g, factor = start.copy(), np.exp(-d * (0.5 * d + way * u))
            for k in range(middle + way, end + way, way):
                g *= factor
                factor *= bend
                np.dot(g, ones, out=f[k])
    return np.ascontiguousarray(f.T)


@lru_cache(maxsize=1)
def _integrated() -> np.ndarray:
    """From a function at WIDTH nodes to the coefficients of t, t^2, ... in the integral from 0 to t of the
    polynomial through them, where t goes from 0 to 1 between the two nodes in the middle."""
    at = np.arange(WIDTH) - (WIDTH // 2 - 1.0)
    t = 0.5 - 0.5 * np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))  # Chebyshev's points
    others = [np.delete(at, i) for i in range(WIDTH)]
    through = [np.prod((t[:, None] - o) / (x - o), 1) for x, o in zip(at, others, strict=True)]  # Lagrange
    there = np.stack(through, 1)  # DEGREE + 1, WIDTH
    return np.linalg.solve(np.vander(t, increasing=True), there) / np.arange(1, DEGREE + 2)[:, None]
