"""Kernels of the scaled distance r alone: RBF, Matern, rational quadratic. All take e = -r^2 / 2."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from dgpbench.gp.kernels.base import Part, Prepared, column
from dgpbench.gp.kernels.distances import half_negative_distance, half_negative_distance_among, rbf_cross
from dgpbench.gp.parameters import below, scope


@dataclass(frozen=True)
class Stationary(Part):
    """A function of r^2 = sum_d (x_d - x'_d)^2 / lengthscales_d^2."""

    stackable = True

    @abstractmethod
    def of(self, q: Prepared, e: tf.Tensor) -> tf.Tensor:
        """The kernel of e = -r^2 / 2."""

    def initial(self, variance: float, lengthscale: float, white: float) -> dict[str, np.ndarray]:
        values = {"variance": np.asarray(variance), "lengthscales": self.each(lengthscale)}
        return below(self.name, values)

    def prepare(self, p: dict[str, tf.Tensor], Z: tf.Tensor) -> Prepared:
        own = scope(p, self.name)
        scale = column(1.0 / own["lengthscales"])  # D, 1  or 1, 1
        return {"scale": scale, "Z": Z * tf.linalg.matrix_transpose(scale), "variance": own["variance"]}

    def value(self, q: Prepared, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        return self.of(q, half_negative_distance(left, right))

    def gram(self, prepared: Prepared) -> tf.Tensor:
        return self.of(prepared, half_negative_distance_among(prepared["Z"]))

    def diagonal(self, prepared: Prepared, H: tf.Tensor) -> tf.Tensor:
        return tf.reshape(prepared["variance"], (-1, 1))

    def between(self, prepared: Prepared, left: tf.Tensor, right: tf.Tensor, same: tf.Tensor) -> tf.Tensor:
        scale = prepared["scale"][..., None]  # D, 1, 1; for P outputs P, D, 1, 1
        return self.of(prepared, -0.5 * tf.reduce_sum(tf.square((left - right) * scale), -3))


class RBF(Stationary):
    """variance exp(-r^2 / 2)."""

    def of(self, q: Prepared, e: tf.Tensor) -> tf.Tensor:
        return q["variance"] * tf.exp(e)

    def value(self, q: Prepared, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        return rbf_cross(left, right, tf.math.log(q["variance"]))


class Matern12(Stationary):
    """variance exp(-r)."""

    def of(self, q: Prepared, e: tf.Tensor) -> tf.Tensor:
        return q["variance"] * tf.exp(-_distance(e))


class Matern32(Stationary):
    """variance (1 + sqrt(3) r) exp(-sqrt(3) r)."""

    def of(self, q: Prepared, e: tf.Tensor) -> tf.Tensor:
        r = _distance(e)
        return q["variance"] * (1.0 + math.sqrt(3.0) * r) * tf.exp(-math.sqrt(3.0) * r)


class Matern52(Stationary):
    """variance (1 + sqrt(5) r + 5/3 r^2) exp(-sqrt(5) r)."""

    def of(self, q: Prepared, e: tf.Tensor) -> tf.Tensor:
        r = _distance(e)
        return q["variance"] * (1.0 + math.sqrt(5.0) * r + 5.0 / 3.0 * r * r) * tf.exp(-math.sqrt(5.0) * r)


class RationalQuadratic(Stationary):
    """variance (1 + r^2 / (2 alpha))^-alpha: RBF kernels of many lengthscales; one of them as alpha grows."""

    positive = ("variance", "lengthscales", "alpha")

    def initial(self, variance: float, lengthscale: float, white: float) -> dict[str, np.ndarray]:
        return super().initial(variance, lengthscale, white) | {f"{self.name}/alpha": np.asarray(1.0)}

    def prepare(self, p: dict[str, tf.Tensor], Z: tf.Tensor) -> Prepared:
        return super().prepare(p, Z) | {"alpha": p[f"{self.name}/alpha"]}

    def of(self, q: Prepared, e: tf.Tensor) -> tf.Tensor:
        alpha = tf.identity(q["alpha"])  # used twice below: at most two gradients to add (distances.py)
        return q["variance"] * tf.exp(-alpha * tf.math.log1p(-e / alpha))


def _distance(e: tf.Tensor) -> tf.Tensor:
    """r of e = -r^2 / 2, kept from 0, where its gradient is not finite."""
    return tf.sqrt(tf.maximum(-2.0 * e, 1e-30 if e.dtype == tf.float32 else 1e-36))
