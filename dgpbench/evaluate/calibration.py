"""Are the predicted probabilities right? Summaries of PIT values F(y), uniform for a calibrated model."""

from __future__ import annotations

import numpy as np

BINS = 10


def pit_draws(ordered: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Share of draws below y (m,), ties counted half, for sorted draws (m, n)."""
    below, equal = (ordered < y[:, None]).mean(1), (ordered == y[:, None]).mean(1)
    return below + 0.5 * equal


def ks_distance(pit: np.ndarray) -> float:
    """Kolmogorov-Smirnov distance of the PIT values from the uniform distribution."""
    u = np.sort(pit, axis=None)
    steps = np.arange(len(u) + 1) / len(u)
    return float(max((steps[1:] - u).max(), (u - steps[:-1]).max()))


def coverage(pit: np.ndarray, level: float = 0.95) -> float:
    """Share of observations inside the central interval of the given level."""
    return float((np.abs(pit - 0.5) <= level / 2).mean())


def pit_histogram(pit: np.ndarray) -> list[float]:
    """Share of PIT values in each of ten equal bins (0.1 each for a calibrated model)."""
    counts = np.histogram(pit, bins=BINS, range=(0.0, 1.0))[0]
    return [float(c) / pit.size for c in counts]
