"""Shapiro-Wilk W for many samples of one size at once (Royston 1995, algorithm AS R94)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.polynomial.polynomial import polyval
from scipy.special import ndtri

C1 = (0.0, 0.221157, -0.147981, -2.07119, 4.434685, -2.706056)
C2 = (0.0, 0.042981, -0.293762, -1.752461, 5.682633, -3.582633)

CODES = 2**16 - 1


@lru_cache(maxsize=8)
def royston_coefficients(n: int) -> np.ndarray:
    """The antisymmetric weights a of W = (a . x_sorted)^2 / sum (x - mean)^2 (n,)."""
    if n < 3:
        raise ValueError(f"Shapiro-Wilk needs at least 3 values, got {n}")
    if n == 3:
        return np.array([-np.sqrt(0.5), 0.0, np.sqrt(0.5)])
    m = ndtri((np.arange(1, n + 1) - 0.375) / (n + 0.25))  # expected normal order statistics
    total = m @ m
    root = 1 / np.sqrt(n)
    a = m.copy()
    a[-1] = polyval(root, C1) + m[-1] / np.sqrt(total)
    exact = 1
    if n > 5:
        a[-2] = polyval(root, C2) + m[-2] / np.sqrt(total)
        exact = 2
    tail_m, tail_a = m[n - exact :], a[n - exact :]
    scale = np.sqrt((total - 2 * tail_m @ tail_m) / (1 - 2 * tail_a @ tail_a))
    a[exact : n - exact] = m[exact : n - exact] / scale
    a[:exact] = -a[: -exact - 1 : -1]
    a.setflags(write=False)
    return a


def shapiro_w(ordered: np.ndarray) -> np.ndarray:
    """W of each row of `ordered` (N, n), whose rows are sorted. A constant row has W = 1, as in scipy."""
    centred = ordered - ordered.mean(1, keepdims=True)
    squares = np.einsum("ij,ij->i", centred, centred)
    flat = ordered[:, 0] == ordered[:, -1]
    w = (centred @ royston_coefficients(ordered.shape[1])) ** 2 / np.where(flat, 1.0, squares)
    return np.where(flat, 1.0, np.minimum(w, 1.0))


def shapiro_w_draws(draws: np.ndarray) -> np.ndarray:
    """W of each row of `draws` (N, n), in any order, to 1e-6, with heavy tails 1e-5.

    It is W of the values rounded to 65,536 steps between the smallest and the largest: integers of 16 bits
    are sorted in an eighth of the time."""
    low = draws.min(1, keepdims=True)
    span = draws.max(1, keepdims=True) - low
    codes = draws - low
    codes *= CODES / np.where(span > 0, span, 1.0)
    codes += 0.5
    codes = codes.astype(np.uint16)
    codes.sort(axis=1, kind="stable")
    ordered, n = codes.astype(np.float64), draws.shape[1]
    squares = np.einsum("ij,ij->i", ordered, ordered) - ordered.sum(1) ** 2 / n  # of whole numbers below 2^53
    w = (ordered @ royston_coefficients(n)) ** 2 / np.where(span[:, 0] > 0, squares, 1.0)
    return np.where(span[:, 0] > 0, np.minimum(w, 1.0), 1.0)
