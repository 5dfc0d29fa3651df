"""Adam and plain gradient ascent on every trainable parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from dgpbench.inference.base import Batch, Oracle, Update
from dgpbench.inference.updates.schedules import adam_ascent, all_there, learning_rate

ADAM_RATES = ("learning_rate", "lr_decay", "lr_decay_steps", "lr_staircase")


def adam_slots(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Adam's two moments of every parameter."""
    return {f"{slot}/{name}": shape for name, shape in shapes.items() for slot in ("m", "v")}


def adam_step(oracle: Oracle, gradients: Mapping[str, tf.Tensor], step: tf.Tensor) -> None:
    """Move the parameters that have gradients, in place."""
    rate = learning_rate(oracle.rates, step)
    for name, gradient in gradients.items():
        m, v = oracle.slots[f"m/{name}"], oracle.slots[f"v/{name}"]
        adam_ascent(oracle.raw[name], m, v, gradient, rate, step)


@dataclass(frozen=True)
class Adam(Update):
    rates = ADAM_RATES

    def slots(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        return adam_slots(shapes)

    def step(self, oracle: Oracle, batch: Batch) -> tuple[tf.Tensor, int]:
        bound, gradients, _ = oracle(batch, oracle.trainable)
        bound, gradients = all_there((bound, gradients))
        adam_step(oracle, gradients, batch.step)
        return bound, 0


@dataclass(frozen=True)
class AllRowsAdam(Adam):
    """Adam without minibatches: the bound has parameters for each row."""

    needs_all_rows = "inference=analytic"


@dataclass(frozen=True)
class GradientAscent(Update):
    """A step of the learning rate times the gradient."""

    rates = ADAM_RATES

    def step(self, oracle: Oracle, batch: Batch) -> tuple[tf.Tensor, int]:
        bound, gradients, _ = oracle(batch, oracle.trainable)
        bound, gradients = all_there((bound, gradients))
        rate = learning_rate(oracle.rates, batch.step)
        for name, gradient in gradients.items():
            oracle.raw[name].assign_add(tf.cast(rate, gradient.dtype) * gradient)
        return bound, 0


def without(names: Sequence[str], moved: Sequence[str]) -> list[str]:
    """The names that nothing else moves."""
    return [name for name in names if name not in moved]
