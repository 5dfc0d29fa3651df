"""The kernels. The decorator of a class declares its names (docs/add-kernel-likelihood-metric-dataset.md).

TensorFlow adds three or more gradients of one tensor in an order that depends on timing. So that runs repeat
to the last bit, distances have gradients of their own, which leave each tensor at most two to add.
Distances take a leading axis of outputs, Z (P, M, D) and H (P, D, B), as well.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import tensorflow as tf

from dgpbench.config.kernel_names import KernelError
from dgpbench.gp.kernels.base import Part, Prepared, column, kernel
from dgpbench.gp.parameters import below, scope

SCALED = {"variance": "variance", "lengthscales": "lengthscales"}  # our parameters and GPflow's


@tf.custom_gradient
def half_negative_distance(Z: tf.Tensor, H: tf.Tensor) -> tf.Tensor:
    """-|z - h|^2 / 2 (M, B) as one product of augmented matrices: z.h - |z|^2/2 - |h|^2/2."""
    z2 = tf.reduce_sum(tf.square(Z), -1, keepdims=True)  # M, 1
    h2 = tf.reduce_sum(tf.square(H), -2, keepdims=True)  # 1, B
    Z1, H1 = tf.concat([Z, tf.ones_like(z2)], -1), tf.concat([H, tf.ones_like(h2)], -2)
    left, right = tf.concat([Z1, -0.5 * z2], -1), tf.concat([H, -0.5 * h2, tf.ones_like(h2)], -2)

    def gradient(G):
        dZ = tf.matmul(G, H1, transpose_b=True)  # M, D + 1: G H^T and the row sums of G
        dH = tf.matmul(Z1, G, transpose_a=True)  # D + 1, B
        return dZ[..., :-1] - Z * dZ[..., -1:], dH[..., :-1, :] - H * dH[..., -1:, :]

    return tf.matmul(left, right), gradient


@tf.custom_gradient
def rbf_cross(Z: tf.Tensor, H: tf.Tensor, log_variance: tf.Tensor) -> tf.Tensor:
    """exp(log_variance - |z - h|^2 / 2) (M, B) in one pass over the product; its gradient in another.

    The gradient in log_variance is the sum of the row sums that the gradient in Z has anyway.
    """
    z2 = tf.reduce_sum(tf.square(Z), -1, keepdims=True)  # M, 1
    h2 = tf.reduce_sum(tf.square(H), -2, keepdims=True)  # 1, B
    Z1, H1 = tf.concat([Z, tf.ones_like(z2)], -1), tf.concat([H, tf.ones_like(h2)], -2)
    left = tf.concat([Z1, log_variance - 0.5 * z2], -1)
    K = tf.exp(tf.matmul(left, tf.concat([H, -0.5 * h2, tf.ones_like(h2)], -2)))

    def gradient(dK):
        G = dK * K
        dZ = tf.matmul(G, H1, transpose_b=True)  # M, D + 1: G H^T and the row sums of G
        dH = tf.matmul(Z1, G, transpose_a=True)  # D + 1, B
        rows = dZ[..., -1:]
        total = tf.reduce_sum(rows, (-2, -1), keepdims=True) if rows.shape.rank > 2 else tf.reduce_sum(rows)
        return dZ[..., :-1] - Z * rows, dH[..., :-1, :] - H * dH[..., -1:, :], total

    return K, gradient


@tf.custom_gradient
def half_negative_distance_among(Z: tf.Tensor) -> tf.Tensor:
    """-|z - z'|^2 / 2 (M, M) among the rows of Z."""
    z2 = tf.reduce_sum(tf.square(Z), -1, keepdims=True)

    def gradient(G):
        G = G + tf.linalg.matrix_transpose(G)
        return tf.matmul(G, Z) - Z * tf.reduce_sum(G, -1, keepdims=True)

    return tf.matmul(Z, Z, transpose_b=True) - 0.5 * (z2 + tf.linalg.matrix_transpose(z2)), gradient


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


@kernel("rbf")
class RBF(Stationary):
    """variance exp(-r^2 / 2)."""

    in_gpflow = ("SquaredExponential", SCALED)

    def of(self, q: Prepared, e: tf.Tensor) -> tf.Tensor:
        return q["variance"] * tf.exp(e)

    def value(self, q: Prepared, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        return rbf_cross(left, right, tf.math.log(q["variance"]))


@kernel("matern12")
class Matern12(Stationary):
    """variance exp(-r)."""

    in_gpflow = ("Matern12", SCALED)

    def of(self, q: Prepared, e: tf.Tensor) -> tf.Tensor:
        return q["variance"] * tf.exp(-_distance(e))


@kernel("matern32")
class Matern32(Stationary):
    """variance (1 + sqrt(3) r) exp(-sqrt(3) r)."""

    in_gpflow = ("Matern32", SCALED)

    def of(self, q: Prepared, e: tf.Tensor) -> tf.Tensor:
        r = _distance(e)
        return q["variance"] * (1.0 + math.sqrt(3.0) * r) * tf.exp(-math.sqrt(3.0) * r)


@kernel("matern52")
class Matern52(Stationary):
    """variance (1 + sqrt(5) r + 5/3 r^2) exp(-sqrt(5) r)."""

    in_gpflow = ("Matern52", SCALED)

    def of(self, q: Prepared, e: tf.Tensor) -> tf.Tensor:
        r = _distance(e)
        return q["variance"] * (1.0 + math.sqrt(5.0) * r + 5.0 / 3.0 * r * r) * tf.exp(-math.sqrt(5.0) * r)


@kernel("rational_quadratic")
class RationalQuadratic(Stationary):
    """variance (1 + r^2 / (2 alpha))^-alpha: RBF kernels of many lengthscales; one of them as alpha grows."""

    in_gpflow = ("RationalQuadratic", SCALED | {"alpha": "alpha"})
    positive = ("variance", "lengthscales", "alpha")

    def initial(self, variance: float, lengthscale: float, white: float) -> dict[str, np.ndarray]:
        return super().initial(variance, lengthscale, white) | {f"{self.name}/alpha": np.asarray(1.0)}

    def prepare(self, p: dict[str, tf.Tensor], Z: tf.Tensor) -> Prepared:
        return super().prepare(p, Z) | {"alpha": p[f"{self.name}/alpha"]}

    def of(self, q: Prepared, e: tf.Tensor) -> tf.Tensor:
        alpha = tf.identity(
            q["alpha"]
        )  # used twice below: at most two gradients to add (the head of this module)
        return q["variance"] * tf.exp(-alpha * tf.math.log1p(-e / alpha))


def _distance(e: tf.Tensor) -> tf.Tensor:
    """r of e = -r^2 / 2, kept from 0, where its gradient is not finite."""
    return tf.sqrt(tf.maximum(-2.0 * e, 1e-30 if e.dtype == tf.float32 else 1e-36))


@kernel("gibbs")
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


@kernel("periodic")
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


@kernel("cosine")
@dataclass(frozen=True)
class Cosine(Part):
    """variance cos(2 pi sum_d (x_d - x'_d) / lengthscales_d). The only feature is the angle."""

    in_gpflow = ("Cosine", SCALED)

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


@kernel("arccosine0", "arccosine1", "arccosine2")
@dataclass(frozen=True)
class ArcCosine(Part):
    """variance / pi J_order(theta) (|x| |x'|)^order, norms and the angle theta with the bias inside.

    Inputs are scaled by the roots of weight_variances; order 0, 1, 2: units that step, rise, rise squared.
    """

    in_gpflow = ("ArcCosine", {n: n for n in ("variance", "weight_variances", "bias_variance")})
    order: int = 0
    positive = ("variance", "weight_variances", "bias_variance")

    @classmethod
    def of_family(cls, family: str, name: str, input_dim: int, ard: bool) -> ArcCosine:
        return cls(name, input_dim, ard, int(family[-1]))

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


@kernel("linear")
@dataclass(frozen=True)
class Linear(Part):
    """sum_d variances_d x_d x'_d."""

    in_gpflow = ("Linear", {"variances": "variance"})
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


@kernel("affine")
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


@kernel("polynomial", "polynomial1", "polynomial2", "polynomial3", "polynomial4")
@kernel("polynomial5", "polynomial6", "polynomial7", "polynomial8", "polynomial9")
@dataclass(frozen=True)
class Polynomial(Linear):
    """(sum_d variances_d x_d x'_d + offset)^degree: polynomials of that degree."""

    in_gpflow = ("Polynomial", {"variances": "variance", "offset": "offset"})
    degree: int = 2
    positive = ("variances", "offset")

    @classmethod
    def of_family(cls, family: str, name: str, input_dim: int, ard: bool) -> Polynomial:
        return cls(name, input_dim, ard, int(family.removeprefix("polynomial") or 2))

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


@kernel("wiener")
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


@kernel("white")
@dataclass(frozen=True)
class White(Part):
    """variance where both points are one and the same, else 0."""

    in_gpflow = ("White", {"variance": "variance"})
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
