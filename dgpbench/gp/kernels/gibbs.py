"""The RBF kernel with a lengthscale that depends on x (Gibbs, 1998; Paciorek, 2003; thesis eq. 1.42)."""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf

from dgpbench.gp.kernels.base import Prepared, column
from dgpbench.gp.kernels.distances import half_negative_distance
from dgpbench.gp.kernels.stationary import RBF


class Gibbs(RBF):
    """variance (s s' / m)^(D/2) exp(-r^2 / (2 m)), s = exp(slopes.x), m = (s^2 + s'^2) / 2.

    The lengthscale of input d is lengthscales_d s(x); slopes of 0 give the RBF kernel. Features are scaled
    inputs and log s. With a = log s: s s' / m = 1 / cosh(a - a') and 1 / m = exp(-a - a') / cosh(a - a').
    """

    stackable = False

    def initial(self, variance: float, lengthscale: float, white: float) -> dict[str, np.ndarray]:
        slopes = {f"{self.name}/slopes": np.zeros(self.input_dim)}
        return super().initial(variance, lengthscale, white) | slopes

    def prepare(self, p: dict[str, tf.Tensor], Z: tf.Tensor) -> Prepared:
        q = super().prepare(p, Z) | {"slopes": column(p[f"{self.name}/slopes"])}
        return q | {"Z": self.rows(q, Z)}

    def columns(self, q: Prepared, H: tf.Tensor) -> tf.Tensor:
        return tf.concat([H * q["scale"], tf.reduce_sum(H * q["slopes"], 0, keepdims=True)], 0)

    def rows(self, q: Prepared, H: tf.Tensor) -> tf.Tensor:
        return tf.transpose(self.columns(q, tf.transpose(H)))

    def value(self, q: Prepared, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        a, b = left[:, -1:], right[-1:]
        return self._of(q, half_negative_distance(left[:, :-1], right[:-1]), a + b, a - b)

    def gram(self, prepared: Prepared) -> tf.Tensor:
        return self.value(prepared, prepared["Z"], tf.transpose(prepared["Z"]))

    def between(self, prepared: Prepared, left: tf.Tensor, right: tf.Tensor, same: tf.Tensor) -> tf.Tensor:
        slopes, gap = tf.identity(prepared["slopes"])[:, :, None], left - right
        e = -0.5 * tf.reduce_sum(tf.square(gap * prepared["scale"][:, :, None]), 0)
        total, difference = (tf.reduce_sum(v * slopes, 0) for v in (left + right, gap))
        return self._of(prepared, e, total, difference)

    def _of(self, q: Prepared, e: tf.Tensor, total: tf.Tensor, difference: tf.Tensor) -> tf.Tensor:
        log_cosh = difference + tf.math.softplus(-2.0 * difference) - math.log(2.0)
        return q["variance"] * tf.exp(e * tf.exp(-total - log_cosh) - 0.5 * self.input_dim * log_cosh)
