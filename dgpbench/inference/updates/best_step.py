"""The best step along a direction, whatever its scale (thesis 3.4.1)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

LOWEST, HIGHEST, PER_DECADE = -8, 2, 3  # of log10 gamma: the coarse grid on which the search begins
TOLERANCE = 1e-4  # of log10 gamma
PEAKS = 2  # local maxima of the grid that Brent's method refines, the highest first


def best_step(objective: Callable[[float], float], start: float) -> tuple[float, float]:
    """The gamma > 0 with the largest objective, and its value; (0, start) if none is above `start`.

    The objective is looked at over ten decades, then by Brent's method around the two highest peaks of these
    values. It is minus infinity where a step is not possible.
    """
    from scipy.optimize import minimize_scalar

    grid = np.linspace(LOWEST, HIGHEST, PER_DECADE * (HIGHEST - LOWEST) + 1)
    values = np.array([objective(10.0**u) for u in grid])
    best = max(zip(values.tolist(), (10.0**grid).tolist(), strict=True))
    padded = np.concatenate([[-math.inf], values, [-math.inf]])
    peaks = np.flatnonzero((values >= padded[:-2]) & (values >= padded[2:]) & (values > start))
    for k in sorted(peaks, key=lambda k: -values[k])[:PEAKS]:
        floor = values[k] - 1e6 * (1.0 + abs(values[k]))  # for parabolas, as good as minus infinity
        found = minimize_scalar(
            lambda u, floor=floor: -max(objective(10.0**u), floor),
            bounds=(grid[k] - 1.0 / PER_DECADE, grid[k] + 1.0 / PER_DECADE),
            method="bounded",
            options={"xatol": TOLERANCE},
        )
        best = max(best, (float(-found.fun), float(10.0**found.x)))
    value, gamma = best
    return (gamma, value) if value > start else (0.0, start)
