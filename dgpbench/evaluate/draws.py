"""Scores from draws of a predictive distribution: CRPS, PIT, Shapiro-Wilk W, kernel density estimate."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.polynomial.polynomial import polyval
from scipy.special import ndtri

from dgpbench.evaluate.mixture import LOG_2PI
from dgpbench.evaluate.predictive import Predictive

C1 = (0.0, 0.221157, -0.147981, -2.07119, 4.434685, -2.706056)
C2 = (0.0, 0.042981, -0.293762, -1.752461, 5.682633, -3.582633)

CODES = 2**16 - 1
SHARED = 128  # rows with noise of their own
TOGETHER = 32  # rows whose draws are looked at together: they fit in the cache


def crps_draws(ordered: np.ndarray, y: np.ndarray) -> np.ndarray:
    """CRPS (m,) from sorted draws (m, n); unbiased, as pairs are of distinct draws."""
    n = ordered.shape[1]
    gini = ordered @ (2.0 * np.arange(1, n + 1) - n - 1) / (n * (n - 1))  # E|X - X'| / 2
    return np.abs(ordered - y[:, None]).mean(1) - gini


def pit_draws(ordered: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Share of draws below y (m,), ties counted half, for sorted draws (m, n)."""
    below, equal = (ordered < y[:, None]).mean(1), (ordered == y[:, None]).mean(1)
    return below + 0.5 * equal


# ---- kernel density estimate, by which thesis table 5.1 was made ----------------------------------------


def kde_log_density(draws: np.ndarray, y: np.ndarray) -> np.ndarray:
    """log (1/n) sum_i N(y_n | draw_ni, h_n^2) for draws (N, n) and y (N,).

    Far from all draws the estimate is far below the true log density (by 20 nats at 5 sd, 170 at 8 sd),
    which is a property of the estimator, not an error here.
    """
    centre = draws.mean(1)
    gap = draws - centre[:, None]
    h = _rule(gap)
    gap -= (y - centre)[:, None]
    gap *= (np.sqrt(0.5) / h)[:, None]
    return log_mean_kernel(gap) - 0.5 * LOG_2PI - np.log(h)


def bandwidth(draws: np.ndarray) -> np.ndarray:
    """Silverman's rule of thumb as in the released code, h = 1.06 sd n^(-1/5) (N,), sd with ddof 0."""
    return _rule(draws - draws.mean(1)[:, None])


def _rule(centred: np.ndarray) -> np.ndarray:
    n = centred.shape[1]
    return 1.06 * np.sqrt(np.einsum("ij,ij->i", centred, centred) / n) * n**-0.2


def log_mean_kernel(gap: np.ndarray) -> np.ndarray:
    """log (1/n) sum_i exp(-gap_ni^2) (N,) for gaps (N, n), which are overwritten."""
    np.square(gap, out=gap)
    nearest = gap.min(1)
    np.subtract(nearest[:, None], gap, out=gap)
    share = np.exp(gap, out=gap).sum(1) / gap.shape[1]
    return np.log(share) - nearest


# ---- Shapiro-Wilk W for many samples of one size at once (Royston 1995, algorithm AS R94) ----------------


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


# ---- one Gaussian per row: rows take turns with the same standard draws --------------------
#
# W does not see location and scale, and the kernel density estimate of mean + sd z at y is that of z at
# (y - mean) / sd, over sd. So the draws that every row would make for itself are made for SHARED rows only.


class StandardDraws:
    """n draws of a standard normal for each of the first `rows` test rows and their outputs: the noise of
    those rows. Test row i has that of row i mod `rows`."""

    def __init__(self, n: int, seed: int, rows: int, outputs: int) -> None:
        self.rows = min(rows, SHARED)
        shape = 1, self.rows, outputs
        normal = Predictive(mean=np.zeros(shape), var=np.ones(shape))
        z = normal.draw_rows(n, seed, np.arange(self.rows)).transpose(0, 2, 1)  # rows, P, n
        self.z = np.ascontiguousarray(z).reshape(-1, n)
        self.w, self.h = np.empty(len(self.z)), np.empty(len(self.z))
        for start in range(0, len(self.z), TOGETHER):
            part = slice(start, start + TOGETHER)
            self.w[part] = shapiro_w_draws(self.z[part])
            self.h[part] = bandwidth(self.z[part])
            self.z[part] *= (np.sqrt(0.5) / self.h[part])[:, None]
        self.w = self.w.reshape(-1, outputs)

    def shapiro_w(self, first: int, count: int) -> np.ndarray:
        """W (count, P) of the test rows first, first + 1, ..."""
        return self.w[self._own(first, count)]

    def kde_log_density(self, mean: np.ndarray, sd: np.ndarray, y: np.ndarray, first: int) -> np.ndarray:
        """Log of the kernel density estimate at y (N,) for the test rows first, first + 1, ..., which have
        one output and are predicted by N(mean, sd^2)."""
        own = self._own(first, len(y))
        h, out = sd * self.h[own], np.empty(len(y))
        u = np.sqrt(0.5) * (y - mean) / h
        for start in range(0, len(y), TOGETHER):
            part = slice(start, start + TOGETHER)
            gap = self.z[own[part]]
            gap -= u[part, None]
            out[part] = log_mean_kernel(gap)
        return out - 0.5 * LOG_2PI - np.log(h)

    def _own(self, first: int, count: int) -> np.ndarray:
        return np.arange(first, first + count) % self.rows
