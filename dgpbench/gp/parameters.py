"""Flat parameter dictionaries: names, constraints and their inverses.

A parameter is named by a path such as ``layer0/kernel/rbf/lengthscales``. Training works on the
unconstrained values; the maths on the constrained ones. Constraints are declared where a parameter is:
kernels, layers, likelihoods and networks have `constraints()`, a dictionary of those that are not free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dgpbench.gp.lazy import lazy

if TYPE_CHECKING:
    import tensorflow as tf
else:
    tf = lazy("tensorflow")


@dataclass(frozen=True)
class Positive:
    """A number above `floor`: softplus plus floor."""

    floor: float = 0.0

    def forward(self, raw: tf.Tensor) -> tf.Tensor:
        return tf.math.softplus(raw) + self.floor

    def inverse(self, value: np.ndarray) -> np.ndarray:
        v = np.maximum(value - self.floor, 1e-12)
        return v + np.log(-np.expm1(-v))


@dataclass(frozen=True)
class Logarithm:
    """A positive number by its logarithm: what a sampler moves."""

    def forward(self, raw: tf.Tensor) -> tf.Tensor:
        return tf.exp(raw)

    def inverse(self, value: np.ndarray) -> np.ndarray:
        return np.log(value)


@dataclass(frozen=True)
class LowerTriangle:
    """A lower-triangular matrix: anything above the diagonal is cut off."""

    def forward(self, raw: tf.Tensor) -> tf.Tensor:
        return tf.linalg.band_part(raw, -1, 0)

    def inverse(self, value: np.ndarray) -> np.ndarray:
        return value


Constraint = Positive | Logarithm | LowerTriangle
POSITIVE, LOWER, LOG = Positive(), LowerTriangle(), Logarithm()
NOISE = Positive(1e-6)  # a likelihood's scale: the smallest variance, as in GPflow


def constrain(raw: Mapping[str, tf.Tensor], constraints: Mapping[str, Constraint]) -> dict[str, tf.Tensor]:
    """The values that the maths reads; a parameter without a constraint is taken as it is."""
    return {n: constraints[n].forward(v) if n in constraints else v for n, v in raw.items()}


def unconstrain(
    values: Mapping[str, np.ndarray], constraints: Mapping[str, Constraint]
) -> dict[str, np.ndarray]:
    """The inverse of `constrain`, in numpy float64."""
    arrays = {name: np.asarray(value, np.float64) for name, value in values.items()}
    return {n: constraints[n].inverse(v) if n in constraints else v for n, v in arrays.items()}


def scope(params: Mapping[str, tf.Tensor], prefix: str) -> dict[str, tf.Tensor]:
    """The entries below `prefix/`, with the prefix cut off."""
    n = len(prefix) + 1
    return {name[n:]: value for name, value in params.items() if name.startswith(prefix + "/")}


def below(prefix: str, entries: Mapping) -> dict:
    """The same entries with `prefix/` before their names."""
    return {f"{prefix}/{name}": value for name, value in entries.items()}
