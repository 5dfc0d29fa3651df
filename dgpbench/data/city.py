"""A synthetic city: where a taxi stops, given where and when it started, with a density that is known.

Inputs are those of thesis table 4.1: the place of the pick-up (2), sine and cosine of the weekday and of the
time of day. The drop-off (2) is a mixture: districts, each a Gaussian stretched along the avenues, and a trip
near the pick-up. Districts gain weight with nearness, with their hour of the day, and at the weekend.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

# district: centre, weight, hour of its peak, its gain then, its gain at the weekend
DISTRICTS = {
    "offices": ((0.0, -1.0), 0.6, 9.0, 1.6, -1.2),
    "shops": ((0.3, 0.5), 0.2, 16.0, 1.0, 0.8),
    "homes in the west": ((-1.0, 1.4), 0.0, 20.0, 1.4, 0.3),
    "homes in the east": ((1.1, 1.8), 0.0, 20.0, 1.4, 0.3),
    "station": ((0.5, -2.2), -0.3, 7.0, 1.0, -0.2),
}
CENTRES = np.array([d[0] for d in DISTRICTS.values()])  # K, 2
WEIGHTS, PEAKS, GAINS, WEEKEND = (np.array([d[i] for d in DISTRICTS.values()]) for i in (1, 2, 3, 4))
TURN = np.deg2rad(29.0)  # of the avenues
ALONG, ACROSS, NEAR = 0.45, 0.12, 0.3  # standard deviations at noise = 1
REACH, SHORT = 1.5, 0.0  # how far nearness counts; weight of the short trip
PICKUP_SD = 0.5


def _axes() -> np.ndarray:
    """Directions along and across the avenues as rows (2, 2)."""
    return np.array([[np.sin(TURN), np.cos(TURN)], [np.cos(TURN), -np.sin(TURN)]])


def encoded(place: np.ndarray, weekday: np.ndarray, hour: np.ndarray) -> np.ndarray:
    """Inputs (N, 6) of places (N, 2), weekdays 0 to 6 (Monday is 0) and hours 0 to 24."""
    week, day = 2 * np.pi * weekday / 7, 2 * np.pi * hour / 24
    return np.column_stack([place, np.sin(week), np.cos(week), np.sin(day), np.cos(day)])


def log_weights(X: np.ndarray) -> np.ndarray:
    """log of the mixture's weights (N, K + 1): the districts, then the short trip."""
    apart = ((X[:, None, :2] - CENTRES) ** 2).sum(-1)
    peak = 2 * np.pi * PEAKS / 24
    rhythm = X[:, 4:5] * np.sin(peak) + X[:, 5:6] * np.cos(peak)  # cos of the time since the peak
    middle = 2 * np.pi * 5.5 / 7  # of the weekend
    weekend = X[:, 2:3] * np.sin(middle) + X[:, 3:4] * np.cos(middle)
    score = WEIGHTS - apart / (2 * REACH**2) + GAINS * rhythm + WEEKEND * weekend
    score = np.hstack([score, np.full((len(X), 1), SHORT)])
    return score - logsumexp(score, 1, keepdims=True)


def draw(random: np.random.RandomState, n: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Pick-ups around a random district at a random minute of the week, and one drop-off of each."""
    start = CENTRES[random.randint(0, len(CENTRES), n)] + PICKUP_SD * random.standard_normal((n, 2))
    weekday, hour = random.randint(0, 7, n), random.randint(0, 1440, n) / 60
    X = np.round(encoded(start, weekday, hour), 6)
    cumulative = np.cumsum(np.exp(log_weights(X)), 1)
    which = (random.uniform(size=(n, 1)) > cumulative[:, :-1]).sum(1)
    far = which < len(CENTRES)
    mean = np.where(far[:, None], CENTRES[np.minimum(which, len(CENTRES) - 1)], X[:, :2])
    spread = np.where(far[:, None], [ALONG, ACROSS], NEAR)
    return X, mean + noise * (spread * random.standard_normal((n, 2))) @ _axes()


def log_density(X: np.ndarray, Y: np.ndarray, noise: float) -> np.ndarray:
    """log p(y | x) (N,) for inputs (N, 6) and places (N, 2)."""
    near = (Y - X[:, :2])[:, None]  # N, 1, 2
    away = np.concatenate([Y[:, None] - CENTRES, near], 1) @ _axes().T / noise  # N, K + 1, 2
    spread = np.array([[ALONG, ACROSS]] * len(CENTRES) + [[NEAR, NEAR]])
    each = -0.5 * ((away / spread) ** 2).sum(-1) - np.log(2 * np.pi * noise**2 * spread.prod(-1))
    return logsumexp(each + log_weights(X), 1)
