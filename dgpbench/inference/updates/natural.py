"""Natural gradients for q(u) of some layers, Adam for the rest (thesis 3.4.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import tensorflow as tf

from dgpbench.gp.deep_gp import DeepGP
from dgpbench.inference import natgrad
from dgpbench.inference.base import Batch, Oracle, Update
from dgpbench.inference.natgrad import coordinates
from dgpbench.inference.updates.adam import ADAM_RATES, adam_slots, adam_step, all_there, gamma, without

GAMMA_RATES = ("gamma", "inner_gamma", "gamma_initial", "gamma_ramp", "gamma_decay", "gamma_decay_steps")


@dataclass(frozen=True)
class NaturalAdam(Update):
    """Both updates from one gradient, or (`alternate`) from a fresh one each."""

    model: DeepGP
    layers: tuple[int, ...]
    parameterisation: str = "natural"
    alternate: bool = False
    whitened: bool = True
    rates = (*ADAM_RATES, *GAMMA_RATES)

    @property
    def natural_names(self) -> tuple[str, ...]:
        return tuple(name for i in self.layers for name in self.model.parameter_names(i))

    def slots(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        return adam_slots({name: shapes[name] for name in without(list(shapes), self.natural_names)})

    def step(self, oracle: Oracle, batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        names = without(oracle.trainable, self.natural_names)
        alternate = self.alternate and names
        bound, gradients, pairs = oracle(batch, [] if alternate else names, self.layers)
        moved, refused = self._moved(oracle, pairs, batch.step)
        bound, gradients, moved = all_there((bound, gradients, moved))
        for name, value in moved.items():
            oracle.raw[name].assign(value)
        if alternate:
            bound, gradients, _ = oracle(batch, names, self.layers, draw=1)
            bound, gradients = all_there((bound, gradients))
        adam_step(oracle, gradients, batch.step)
        return bound, refused

    def _moved(
        self, oracle: Oracle, pairs: Mapping[int, tuple[tf.Tensor, tf.Tensor]], step: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """The parameters of q(u) after a natural-gradient step, and how often a step was refused."""
        refused = tf.constant(0)
        moved: dict[str, tf.Tensor] = {}
        for i, (g_m, g_S) in pairs.items():
            names = self.model.parameter_names(i)
            m, L = (oracle.raw[name].read_value() for name in names)
            where = coordinates(self.model, i, self.whitened, oracle)
            last = i == len(self.model.layers) - 1
            size = tf.cast(gamma(oracle.rates, step, "gamma" if last else "inner_gamma"), m.dtype)
            m, lower = where.white(m, tf.linalg.band_part(L, -1, 0))
            if last and self.parameterisation == "natural" and self.model.likelihood.log_concave:
                mean, root = natgrad.natural_step(m, lower, g_m, g_S, size)
            else:
                mean, root, halvings = natgrad.step(self.parameterisation, m, lower, g_m, g_S, size)
                refused += halvings
            moved |= dict(zip(names, where.stored(mean, root), strict=True))
        return moved, refused
