"""Gaussian mixtures: density, its Monte Carlo error, distribution function, CRPS and quantiles.

Weights are optional. Without them the S components are equally likely samples; with them they are the exact
distribution, and there is no Monte Carlo error.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

LOG_2PI = np.log(2 * np.pi)
SQRT_2_OVER_PI, INV_SQRT_2PI = np.sqrt(2 / np.pi), 1 / np.sqrt(2 * np.pi)
LEVELS = np.arange(1, 100) / 100
BLOCK = 200_000  # entries of a work array, small enough for the cache
SKETCH = 1000  # points of the first guess per mixture
SMALL_STEP = 3e-4  # in units of the narrowest component: the next (cubic) error is far below float32
MAX_ROUNDS = 100


def component_logpdf(mean: np.ndarray, var: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """log N(y_n | mean_sn, diag var_sn), summed over the P outputs (S, N)."""
    return -0.5 * (LOG_2PI + np.log(var) + (Y - mean) ** 2 / var).sum(-1)


def log_mean_exp(logp: np.ndarray) -> np.ndarray:
    """log of the mean over the first axis of exp(logp), stable for very small densities."""
    top = logp.max(0)
    return top + np.log(np.exp(logp - top).mean(0))


def log_density(logp: np.ndarray, log_weights: np.ndarray | None = None) -> np.ndarray:
    """log of the mixture's density (N,) from its components' (S, N)."""
    if log_weights is None:
        return log_mean_exp(logp)
    weighted = logp + log_weights
    top = weighted.max(0)
    return top + np.log(np.exp(weighted - top).sum(0))


def average(values: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Mean over the first axis of values (S, ...), weighted by weights (S, ...) that sum to one over it."""
    return values.mean(0) if weights is None else (weights * values).sum(0)


def cdf(mean: np.ndarray, sd: np.ndarray, Y: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """P(y <= Y) under the mixture, per output: the PIT value when Y is the observation."""
    return average(ndtr((Y - mean) / sd), weights)


def loglik_influence(logp: np.ndarray) -> np.ndarray:
    """sum_n (p_sn / mean_s p_sn - 1) per component s (S,).

    Summed over chunks and given to `loglik_mc_se`. Components are followed by their index over all points,
    so that inner samples shared between points count as shared and independent ones as independent.
    """
    return (np.exp(logp - log_mean_exp(logp)) - 1).sum(1)


def loglik_mc_se(influence: np.ndarray, num_points: int) -> float:
    """Standard error of mean_n log mean_s p_sn over the draw of the S components (delta method)."""
    S = len(influence)
    return float(np.sqrt(((influence / num_points) ** 2).sum() / (S * (S - 1))))


# ---- CRPS: E|X - y| - E|X - X'| / 2 ----------------------------------------------------------------------


def mean_abs_normal(mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """E|Z| for Z ~ N(mean, sd^2)."""
    z = mean / sd
    return mean * (2 * ndtr(z) - 1) + sd * SQRT_2_OVER_PI * np.exp(-0.5 * z * z)


def crps_mixture(
    mean: np.ndarray,
    sd: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray | None = None,
    difference: np.ndarray | None = None,
) -> np.ndarray:
    """CRPS (m,) of mixtures with mean, sd (S, m), weights (S, m) or equal ones, at y (m,).

    `difference` (m,) is E|X - X'| / 2 where it is known; else it comes from all pairs.
    """
    if difference is None:
        difference = difference_of_pairs(mean, sd, weights)
    return average(mean_abs_normal(mean - y, sd), weights) - difference


def difference_of_pairs(mean: np.ndarray, sd: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """E|X - X'| / 2 (m,) of mixtures with mean, sd, weights (S, m): closed form over pairs, O(S^2 m)."""
    S, m = mean.shape
    out = np.empty(m)
    step = max(1, BLOCK // S)
    for start in range(0, m, step):
        part = slice(start, start + step)
        mu, var = mean[:, part], sd[:, part] ** 2
        w = None if weights is None else weights[:, part]
        pairs = _total(SQRT_2_OVER_PI * np.sqrt(2 * var), w, w)  # each component with itself
        for s in range(1, S):  # each unordered pair once, counted twice
            gaps = mean_abs_normal(mu[s:] - mu[:-s], np.sqrt(var[s:] + var[:-s]))
            pairs += 2 * (_total(gaps, None, None) if w is None else _total(gaps, w[s:], w[:-s]))
        out[part] = 0.5 * (pairs / S**2 if w is None else pairs)
    return out


def _total(values: np.ndarray, w: np.ndarray | None, v: np.ndarray | None) -> np.ndarray:
    """Sum over pairs (first axis), each times the weights w, v of its two components if there are any."""
    return values.sum(0) if w is None or v is None else np.einsum("sm,sm,sm->m", values, w, v)


def crps_and_quantiles(
    mean: np.ndarray, sd: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """CRPS (m,) at y and quantiles (m, L) of mixtures with mean, sd, weights (S, m): from a grid, and where
    it is not enough from all pairs and by root finding."""
    m, s = np.ascontiguousarray(mean.T), np.ascontiguousarray(sd.T)
    w = None if weights is None else np.ascontiguousarray(weights.T)
    if len(mean) == 1:
        return crps_mixture(mean, sd, y, weights), mixture_quantiles(m, s, w)
    difference, quantiles = grid_summaries(m, s, w, LEVELS)
    rest = np.isnan(difference)
    if rest.any():
        part = None if weights is None else weights[:, rest]
        difference[rest] = difference_of_pairs(mean[:, rest], sd[:, rest], part)
    rest = np.isnan(quantiles).any(1)
    if rest.any():
        quantiles[rest] = mixture_quantiles(m[rest], s[rest], None if w is None else w[rest])
    return crps_mixture(mean, sd, y, weights, difference), quantiles


# ---- quantiles by root finding ----------------------------------------------------------------------------


def mixture_quantiles(
    mean: np.ndarray, sd: np.ndarray, weights: np.ndarray | None = None, levels: np.ndarray = LEVELS
) -> np.ndarray:
    """Return the quantiles (m, L) of mixtures with mean, sd (m, S) and weights (m, S).

    Without `weights` all components weigh the same. `levels` may be empty.
    """
    m, S = mean.shape
    z = ndtri(levels)
    if S == 1 or not len(levels):
        return mean[:, :1] + sd[:, :1] * z
    out = np.empty((m, len(levels)))
    step = max(1, BLOCK // (S * len(levels)))
    for start in range(0, m, step):
        part = slice(start, start + step)
        out[part] = _solve(mean[part], sd[part], levels, z, None if weights is None else weights[part])
    return out


def _first_guess(mean: np.ndarray, sd: np.ndarray, levels: np.ndarray, weights) -> np.ndarray:
    """Quantiles of a sketch: a few evenly spaced quantiles of each component, sorted together (b, L)."""
    each = max(1, SKETCH // mean.shape[1])
    nodes = ndtri((np.arange(each) + 0.5) / each)
    sketch = (mean[:, :, None] + sd[:, :, None] * nodes).reshape(len(mean), -1)
    if weights is not None:
        order = np.argsort(sketch, axis=1)
        sketch = np.take_along_axis(sketch, order, 1)
        mass = np.take_along_axis(np.repeat(weights / each, each, axis=1), order, 1)
        middle = np.cumsum(mass, axis=1) - 0.5 * mass
        return np.stack([np.interp(levels, m, x) for m, x in zip(middle, sketch, strict=True)])
    sketch.sort(axis=1)
    place = levels * sketch.shape[1] - 0.5
    left = np.clip(np.floor(place).astype(int), 0, sketch.shape[1] - 2)
    return sketch[:, left] + (place - left) * (sketch[:, left + 1] - sketch[:, left])


def _solve(mean: np.ndarray, sd: np.ndarray, levels: np.ndarray, z: np.ndarray, weights) -> np.ndarray:
    """Every quantile lies between the smallest and the largest quantile of its components: a bracket that
    each evaluation narrows. Halley's step is taken where it stays inside, bisection elsewhere."""
    b, S = mean.shape
    L = len(levels)
    edges = mean[:, :, None] + sd[:, :, None] * z  # b, S, L
    low, high = edges.min(1).ravel(), edges.max(1).ravel()
    x = np.clip(_first_guess(mean, sd, levels, weights).ravel(), low, high)
    target = np.tile(levels, b)
    owner = np.repeat(np.arange(b), L)
    tolerance = (SMALL_STEP * sd.min(1))[owner]
    finest = 1e-9 * (high - low) + 4e-16 * np.abs(x)
    inv = 1 / sd
    active = np.arange(b * L)
    for _ in range(MAX_ROUNDS):
        who, xa = owner[active], x[active]
        scale = inv[who]
        u = (xa[:, None] - mean[who]) * scale
        share = None if weights is None else weights[who]
        error = _average(ndtr(u), share) - target[active]
        weight = np.exp(-0.5 * u * u) * scale
        density = INV_SQRT_2PI * _average(weight, share)
        if share is None:
            slope = -INV_SQRT_2PI * np.einsum("ij,ij,ij->i", weight, u, scale) / S
        else:
            slope = -INV_SQRT_2PI * np.einsum("ij,ij,ij,ij->i", weight, u, scale, share)
        above = error > 0
        high[active[above]] = xa[above]
        low[active[~above]] = xa[~above]
        lo, hi = low[active], high[active]
        with np.errstate(all="ignore"):  # an empty gap between components has no density: bisect
            newton = error / density
            ratio = np.clip(newton * slope / density, -1.0, 1.0)
            new = xa - newton / (1 - 0.5 * ratio)
            inside = (new >= lo) & (new <= hi)
        new = np.where(inside, new, 0.5 * (lo + hi))
        x[active] = new
        done = inside & (np.abs(new - xa) <= tolerance[active]) | (hi - lo <= finest[active]) | (error == 0)
        x[active[error == 0]] = xa[error == 0]
        active = active[~done]
        if not len(active):
            break
    return x.reshape(b, L)


def _average(values: np.ndarray, share: np.ndarray | None) -> np.ndarray:
    return values.mean(1) if share is None else np.einsum("ij,ij->i", values, share)


# ---- quantiles and mean difference on a grid --------------------------------------------------------------
# Nodes are at most SPACING times the narrowest sd apart. On them a component's density comes from that of its
# neighbour by two products (`_density_on_grid`). Between two nodes the density is the polynomial through the
# nearest WIDTH nodes, the distribution function F its integral: both to 1e-9. E|X - X'| / 2 is the integral
# of F (1 - F), for which the trapezoidal rule on such a grid is exact to rounding.

SPACING = 0.28  # of the narrowest sd
WIDTH = 20  # nodes that a polynomial goes through
DEGREE = 9  # that is enough for it between the two nodes in the middle: 1e-12
REACH = 6.5  # sds beyond the outermost means: 4e-11 of a component lies further out
MAX_CELLS = 1024  # a mixture that needs more has no grid here
GRID_BLOCK = 12_800  # components of the mixtures that share a pass, small enough for the cache
STRETCH = 100  # nodes on either side of one at which exponentials are taken
NEWTON = 2  # steps to a root inside a cell; each squares the error
CELL_STEP = 4e-5  # of a cell: the next would be 1e-9
LEAST_DENSITY = 0.02  # over the range's: where it is lower, an error of F is too large an error of x


def grid_summaries(
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
        count = max(1, GRID_BLOCK // S)
        for rows in np.split(same, range(count, len(same), count)):
            share = None if weights is None else weights[rows]
            made = _cells(mean[rows], sd[rows], share, low[rows], high[rows], cells, levels)
            difference[rows], quantiles[rows] = made
    return difference, quantiles


def _cells(mean, sd, weights, low, high, cells: int, levels) -> tuple[np.ndarray, np.ndarray]:
    """The same for mixtures (b, S) that share a number of cells between low and high (b,)."""
    b, step, beyond = len(mean), (high - low) / cells, WIDTH // 2 - 1
    share = 1.0 / mean.shape[1] if weights is None else weights
    height = share / (np.sqrt(2.0 * np.pi) * sd)
    f = _density_on_grid(
        mean, sd, height, low - beyond * step, step, cells + WIDTH - 1
    )  # b, cells + WIDTH - 1
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
    fine = (dense & (np.abs(change) < CELL_STEP)).all(1)
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


def _density_on_grid(mean, sd, height, low, step, nodes: int) -> np.ndarray:
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
