"""Scores by draws where each row is predicted by one Gaussian: rows take turns with the same standard draws.

W does not see location and scale, and the kernel density estimate of mean + sd z at y is that of z at
(y - mean) / sd, over sd. So the draws that every row would make for itself are made for SHARED rows only.
"""

from __future__ import annotations

import numpy as np

from dgpbench.evaluate.kde import LOG_2PI, bandwidth, log_mean_kernel
from dgpbench.evaluate.predictive import Predictive
from dgpbench.evaluate.shapiro import shapiro_w_draws

SHARED = 128  # rows with noise of their own
TOGETHER = 32  # rows whose draws are looked at together: they fit in the cache


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
