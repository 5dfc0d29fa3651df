"""Multi-fidelity sets: a cheap and a dear simulation of the same thing, in closed form.

The inputs come first, the level last: 0 is the cheapest, the highest is the one that is wanted. The highest
level has `n` rows, each level below it `lower`. Functions: Perdikaris et al. (2017) for the sine and Branin,
the collection of Surjanovic and Bingham for Currin, Park and borehole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Fidelities:
    """Functions of x (N, D) from the cheapest to the dearest, and the box (D, 2) that x comes from."""

    levels: tuple[Function, ...]
    box: np.ndarray

    @property
    def dim(self) -> int:
        return len(self.box)

    def value(self, X: np.ndarray) -> np.ndarray:
        """f (N,) at the level that stands in the last column of X (N, D + 1)."""
        out = np.empty(len(X))
        for level, function in enumerate(self.levels):
            rows = X[:, -1] == level
            out[rows] = function(X[rows, :-1])
        return out


def _sine(X: np.ndarray) -> np.ndarray:
    return np.sin(8 * np.pi * X[:, 0])


def _sine_squared(X: np.ndarray) -> np.ndarray:
    return (X[:, 0] - np.sqrt(2)) * _sine(X) ** 2


def _branin(X: np.ndarray) -> np.ndarray:
    a, b = X.T
    bowl = (-1.275 * a**2 / np.pi**2 + 5 * a / np.pi + b - 6) ** 2
    return bowl + (10 - 5 / (4 * np.pi)) * np.cos(a) + 10


def _branin_middle(X: np.ndarray) -> np.ndarray:
    return 10 * np.sqrt(_branin(X - 2)) + 2 * (X[:, 0] - 0.5) - 3 * (3 * X[:, 1] - 1) - 1


def _branin_low(X: np.ndarray) -> np.ndarray:
    return _branin_middle(1.2 * (X + 2)) - 3 * X[:, 1] + 1


def _currin(X: np.ndarray) -> np.ndarray:
    a, b = X.T
    fall = 1 - np.exp(-0.5 / np.maximum(b, 1e-12))
    return fall * (2300 * a**3 + 1900 * a**2 + 2092 * a + 60) / (100 * a**3 + 500 * a**2 + 4 * a + 20)


def _currin_low(X: np.ndarray) -> np.ndarray:
    a, b = X.T
    high, low = b + 0.05, np.maximum(0.0, b - 0.05)
    corners = [np.stack([a + s, c], 1) for s in (0.05, -0.05) for c in (high, low)]
    return 0.25 * sum(_currin(corner) for corner in corners)


def _park(X: np.ndarray) -> np.ndarray:
    a, b, c, d = X.T
    return 0.5 * (np.sqrt(a**2 + (b + c**2) * d) - a) + (a + 3 * d) * np.exp(1 + np.sin(c))


def _park_low(X: np.ndarray) -> np.ndarray:
    a, b, c, _ = X.T
    return (1 + np.sin(a) / 10) * _park(X) - 2 * a + b**2 + c**2 + 0.5


def _flow(X: np.ndarray, factor: float, one: float) -> np.ndarray:
    radius, reach, upper, head, lower, foot, length, conductivity = X.T
    log = np.log(reach / radius)
    through = 2 * length * upper / (log * radius**2 * conductivity)
    return factor * upper * (head - foot) / (log * (one + through + upper / lower))


def _borehole(X: np.ndarray) -> np.ndarray:
    return _flow(X, 2 * np.pi, 1.0)


def _borehole_low(X: np.ndarray) -> np.ndarray:
    return _flow(X, 5.0, 1.5)


def _unit(dim: int) -> np.ndarray:
    return np.tile([0.0, 1.0], (dim, 1))


WELL = [(0.05, 0.15), (100, 50000), (63070, 115600), (990, 1110)]
WELL += [(63.1, 116), (700, 820), (1120, 1680), (9855, 12045)]
SETS = {
    "mf_sine": Fidelities((_sine, _sine_squared), _unit(1)),
    "mf_branin": Fidelities((_branin_low, _branin_middle, _branin), np.array([[-5.0, 10.0], [0.0, 15.0]])),
    "mf_currin": Fidelities((_currin_low, _currin), _unit(2)),
    "mf_park": Fidelities((_park_low, _park), _unit(4)),
    "mf_borehole": Fidelities((_borehole_low, _borehole), np.array(WELL, float)),
}


def rows_of(generator: str, n: int, lower: int, noise: float, seed: int) -> Iterator:
    """One block (X, Y) for each level, x uniform in the box; noise of the same deviation at every level."""
    found = SETS[generator]
    for level, function in enumerate(found.levels):
        count = n if level == len(found.levels) - 1 else lower
        random = np.random.RandomState([seed, level])
        x = np.round(found.box[:, 0] + random.uniform(size=(count, found.dim)) * np.ptp(found.box, axis=1), 6)
        y = function(x)[:, None] + noise * random.standard_normal((count, 1))
        yield np.hstack([x, np.full((count, 1), float(level))]), np.round(y, 6)
