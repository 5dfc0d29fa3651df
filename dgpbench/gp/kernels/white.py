"""White noise: a part of a sum that is nowhere but on the diagonal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from dgpbench.gp.kernels.base import Part, Prepared
from dgpbench.gp.parameters import below


@dataclass(frozen=True)
class White(Part):
    """variance where both points are one and the same, else 0."""

    noise = True
    stackable = True
    positive = ("variance",)

    def initial(self, variance: float, lengthscale: float, white: float) -> dict[str, np.ndarray]:
        return below(self.name, {"variance": np.asarray(float(white))})

    def prepare(self, p: dict[str, tf.Tensor], Z: tf.Tensor) -> Prepared:
        return {"variance": p[f"{self.name}/variance"]}

    def value(self, q: Prepared, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        raise NotImplementedError("white noise has no covariance between points; a sum leaves it out")

    def on_diagonal(self, prepared: Prepared, gram: tf.Tensor) -> tf.Tensor:
        """`gram` (M, M) with the noise added."""
        return gram + prepared["variance"] * tf.eye(tf.shape(gram)[-1], dtype=gram.dtype)

    def diagonal(self, prepared: Prepared, H: tf.Tensor) -> tf.Tensor:
        return tf.reshape(prepared["variance"], (-1, 1))

    def between(self, prepared: Prepared, left: tf.Tensor, right: tf.Tensor, same: tf.Tensor) -> tf.Tensor:
        return prepared["variance"] * tf.cast(same, left.dtype)
