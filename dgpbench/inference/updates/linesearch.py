"""Steps whose size is found by a line search (thesis 3.4.1): full batches, and one q(u) alone.

Directions other than the natural gradient are made from the ordinary gradient as one flat vector (3.2.2).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from dgpbench.gp.deep_gp import DeepGP
from dgpbench.inference import natgrad
from dgpbench.inference.base import Oracle, Update
from dgpbench.inference.natgrad import coordinates
from dgpbench.inference.updates.adam import BETA1, BETA2, EPSILON

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


MEMORY = 10  # pairs that L-BFGS keeps


class GradientDirection:
    """Steepest ascent: the gradient as it is."""

    def __init__(self) -> None:
        self.state: dict[str, np.ndarray] = {}

    def __call__(self, x: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        return gradient


class AdamDirection(GradientDirection):
    """Adam's direction m / (sqrt(v) + epsilon), bias corrected."""

    def __call__(self, x: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        zero = np.zeros_like(gradient)
        m = BETA1 * self.state.get("m", zero) + (1 - BETA1) * gradient
        v = BETA2 * self.state.get("v", zero) + (1 - BETA2) * gradient**2
        t = self.state.get("t", np.zeros(())) + 1
        self.state = {"m": m, "v": v, "t": t}
        return (m / (1 - BETA1**t)) / (np.sqrt(v / (1 - BETA2**t)) + EPSILON)


class LBFGSDirection(GradientDirection):
    """Limited-memory BFGS: the two-loop recursion over the last pairs of steps and gradient changes."""

    def __call__(self, x: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        empty = np.zeros((0, len(x)))
        steps, changes = self.state.get("steps", empty), self.state.get("changes", empty)
        if "x" in self.state:
            s, y = x - self.state["x"], self.state["gradient"] - gradient  # of -L, which is minimised
            if s @ y > 1e-12 * np.sqrt((s @ s) * (y @ y)):  # else it says nothing about the curvature
                steps, changes = np.vstack([steps, s])[-MEMORY:], np.vstack([changes, y])[-MEMORY:]
        self.state = {"x": x, "gradient": gradient, "steps": steps, "changes": changes}
        r, alphas = gradient.copy(), []
        for s, y in zip(steps[::-1], changes[::-1], strict=True):
            alphas.append((s @ r) / (s @ y))
            r = r - alphas[-1] * y
        if len(steps):
            r = r * (steps[-1] @ changes[-1]) / (changes[-1] @ changes[-1])
        for s, y, alpha in zip(steps, changes, alphas[::-1], strict=True):
            r = r + s * (alpha - (y @ r) / (s @ y))
        return r


DIRECTIONS = {
    "gradient": GradientDirection,
    "adam": AdamDirection,
    "lbfgs": LBFGSDirection,
}  # besides the natural gradient


@dataclass(frozen=True)
class LineSearch(Update):
    """Each step goes as far along its direction as the bound grows. `direction` is natural, or one of
    DIRECTIONS."""

    model: DeepGP
    layer: int
    parameterisation: str
    direction: str
    whitened: bool = True
    host = True
    needs_all_rows = "inference.natgrad.step=linesearch"

    def driver(self, oracle: Oracle) -> Search:
        return Search(self, oracle)


class Search:
    """The steps of one run, on the host: compiled looks at the bound, chosen between in Python."""

    def __init__(self, update: LineSearch, oracle: Oracle):
        self.update, self.oracle = update, oracle
        self.names = update.model.parameter_names(update.layer)
        self._look = tf.function(self._gradient_at_q)
        self._bound = tf.function(self._bound_along)
        self.reset()

    def reset(self) -> None:
        name = self.update.direction
        self.follow = DIRECTIONS[name]() if name in DIRECTIONS else None

    def state(self) -> dict[str, np.ndarray]:
        kept = self.follow.state if self.follow else {}
        return {name: np.array(value) for name, value in kept.items()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        if self.follow:
            self.follow.state = dict(state)

    def step(self, step: int) -> tuple[float, float]:
        """One step; the bound behind it, which nothing random touches, and the step's size."""
        bound, x, natural, ordinary = self._look(tf.constant(step))
        direction = natural
        if self.follow:
            flat = self.follow(_flat(x), _flat(ordinary))
            size = int(tf.size(x[0]))
            parts = zip((flat[:size], flat[size:]), x, strict=True)
            direction = [tf.constant(part.reshape(like.shape)) for part, like in parts]

        def objective(gamma: float) -> float:
            try:
                value = float(self._bound(tf.constant(step), *x, *direction, tf.constant(gamma, x[0].dtype)))
            except tf.errors.InvalidArgumentError:  # a Cholesky at the edge of the cone
                return -math.inf
            return value if math.isfinite(value) else -math.inf

        gamma, reached = best_step(objective, float(bound))
        if gamma > 0.0:
            moved = [a + gamma * v for a, v in zip(x, direction, strict=True)]
            for name, value in self._stored(moved).items():
                self.oracle.raw[name].assign(value)
        return reached, gamma

    def _gradient_at_q(self, step):
        """The bound, xi, and the natural and the ordinary gradient in xi."""
        bound, _, natural = self.oracle(self.oracle.full_batch(step), [], (self.update.layer,))
        m, L = (self.oracle.raw[name].read_value() for name in self.names)
        name, pair = self.update.parameterisation, natural[self.update.layer]
        where = self._where()
        m, L = where.white(m, tf.linalg.band_part(L, -1, 0))
        to = natgrad.xi_direction(name, m, L, *natgrad.direction(m, L, *pair))
        natural, here = where.outward(name, *to), where.outward(name, *natgrad.xi(name, m, L))
        return bound, here, natural, where.gradient(name, *natgrad.gradient(name, m, L, *pair))

    def _where(self):
        return coordinates(self.update.model, self.update.layer, self.update.whitened, self.oracle)

    def _stored(self, x) -> dict[str, tf.Tensor]:
        """The layer's parameters, by name, at xi."""
        name, where = self.update.parameterisation, self._where()
        q = natgrad.mean_and_sqrt(name, *where.inward(name, *x))
        return dict(zip(self.names, where.stored(*q), strict=True))

    @tf.autograph.experimental.do_not_convert
    def _bound_along(self, step, x1, x2, v1, v2, gamma):
        """The bound at xi + gamma v; minus infinity outside the cone."""
        name, layer = self.update.parameterisation, self.update.layer
        moved = x1 + gamma * v1, x2 + gamma * v2

        def inside():
            q = self._stored(moved)
            return self.oracle(self.oracle.full_batch(step), [], (layer,), replaced=q)[0]

        possible = natgrad.inside_cone(name, self._where().inward(name, *moved)[1])
        return tf.cond(possible, inside, lambda: tf.constant(-math.inf, x1.dtype))


def _flat(parts) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in parts])
