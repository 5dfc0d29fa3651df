"""Steps whose size is found by a line search (thesis 3.4.1): full batches, one q(u) and nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from dgpbench.gp.deep_gp import DeepGP
from dgpbench.inference import natgrad
from dgpbench.inference.base import Oracle, Update
from dgpbench.inference.updates.best_step import best_step
from dgpbench.inference.updates.directions import DIRECTIONS


@dataclass(frozen=True)
class LineSearch(Update):
    """Each step goes as far along its direction as the bound grows. `direction` is natural, or one of
    updates/directions.py."""

    model: DeepGP
    layer: int
    parameterisation: str
    direction: str
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
            new = natgrad.mean_and_sqrt(self.update.parameterisation, *moved)
            for name, value in zip(self.names, new, strict=True):
                self.oracle.raw[name].assign(value)
        return reached, gamma

    def _gradient_at_q(self, step):
        """The bound, xi, and the natural and the ordinary gradient in xi."""
        bound, _, natural = self.oracle(self.oracle.full_batch(step), [], (self.update.layer,))
        m, L = (self.oracle.raw[name].read_value() for name in self.names)
        name, pair = self.update.parameterisation, natural[self.update.layer]
        L = tf.linalg.band_part(L, -1, 0)
        to = natgrad.xi_direction(name, m, L, *natgrad.direction(m, L, *pair))
        return bound, natgrad.xi(name, m, L), to, natgrad.gradient(name, m, L, *pair)

    @tf.autograph.experimental.do_not_convert
    def _bound_along(self, step, x1, x2, v1, v2, gamma):
        """The bound at xi + gamma v; minus infinity outside the cone."""
        name, layer = self.update.parameterisation, self.update.layer
        moved = x1 + gamma * v1, x2 + gamma * v2

        def inside():
            q = dict(zip(self.names, natgrad.mean_and_sqrt(name, *moved), strict=True))
            return self.oracle(self.oracle.full_batch(step), [], (layer,), replaced=q)[0]

        return tf.cond(natgrad.inside_cone(name, moved[1]), inside, lambda: tf.constant(-math.inf, x1.dtype))


def _flat(parts) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in parts])
