"""The periodic kernel (MacKay, 1998): the RBF kernel of points on a circle for each input."""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf

from dgpbench.gp.kernels.base import Prepared, column
from dgpbench.gp.kernels.stationary import RBF
from dgpbench.gp.parameters import scope


class Periodic(RBF):
    """variance exp(-1/2 sum_d sin^2(pi (x_d - x'_d) / period_d) / lengthscales_d^2).

    Features are cos and sin of 2 pi x / period over 2 lengthscales: their distance is sin / lengthscales.
    """

    stackable = False
    positive = ("variance", "lengthscales", "period")

    def initial(self, variance: float, lengthscale: float, white: float) -> dict[str, np.ndarray]:
        return super().initial(variance, lengthscale, white) | {f"{self.name}/period": self.each(1.0)}

    def prepare(self, p: dict[str, tf.Tensor], Z: tf.Tensor) -> Prepared:
        own = scope(p, self.name)
        q = {
            "frequency": column(2.0 * math.pi / own["period"]),
            "scale": column(0.5 / own["lengthscales"]),
            "variance": own["variance"],
        }
        return q | {"Z": self.rows(q, Z)}

    def columns(self, q: Prepared, H: tf.Tensor) -> tf.Tensor:
        angle, scale = H * q["frequency"], tf.identity(q["scale"])  # at most two gradients to add for each
        return tf.concat([tf.cos(angle) * scale, tf.sin(angle) * scale], 0)

    def rows(self, q: Prepared, H: tf.Tensor) -> tf.Tensor:
        return tf.transpose(self.columns(q, tf.transpose(H)))

    def between(self, prepared: Prepared, left: tf.Tensor, right: tf.Tensor, same: tf.Tensor) -> tf.Tensor:
        half_angle = 0.5 * (left - right) * prepared["frequency"][:, :, None]
        chord = 2.0 * tf.sin(half_angle) * prepared["scale"][:, :, None]
        return self.of(prepared, -0.5 * tf.reduce_sum(tf.square(chord), 0))
