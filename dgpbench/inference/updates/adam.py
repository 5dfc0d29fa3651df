"""Adam and gradient ascent on every trainable parameter, and step sizes as functions of the step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from dgpbench.inference.adam_method import ADAM_RATES
from dgpbench.inference.base import Batch, Oracle, Update

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # as in the papers' experiments (TensorFlow 1's Adam)


def learning_rate(rates: dict[str, tf.Tensor], step: tf.Tensor) -> tf.Tensor:
    """Adam's rate at `step` (from 0): exponential decay, in stairs or smooth."""
    t = tf.cast(step, tf.float64) / rates["lr_decay_steps"]
    t = tf.where(rates["lr_staircase"] > 0.5, tf.floor(t), t)
    return rates["learning_rate"] * rates["lr_decay"] ** t


def gamma(rates: dict[str, tf.Tensor], step: tf.Tensor, final: str = "gamma") -> tf.Tensor:
    """Natural-gradient step size: log-linear from gamma_initial to the rate `final`, then stairs of decay
    (3.4.2)."""
    step = tf.cast(step, tf.float64)
    t = tf.minimum(step / tf.maximum(rates["gamma_ramp"], 1.0), 1.0)
    t = tf.where(rates["gamma_ramp"] > 0.5, t, tf.ones_like(t))
    ramp = rates["gamma_initial"] * (rates[final] / rates["gamma_initial"]) ** t
    return ramp * rates["gamma_decay"] ** tf.floor(step / rates["gamma_decay_steps"])


def adam_ascent(var: tf.Variable, m: tf.Variable, v: tf.Variable, gradient, rate, step) -> None:
    """One Adam step up the gradient, in place. `step` counts from 0."""
    cast = lambda x: tf.cast(x, var.dtype)  # noqa: E731
    t = tf.cast(step, tf.float64) + 1.0
    tf.raw_ops.ResourceApplyAdam(
        var=var.handle,
        m=m.handle,
        v=v.handle,
        beta1_power=cast(tf.constant(BETA1, tf.float64) ** t),
        beta2_power=cast(tf.constant(BETA2, tf.float64) ** t),
        lr=cast(rate),
        beta1=cast(BETA1),
        beta2=cast(BETA2),
        epsilon=cast(EPSILON),
        grad=-gradient,
    )


def all_there(values):
    """Return the same values, each available only when all are.

    Otherwise an assignment may run before another operation reads the variable.
    """
    with tf.control_dependencies(tf.nest.flatten(values)):
        return tf.nest.map_structure(tf.identity, values)


def adam_slots(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of Adam's two moments of every parameter."""
    return {f"{slot}/{name}": shape for name, shape in shapes.items() for slot in ("m", "v")}


def adam_step(oracle: Oracle, gradients: Mapping[str, tf.Tensor], step: tf.Tensor) -> None:
    """Update the parameters that have gradients, in place."""
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
    """Return `names` without `moved`."""
    return [name for name in names if name not in moved]
