"""Continuous ranked probability score E|X - y| - E|X - X'| / 2, exact for Gaussian mixtures."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from dgpbench.evaluate.mixture import average

SQRT_2_OVER_PI = np.sqrt(2 / np.pi)
BLOCK = 200_000  # entries of a work array, small enough for the cache


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


def crps_draws(ordered: np.ndarray, y: np.ndarray) -> np.ndarray:
    """CRPS (m,) from sorted draws (m, n); unbiased, as pairs are of distinct draws."""
    n = ordered.shape[1]
    gini = ordered @ (2.0 * np.arange(1, n + 1) - n - 1) / (n * (n - 1))  # E|X - X'| / 2
    return np.abs(ordered - y[:, None]).mean(1) - gini
