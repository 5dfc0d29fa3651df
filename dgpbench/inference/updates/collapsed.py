"""Adam on a collapsed bound; q(u) follows in closed form, so that it is the best one after every step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import tensorflow as tf

from dgpbench.gp.parameters import constrain
from dgpbench.inference.base import Batch, Bound, Oracle, Update
from dgpbench.inference.collapsed import Optimum, optimum
from dgpbench.inference.updates.adam import ADAM_RATES, adam_slots, adam_step, without
from dgpbench.inference.updates.schedules import all_there


@dataclass(frozen=True)
class CollapsedAdam(Update):
    """The objective is inference/collapsed.py's, of all rows, not the oracle's."""

    fit: Bound  # for constraints and structure
    rates = ADAM_RATES
    needs_all_rows = "inference=collapsed"

    @property
    def posterior_names(self) -> tuple[str, str]:
        return self.fit.model.parameter_names(len(self.fit.model.layers) - 1)

    def slots(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        return adam_slots({name: shapes[name] for name in without(list(shapes), self.posterior_names)})

    def step(self, oracle: Oracle, batch: Batch) -> tuple[tf.Tensor, int]:
        names = without(oracle.trainable, self.posterior_names)
        with tf.GradientTape() as tape:
            raw = {name: v.read_value() for name, v in oracle.raw.items()}
            tape.watch([raw[name] for name in names])
            found = self._optimum(oracle, batch, raw)
        watched, zero = [raw[name] for name in names], tf.UnconnectedGradients.ZERO
        found_gradients = tape.gradient(found.bound, watched, unconnected_gradients=zero)
        dense = [tf.convert_to_tensor(g) for g in found_gradients]  # those of gathered rows come as slices
        bound, gradients = all_there((found.bound, dict(zip(names, dense, strict=True))))
        adam_step(oracle, gradients, batch.step)
        after = self._optimum(oracle, batch, {name: v.read_value() for name, v in oracle.raw.items()})
        mean, root = self.posterior_names
        oracle.raw[mean].assign(after.mean)
        oracle.raw[root].assign(tf.broadcast_to(after.root, oracle.raw[root].shape))
        return bound, 0

    def _optimum(self, oracle: Oracle, batch: Batch, raw: Mapping[str, tf.Tensor]) -> Optimum:
        values = constrain(raw, self.fit.constraints())
        X, Y = (tf.cast(tf.transpose(A), oracle.jitter.dtype) for A in (batch.X, batch.Y))
        return optimum(self.fit.model, values, X, Y, oracle.jitter)
