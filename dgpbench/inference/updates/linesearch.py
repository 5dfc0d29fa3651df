"""Steps whose size is found by a line search (thesis 3.4.1): full batches, one q(u) and nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from dgpbench.gp.deep_gp import DeepGP
from dgpbench.inference import natgrad
from dgpbench.inference.base import Oracle, Update
from dgpbench.inference.coordinates import coordinates
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
