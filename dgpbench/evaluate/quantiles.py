"""Quantiles of Gaussian mixtures by safeguarded Halley steps, many points and levels at once."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

LEVELS = np.arange(1, 100) / 100
BLOCK = 200_000  # entries of a work array, small enough for the cache
SKETCH = 1000  # points of the first guess per mixture
SMALL_STEP = 3e-4  # in units of the narrowest component: the next (cubic) error is far below float32
MAX_ROUNDS = 100
INV_SQRT_2PI = 1 / np.sqrt(2 * np.pi)


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
