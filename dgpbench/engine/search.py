"""Training steps whose size is found by a line search (thesis 3.4.1): full batches, one q(u) and no more."""

from __future__ import annotations

import math

import numpy as np

from dgpbench.engine.platform import tf
from dgpbench.engine.spec import StepSpec
from dgpbench.engine.trainer import Trainer
from dgpbench.inference import natgrad
from dgpbench.inference.directions import DIRECTIONS
from dgpbench.inference.linesearch import best_step


class SearchTrainer(Trainer):
    """The state of a run as in Trainer; each step goes as far along its direction as the bound grows."""

    def __init__(self, spec: StepSpec):
        super().__init__(spec)
        (self.layer,) = spec.natural_layers
        self.follow = None
        self._look = tf.function(self._gradient_at_q)
        self._bound = tf.function(self._bound_along)

    def reset(self, *args, **kwargs) -> None:
        super().reset(*args, **kwargs)
        name = self.spec.direction
        self.follow = DIRECTIONS[name]() if name in DIRECTIONS else None

    def state(self) -> dict[str, np.ndarray]:
        kept = self.follow.state if self.follow else {}
        return super().state() | {f"direction/{name}": np.array(value) for name, value in kept.items()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        super().restore(state)
        if self.follow:
            head = "direction/"
            kept = {name.removeprefix(head): v for name, v in state.items() if name.startswith(head)}
            self.follow.state = kept

    def run(self, start: int, rows: np.ndarray) -> dict[str, float]:
        """Run len(rows) steps; the bound reported is that of the last point, since nothing is random."""
        with tf.device(self.spec.device):
            for step in range(start, start + len(rows)):
                gamma, bound = self._search(step)
        return {"bound_mean": bound, "bound_last": bound, "refused": 0, "step_size": gamma}

    def _search(self, step: int) -> tuple[float, float]:
        """One step; its size and the bound behind it."""
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
            new = natgrad.mean_and_sqrt(self.spec.parameterisation, *moved)
            for name, value in zip(self.spec.model.parameter_names(self.layer), new, strict=True):
                self.raw[name].assign(value)
        return gamma, reached

    def _gradient_at_q(self, step):
        """The bound, xi, and the natural and the ordinary gradient in xi."""
        bound, _, natural = self._gradients(self.X.read_value(), self.Y.read_value(), step, 0, [], None)
        m, L = (self.raw[name].read_value() for name in self.spec.model.parameter_names(self.layer))
        name, pair = self.spec.parameterisation, natural[self.layer]
        L = tf.linalg.band_part(L, -1, 0)
        to = natgrad.xi_direction(name, m, L, *natgrad.direction(m, L, *pair))
        return bound, natgrad.xi(name, m, L), to, natgrad.gradient(name, m, L, *pair)

    @tf.autograph.experimental.do_not_convert
    def _bound_along(self, step, x1, x2, v1, v2, gamma):
        """The bound at xi + gamma v; minus infinity outside the cone."""
        name = self.spec.parameterisation
        names = self.spec.model.parameter_names(self.layer)
        moved = x1 + gamma * v1, x2 + gamma * v2

        def inside():
            q = dict(zip(names, natgrad.mean_and_sqrt(name, *moved), strict=True))
            return self._gradients(self.X.read_value(), self.Y.read_value(), step, 0, [], None, q)[0]

        return tf.cond(natgrad.inside_cone(name, moved[1]), inside, lambda: tf.constant(-math.inf, x1.dtype))


def _flat(parts) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in parts])
