"""Flat parameter dictionaries: names, constraints and their inverses.

A parameter is named by a path such as ``layer0/kernel/rbf/lengthscales``. Training works on the
unconstrained values; the maths on the constrained ones. The last part of the name decides the constraint.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

LIKELIHOOD_FLOOR = 1e-6  # the smallest likelihood variance, as in GPflow
_POSITIVE = (
    *("variance", "lengthscales", "variances", "weight_variances", "bias_variance"),
    *("scale", "sigma", "shape", "alpha", "offset", "period"),
)


def is_positive(name: str) -> bool:
    return name.rsplit("/", 1)[-1] in _POSITIVE


def _floor(name: str) -> float:
    return LIKELIHOOD_FLOOR if name.startswith("likelihood/") else 0.0


def constrain(raw: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Softplus for what must be positive, the lower triangle for q_sqrt, the rest as it is."""

    def one(name, value):
        if is_positive(name):
            return tf.math.softplus(value) + _floor(name)
        if name.endswith("q_sqrt"):
            return tf.linalg.band_part(value, -1, 0)
        return value

    return {name: one(name, value) for name, value in raw.items()}


def unconstrain(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The inverse of `constrain`, in numpy float64."""

    def one(name, value):
        value = np.asarray(value, dtype=np.float64)
        if is_positive(name):
            v = np.maximum(value - _floor(name), 1e-12)
            return v + np.log(-np.expm1(-v))
        return value

    return {name: one(name, value) for name, value in values.items()}


def scope(params: dict[str, tf.Tensor], prefix: str) -> dict[str, tf.Tensor]:
    """The entries below `prefix/`, with the prefix cut off."""
    n = len(prefix) + 1
    return {name[n:]: value for name, value in params.items() if name.startswith(prefix + "/")}
