"""A component of the spectral mixture kernel (Wilson and Adams 2013); a sum of them is a mixture:
`dgpbench run --config-dir examples/plugins model.kernel=spectral_mixture+spectral_mixture+linear`.
"""

import math
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from dgpbench.gp.kernels.base import Part, column, kernel
from dgpbench.gp.parameters import below, scope


@kernel("spectral_mixture")
@dataclass(frozen=True)
class SpectralMixture(Part):
    """variance exp(-2 pi^2 sum_d bandwidths_d^2 t_d^2) cos(2 pi sum_d frequencies_d t_d), t = x - x'."""

    positive = ("variance", "bandwidths", "frequencies")

    def initial(self, variance, lengthscale, white):
        return below(
            self.name,
            {
                "variance": np.asarray(variance),
                "bandwidths": self.each(1.0 / (2.0 * math.pi * lengthscale)),
                "frequencies": self.each(0.1 / lengthscale),
            },
        )

    def prepare(self, p, Z):
        own = scope(p, self.name)
        q = {
            "variance": own["variance"],
            "scale": column(2.0 * math.pi * own["bandwidths"]),
            "turns": column(2.0 * math.pi * own["frequencies"]),
        }
        return q | {"Z": self.rows(q, Z)}

    def columns(self, q, H):
        """Features of the columns of H: scaled inputs, and one angle."""
        return tf.concat([H * q["scale"], tf.reduce_sum(H * q["turns"], 0, keepdims=True)], 0)

    def rows(self, q, H):
        return tf.transpose(self.columns(q, tf.transpose(H)))

    def value(self, q, left, right):
        x, y = left[:, :-1], right[:-1]
        squares = tf.reduce_sum(x * x, 1, keepdims=True) + tf.reduce_sum(y * y, 0, keepdims=True)
        distance = tf.maximum(squares - 2.0 * tf.matmul(x, y), 0.0)
        return q["variance"] * tf.exp(-0.5 * distance) * tf.cos(left[:, -1:] - right[-1:])

    def diagonal(self, prepared, H):
        return tf.reshape(prepared["variance"], (1, 1))

    def between(self, prepared, left, right, same):
        gap = left - right
        distance = tf.reduce_sum(tf.square(gap * prepared["scale"][:, :, None]), 0)
        angle = tf.reduce_sum(gap * prepared["turns"][:, :, None], 0)
        return prepared["variance"] * tf.exp(-0.5 * distance) * tf.cos(angle)
