"""Covariance functions as pure functions of constrained parameters.

Written here, not taken from GPflow, because the batch part runs in another precision than the M x M part and
under XLA; the tests hold each one against GPflow's. Points are columns: H is (D, B), inducing inputs are
rows: Z is (M, D), so that k(Z, H) is (M, B) and one matrix product gives all squared distances.

A kernel is a sum of parts, written ``rbf+linear+white``. `prepare` does what depends on Z and the
hyperparameters only (in the precision of the M x M part); `cross` does what touches the batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from dgpbench.gp.parameters import POSITIVE

STATIONARY = ("rbf", "matern12", "matern32", "matern52")
ARCCOSINE = ("arccosine0", "arccosine1", "arccosine2")
PARTS = (*STATIONARY, *ARCCOSINE, "linear", "white")


@dataclass(frozen=True)
class Kernel:
    """A sum of parts over inputs of dimension `input_dim`; one lengthscale per dimension if `ard`."""

    parts: tuple[str, ...]
    input_dim: int
    ard: bool = True

    @staticmethod
    def parse(text: str, input_dim: int, ard: bool) -> Kernel:
        return Kernel(tuple(part.strip() for part in text.split("+")), input_dim, ard)

    def initial(self, variance: float, lengthscale: float, white: float) -> dict[str, np.ndarray]:
        """Initial values. Only the first part gets `variance`; a further non-white part starts at 1."""
        dims = (self.input_dim,) if self.ard else ()
        out: dict[str, np.ndarray] = {}
        for i, part in enumerate(self.parts):
            v = np.asarray(variance if i == 0 else 1.0)
            if part in STATIONARY:
                out |= {f"{part}/variance": v, f"{part}/lengthscales": np.full(dims, float(lengthscale))}
            elif part in ARCCOSINE:
                out |= {
                    f"{part}/variance": v,
                    f"{part}/weight_variances": np.full(dims, float(lengthscale) ** -2),
                    f"{part}/bias_variance": np.asarray(1.0),
                }
            elif part == "linear":
                out |= {"linear/variances": np.full(dims, float(v))}
            else:
                out |= {"white/variance": np.asarray(float(white))}
        return out

    def constraints(self) -> dict:
        return dict.fromkeys(self.initial(1.0, 1.0, 1.0), POSITIVE)

    # ---- M x M part ----------------------------------------------------------------------------------

    def prepare(self, p: dict[str, tf.Tensor], Z: tf.Tensor) -> dict[str, dict[str, tf.Tensor]]:
        """What `cross` and `diagonal` need of Z (M, D) and the hyperparameters."""
        out = {}
        for part in self.parts:
            if part in STATIONARY:
                scale = _rows(1.0 / p[f"{part}/lengthscales"])  # D, 1  or 1, 1
                out[part] = {"scale": scale, "Z": Z * tf.transpose(scale), "variance": p[f"{part}/variance"]}
            elif part in ARCCOSINE:
                scale = _rows(tf.sqrt(p[f"{part}/weight_variances"]))
                out[part] = {
                    "scale": scale,
                    "Z": Z * tf.transpose(scale),
                    "variance": p[f"{part}/variance"],
                    "bias": p[f"{part}/bias_variance"],
                }
            elif part == "linear":
                scale = _rows(tf.sqrt(p["linear/variances"]))
                out[part] = {"scale": scale, "Z": Z * tf.transpose(scale)}
            else:
                out[part] = {"variance": p["white/variance"]}
        return out

    def gram(self, prepared: dict[str, dict[str, tf.Tensor]]) -> tf.Tensor:
        """k(Z, Z) (M, M); white noise stands on the diagonal."""
        total = 0.0
        for part in self.parts:
            q = prepared[part]
            if part in STATIONARY:
                total += _stationary(part, q["variance"], _half_negative_distance_among(q["Z"]))
            elif part != "white":
                total += _cross(part, q, tf.transpose(q["Z"]))
        if "white" in self.parts:
            total += prepared["white"]["variance"] * tf.eye(tf.shape(total)[0], dtype=total.dtype)
        return total

    # ---- batch part ----------------------------------------------------------------------------------

    def cross(self, prepared: dict[str, dict[str, tf.Tensor]], H: tf.Tensor) -> tf.Tensor:
        """k(Z, H) (M, B). White noise is independent of the inducing points: it adds nothing here."""
        return sum(
            _cross(part, prepared[part], H * prepared[part]["scale"])
            for part in self.parts
            if part != "white"
        )

    def cross_rows(self, prepared: dict[str, dict[str, tf.Tensor]], H: tf.Tensor) -> tf.Tensor:
        """k(H, Z) (B, M) for points in rows, H (B, D): `cross` with the places of Z and H exchanged."""
        total = 0.0
        for part in self.parts:
            if part != "white":
                q = prepared[part]
                Z = tf.transpose(q["Z"])
                total += _cross(part, q | {"Z": H * tf.transpose(q["scale"])}, Z)
        return total

    def diagonal(self, prepared: dict[str, dict[str, tf.Tensor]], H: tf.Tensor) -> tf.Tensor:
        """k(h, h) for each column of H, as (1, B) or, for stationary kernels, (1, 1)."""
        total = 0.0
        for part in self.parts:
            q = prepared[part]
            if part in STATIONARY or part == "white":
                total += tf.reshape(q["variance"], (1, 1))
            elif part == "linear":
                total += tf.reduce_sum(tf.square(H * q["scale"]), 0, keepdims=True)
            else:
                order = int(part[-1])
                norm2 = q["bias"] + tf.reduce_sum(tf.square(H * q["scale"]), 0, keepdims=True)
                total += q["variance"] * (3.0 if order == 2 else 1.0) * norm2**order
        return total

    def between(
        self, prepared: dict[str, dict[str, tf.Tensor]], left: tf.Tensor, right: tf.Tensor, same: tf.Tensor
    ) -> tf.Tensor:
        """k(left, right) point by point for (D, T, C) arrays: (T, C). `same` (T, 1): where both are one."""
        total = 0.0
        for part in self.parts:
            q = prepared[part]
            if part == "white":
                total += q["variance"] * tf.cast(same, left.dtype)
                continue
            scale = q["scale"][:, :, None]
            if part in STATIONARY:
                e = -0.5 * tf.reduce_sum(tf.square((left - right) * scale), 0)
                total += _stationary(part, q["variance"], e)
                continue
            inner, a2, b2 = (tf.reduce_sum(a * b * scale * scale, 0) for a, b in _products(left, right))
            total += inner if part == "linear" else _arccosine(int(part[-1]), q, inner, a2, b2)
        return total


def _products(a: tf.Tensor, b: tf.Tensor) -> tuple:
    return (a, b), (a, a), (b, b)


def _rows(v: tf.Tensor) -> tf.Tensor:
    return tf.reshape(v, (-1, 1))


# TensorFlow adds three or more gradients of one tensor in an order that depends on timing. So that runs
# repeat to the last bit, distances have gradients of their own, which leave each tensor at most two to add.


@tf.custom_gradient
def _half_negative_distance(Z: tf.Tensor, H: tf.Tensor) -> tf.Tensor:
    """-|z - h|^2 / 2 (M, B) as one product of augmented matrices: z.h - |z|^2/2 - |h|^2/2."""
    z2 = tf.reduce_sum(tf.square(Z), 1, keepdims=True)  # M, 1
    h2 = tf.reduce_sum(tf.square(H), 0, keepdims=True)  # 1, B
    Z1, H1 = tf.concat([Z, tf.ones_like(z2)], 1), tf.concat([H, tf.ones_like(h2)], 0)
    left, right = tf.concat([Z1, -0.5 * z2], 1), tf.concat([H, -0.5 * h2, tf.ones_like(h2)], 0)

    def gradient(G):
        dZ = tf.matmul(G, H1, transpose_b=True)  # M, D + 1: G H^T and the row sums of G
        dH = tf.matmul(Z1, G, transpose_a=True)  # D + 1, B
        return dZ[:, :-1] - Z * dZ[:, -1:], dH[:-1] - H * dH[-1:]

    return tf.matmul(left, right), gradient


@tf.custom_gradient
def _rbf_cross(Z: tf.Tensor, H: tf.Tensor, log_variance: tf.Tensor) -> tf.Tensor:
    """exp(log_variance - |z - h|^2 / 2) (M, B) in one pass over the product; its gradient in another.

    The gradient in log_variance is the sum of the row sums that the gradient in Z has anyway.
    """
    z2 = tf.reduce_sum(tf.square(Z), 1, keepdims=True)  # M, 1
    h2 = tf.reduce_sum(tf.square(H), 0, keepdims=True)  # 1, B
    Z1, H1 = tf.concat([Z, tf.ones_like(z2)], 1), tf.concat([H, tf.ones_like(h2)], 0)
    left = tf.concat([Z1, log_variance - 0.5 * z2], 1)
    K = tf.exp(tf.matmul(left, tf.concat([H, -0.5 * h2, tf.ones_like(h2)], 0)))

    def gradient(dK):
        G = dK * K
        dZ = tf.matmul(G, H1, transpose_b=True)  # M, D + 1: G H^T and the row sums of G
        dH = tf.matmul(Z1, G, transpose_a=True)  # D + 1, B
        rows = dZ[:, -1:]
        return dZ[:, :-1] - Z * rows, dH[:-1] - H * dH[-1:], tf.reduce_sum(rows)

    return K, gradient


@tf.custom_gradient
def _half_negative_distance_among(Z: tf.Tensor) -> tf.Tensor:
    """-|z - z'|^2 / 2 (M, M) among the rows of Z."""
    z2 = tf.reduce_sum(tf.square(Z), 1, keepdims=True)

    def gradient(G):
        G = G + tf.transpose(G)
        return tf.matmul(G, Z) - Z * tf.reduce_sum(G, 1, keepdims=True)

    return tf.matmul(Z, Z, transpose_b=True) - 0.5 * (z2 + tf.transpose(z2)), gradient


def _cross(part: str, q: dict[str, tf.Tensor], H: tf.Tensor) -> tf.Tensor:
    """One part of the sum for scaled inputs: Z in q is already scaled, so is H (D, B)."""
    Z = q["Z"]
    if part == "linear":
        return tf.matmul(Z, H)
    if part in ARCCOSINE:
        z2, h2 = tf.reduce_sum(Z * Z, 1, keepdims=True), tf.reduce_sum(H * H, 0, keepdims=True)
        return _arccosine(int(part[-1]), q, tf.matmul(Z, H), z2, h2)
    if part == "rbf":
        return _rbf_cross(Z, H, tf.math.log(q["variance"]))
    return _stationary(part, q["variance"], _half_negative_distance(Z, H))


def _stationary(part: str, variance: tf.Tensor, e: tf.Tensor) -> tf.Tensor:
    """A stationary kernel of e = -r^2 / 2."""
    if part == "rbf":
        return variance * tf.exp(e)
    r = tf.sqrt(tf.maximum(-2.0 * e, 1e-30 if e.dtype == tf.float32 else 1e-36))
    if part == "matern12":
        return variance * tf.exp(-r)
    if part == "matern32":
        return variance * (1.0 + math.sqrt(3.0) * r) * tf.exp(-math.sqrt(3.0) * r)
    return variance * (1.0 + math.sqrt(5.0) * r + 5.0 / 3.0 * r * r) * tf.exp(-math.sqrt(5.0) * r)


def _arccosine(order: int, q: dict, inner: tf.Tensor, z2: tf.Tensor, h2: tf.Tensor) -> tf.Tensor:
    """Cho and Saul (2009): variance / pi * J_order(theta) (|z| |h|)^order, norms with the bias inside.

    `inner` holds z.h, z2 and h2 the squared norms, all of scaled inputs and without the bias.
    """
    inner = inner + q["bias"]
    norm = tf.sqrt(z2 + q["bias"]) * tf.sqrt(h2 + q["bias"])
    shrink = 1e-6 if inner.dtype == tf.float32 else 1e-15  # keeps the gradient of acos finite at theta = 0
    theta = tf.acos(tf.clip_by_value(inner / norm, -1.0, 1.0) * (1.0 - shrink))
    if order == 0:
        J = math.pi - theta
    elif order == 1:
        J = tf.sin(theta) + (math.pi - theta) * tf.cos(theta)
    else:
        J = 3.0 * tf.sin(theta) * tf.cos(theta) + (math.pi - theta) * (1.0 + 2.0 * tf.cos(theta) ** 2)
    return q["variance"] / math.pi * J * norm**order
