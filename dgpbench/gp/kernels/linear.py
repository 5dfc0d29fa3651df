"""Kernels of the scaled inner product: linear, affine and polynomial."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import tensorflow as tf

from dgpbench.gp.kernels.base import Part, Prepared, column
from dgpbench.gp.parameters import below


@dataclass(frozen=True)
class Linear(Part):
    """sum_d variances_d x_d x'_d."""

    positive: ClassVar[tuple[str, ...]] = ("variances",)

    def initial(self, variance: float, lengthscale: float, white: float) -> dict[str, np.ndarray]:
        return below(self.name, {"variances": self.each(variance)})

    def prepare(self, p: dict[str, tf.Tensor], Z: tf.Tensor) -> Prepared:
        scale = column(tf.sqrt(p[f"{self.name}/variances"]))
        return {"scale": scale, "Z": Z * tf.transpose(scale)}

    def value(self, q: Prepared, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        return tf.matmul(left, right)

    def diagonal(self, prepared: Prepared, H: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.square(H * prepared["scale"]), 0, keepdims=True)

    def between(self, prepared: Prepared, left: tf.Tensor, right: tf.Tensor, same: tf.Tensor) -> tf.Tensor:
        scale = prepared["scale"][:, :, None]
        return tf.reduce_sum(left * right * scale * scale, 0)


@dataclass(frozen=True)
class Affine(Linear):
    """sum_d variances_d (x_d - centre_d)(x'_d - centre_d): lines that cross zero at a learned centre."""

    def initial(self, variance: float, lengthscale: float, white: float) -> dict[str, np.ndarray]:
        return super().initial(variance, lengthscale, white) | {f"{self.name}/centre": self.each(0.0)}

    def prepare(self, p: dict[str, tf.Tensor], Z: tf.Tensor) -> Prepared:
        centre = column(p[f"{self.name}/centre"])
        return super().prepare(p, Z - tf.transpose(centre)) | {"centre": centre}

    def columns(self, q: Prepared, H: tf.Tensor) -> tf.Tensor:
        return super().columns(q, H - q["centre"])

    def rows(self, q: Prepared, H: tf.Tensor) -> tf.Tensor:
        return super().rows(q, H - tf.transpose(q["centre"]))

    def diagonal(self, prepared: Prepared, H: tf.Tensor) -> tf.Tensor:
        return super().diagonal(prepared, H - prepared["centre"])

    def between(self, prepared: Prepared, left: tf.Tensor, right: tf.Tensor, same: tf.Tensor) -> tf.Tensor:
        centre = prepared["centre"][:, :, None]
        return super().between(prepared, left - centre, right - centre, same)


@dataclass(frozen=True)
class Polynomial(Linear):
    """(sum_d variances_d x_d x'_d + offset)^degree: polynomials of that degree."""

    degree: int = 2
    positive = ("variances", "offset")

    def initial(self, variance: float, lengthscale: float, white: float) -> dict[str, np.ndarray]:
        return super().initial(variance, lengthscale, white) | {f"{self.name}/offset": np.asarray(1.0)}

    def prepare(self, p: dict[str, tf.Tensor], Z: tf.Tensor) -> Prepared:
        return super().prepare(p, Z) | {"offset": p[f"{self.name}/offset"]}

    def value(self, q: Prepared, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        return (super().value(q, left, right) + q["offset"]) ** self.degree

    def diagonal(self, prepared: Prepared, H: tf.Tensor) -> tf.Tensor:
        return (super().diagonal(prepared, H) + prepared["offset"]) ** self.degree

    def between(self, prepared: Prepared, left: tf.Tensor, right: tf.Tensor, same: tf.Tensor) -> tf.Tensor:
        return (super().between(prepared, left, right, same) + prepared["offset"]) ** self.degree
