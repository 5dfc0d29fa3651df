"""The cosine kernel: sinusoids of one direction and wavelength, with random amplitude and phase."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from dgpbench.gp.kernels.base import Part, Prepared, column
from dgpbench.gp.parameters import below, scope


@dataclass(frozen=True)
class Cosine(Part):
    """variance cos(2 pi sum_d (x_d - x'_d) / lengthscales_d). The only feature is the angle."""

    def initial(self, variance: float, lengthscale: float, white: float) -> dict[str, np.ndarray]:
        values = {"variance": np.asarray(variance), "lengthscales": self.each(lengthscale)}
        return below(self.name, values)

    def prepare(self, p: dict[str, tf.Tensor], Z: tf.Tensor) -> Prepared:
        own = scope(p, self.name)
        q = {"scale": column(2.0 * math.pi / own["lengthscales"]), "variance": own["variance"]}
        return q | {"Z": self.rows(q, Z)}

    def columns(self, q: Prepared, H: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(H * q["scale"], 0, keepdims=True)

    def rows(self, q: Prepared, H: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(H * tf.transpose(q["scale"]), 1, keepdims=True)

    def value(self, q: Prepared, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        return q["variance"] * tf.cos(left - right)

    def diagonal(self, prepared: Prepared, H: tf.Tensor) -> tf.Tensor:
        return tf.reshape(prepared["variance"], (1, 1))

    def between(self, prepared: Prepared, left: tf.Tensor, right: tf.Tensor, same: tf.Tensor) -> tf.Tensor:
        angle = tf.reduce_sum((left - right) * prepared["scale"][:, :, None], 0)
        return prepared["variance"] * tf.cos(angle)
