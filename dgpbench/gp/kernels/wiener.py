"""The kernel of Brownian motion that starts at 0 and runs both ways."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from dgpbench.config.kernel_names import KernelError
from dgpbench.gp.kernels.base import Part, Prepared
from dgpbench.gp.parameters import below


@dataclass(frozen=True)
class Wiener(Part):
    """variance (|x| + |x'| - |x - x'|) / 2: variance min(|x|, |x'|) on one side of 0, else nothing."""

    positive = ("variance",)

    def __post_init__(self) -> None:
        if self.input_dim != 1:
            raise KernelError(f"does not fit: wiener takes one of the {self.input_dim} inputs, e.g. wiener@0")

    def initial(self, variance: float, lengthscale: float, white: float) -> dict[str, np.ndarray]:
        return below(self.name, {"variance": np.asarray(variance)})

    def prepare(self, p: dict[str, tf.Tensor], Z: tf.Tensor) -> Prepared:
        return {"Z": Z, "variance": p[f"{self.name}/variance"]}

    def columns(self, q: Prepared, H: tf.Tensor) -> tf.Tensor:
        return H

    rows = columns

    def value(self, q: Prepared, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        return 0.5 * q["variance"] * (tf.abs(left) + tf.abs(right) - tf.abs(left - right))

    def diagonal(self, prepared: Prepared, H: tf.Tensor) -> tf.Tensor:
        return prepared["variance"] * tf.abs(H)

    def between(self, prepared: Prepared, left: tf.Tensor, right: tf.Tensor, same: tf.Tensor) -> tf.Tensor:
        return self.value(prepared, left[0], right[0])
