"""Arc-cosine kernels (Cho and Saul, 2009): infinitely wide networks of one hidden layer."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from dgpbench.gp.kernels.base import Part, Prepared, column
from dgpbench.gp.parameters import below, scope


@dataclass(frozen=True)
class ArcCosine(Part):
    """variance / pi J_order(theta) (|x| |x'|)^order, norms and the angle theta with the bias inside.

    Inputs are scaled by the roots of weight_variances; order 0, 1, 2: units that step, rise, rise squared.
    """

    order: int = 0
    positive = ("variance", "weight_variances", "bias_variance")

    def initial(self, variance: float, lengthscale: float, white: float) -> dict[str, np.ndarray]:
        values = {
            "variance": np.asarray(variance),
            "weight_variances": self.each(float(lengthscale) ** -2),
            "bias_variance": np.asarray(1.0),
        }
        return below(self.name, values)

    def prepare(self, p: dict[str, tf.Tensor], Z: tf.Tensor) -> Prepared:
        own = scope(p, self.name)
        scale = column(tf.sqrt(own["weight_variances"]))
        Z = Z * tf.transpose(scale)
        return {"scale": scale, "Z": Z, "variance": own["variance"], "bias": own["bias_variance"]}

    def value(self, q: Prepared, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        z2 = tf.reduce_sum(left * left, 1, keepdims=True)
        h2 = tf.reduce_sum(right * right, 0, keepdims=True)
        return self._of(q, tf.matmul(left, right), z2, h2)

    def diagonal(self, prepared: Prepared, H: tf.Tensor) -> tf.Tensor:
        norm2 = prepared["bias"] + tf.reduce_sum(tf.square(H * prepared["scale"]), 0, keepdims=True)
        return prepared["variance"] * (3.0 if self.order == 2 else 1.0) * norm2**self.order

    def between(self, prepared: Prepared, left: tf.Tensor, right: tf.Tensor, same: tf.Tensor) -> tf.Tensor:
        scale = prepared["scale"][:, :, None]
        products = ((left, right), (left, left), (right, right))
        return self._of(prepared, *(tf.reduce_sum(a * b * scale * scale, 0) for a, b in products))

    def _of(self, q: Prepared, inner: tf.Tensor, z2: tf.Tensor, h2: tf.Tensor) -> tf.Tensor:
        """The kernel of inner products z.h and squared norms of scaled inputs, all without the bias."""
        inner = inner + q["bias"]
        norm = tf.sqrt(z2 + q["bias"]) * tf.sqrt(h2 + q["bias"])
        shrink = 1e-6 if inner.dtype == tf.float32 else 1e-15  # keeps the gradient of acos finite at 0
        theta = tf.acos(tf.clip_by_value(inner / norm, -1.0, 1.0) * (1.0 - shrink))
        if self.order == 0:
            J = math.pi - theta
        elif self.order == 1:
            J = tf.sin(theta) + (math.pi - theta) * tf.cos(theta)
        else:
            J = 3.0 * tf.sin(theta) * tf.cos(theta) + (math.pi - theta) * (1.0 + 2.0 * tf.cos(theta) ** 2)
        return q["variance"] / math.pi * J * norm**self.order
