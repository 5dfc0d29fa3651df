"""Psi statistics: a kernel averaged over Gaussian inputs, and what follows of a layer's outputs.

For h ~ N(mean, diag(var)), points in columns:
    psi0 = E k(h, h),   psi1 = E k(Z, h),   psi2 = E k(Z, h) k(h, Z)
in closed form for RBF and linear kernels, their sums, and white noise added. psi2 is symmetric: its lower
triangle stands in T = M (M + 1) / 2 rows. With whitened q(u) = N(m, S), alpha = m' L^-1 and
C = L^-T (S - I) L^-1, a layer's outputs have the moments
    mean = alpha psi1,   var = psi0 + tr[(C + alpha' alpha) psi2] - mean^2.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from dgpbench.gp.kernels.base import Kernel, Prepared
from dgpbench.gp.kernels.compose import Sum
from dgpbench.gp.kernels.covariances import RBF, Linear
from dgpbench.gp.layer import VARIANCE_FLOOR, GPLayer, PreparedGP

Part = tuple[Kernel, Prepared]


class Inputs(NamedTuple):
    """Independent Gaussians: mean and var (D, B)."""

    mean: tf.Tensor
    var: tf.Tensor


def pairs(M: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the lower triangle of an M x M matrix."""
    return np.tril_indices(M)


def _parts(kernel: Kernel, prepared: Prepared) -> list[Part]:
    both = zip(kernel.parts, prepared, strict=True) if isinstance(kernel, Sum) else [(kernel, prepared)]
    return list(both)


def _smooth(kernel: Kernel, prepared: Prepared) -> list[Part]:
    """The parts that are not noise."""
    return [(part, q) for part, q in _parts(kernel, prepared) if not part.noise]


# ---- the three statistics -------------------------------------------------------------------------------


def psi0(kernel: Kernel, prepared: Prepared, h: Inputs) -> tf.Tensor:
    """(1, B) or (1, 1)."""
    total = tf.zeros((1, 1), h.mean.dtype)
    for part, q in _parts(kernel, prepared):
        if type(part) is Linear:
            total += tf.reduce_sum(tf.square(q["scale"]) * (tf.square(h.mean) + h.var), 0, keepdims=True)
        elif type(part) is RBF or part.noise:
            total += tf.reshape(q["variance"], (1, 1))
        else:
            raise TypeError(f"the kernel {part} has no psi statistics")
    return total


def psi1(kernel: Kernel, prepared: Prepared, h: Inputs) -> tf.Tensor:
    """(M, B)."""
    return sum(_psi1(part, h) for part in _smooth(kernel, prepared))


def _psi1(part: Part, h: Inputs) -> tf.Tensor:
    kernel, q = part
    if type(kernel) is Linear:
        return tf.matmul(q["Z"], h.mean * q["scale"])
    weight = 1.0 / (1.0 + h.var * tf.square(q["scale"]))  # D, B
    return q["variance"] * _bell(q["Z"], h.mean * q["scale"], weight, weight)


def _bell(centres: tf.Tensor, mean: tf.Tensor, weight: tf.Tensor, shrink: tf.Tensor) -> tf.Tensor:
    """prod_d shrink_d^1/2 exp(-1/2 sum_d weight_d (mean_d - centre_d)^2) for centres in rows (T, D)."""
    squares = tf.reduce_sum(weight * tf.square(mean), 0, keepdims=True)
    squares += tf.matmul(tf.square(centres), weight) - 2.0 * tf.matmul(centres, weight * mean)
    return tf.exp(0.5 * (tf.reduce_sum(tf.math.log(shrink), 0, keepdims=True) - squares))


def psi2(kernel: Kernel, prepared: Prepared, h: Inputs) -> tf.Tensor:
    """(T, B): the entries `pairs(M)` of the symmetric matrix of each point."""
    parts = _smooth(kernel, prepared)
    return sum(_psi2(a, b, h) for a, b in product(parts, parts))


def _psi2(left: Part, right: Part, h: Inputs) -> tf.Tensor:
    """E k_left(z_i, h) k_right(h, z_j) for the pairs (i, j)."""
    (a, p), (b, q) = left, right
    i, j = pairs(p["Z"].shape[0])
    match type(a) is RBF, type(b) is RBF:
        case True, True:
            return _two_bells(p, q, i, j, h)
        case True, False:
            return _bell_line(left, q, i, j, h)
        case False, True:
            return _bell_line(right, p, j, i, h)
    A, B = (tf.gather(_slopes(c), rows) for c, rows in ((p, i), (q, j)))  # T, D
    return tf.matmul(A, h.mean) * tf.matmul(B, h.mean) + tf.matmul(A * B, h.var)


def _slopes(q: Prepared) -> tf.Tensor:
    """A linear kernel's derivative in h (M, D)."""
    return q["Z"] * tf.transpose(q["scale"])


def _two_bells(p: Prepared, q: Prepared, i, j, h: Inputs) -> tf.Tensor:
    """Two RBFs of h are one around a point between their centres."""
    P, Q = (tf.transpose(tf.square(c["scale"])) * tf.ones((1, h.mean.shape[0]), h.mean.dtype) for c in (p, q))
    u, v = tf.gather(p["Z"] / tf.transpose(p["scale"]), i), tf.gather(q["Z"] / tf.transpose(q["scale"]), j)
    total = P + Q  # 1, D
    apart = tf.reduce_sum(P * Q / total * tf.square(u - v), 1, keepdims=True)  # T, 1
    column = tf.transpose(total)
    shrink = 1.0 / (1.0 + h.var * column)
    bell = _bell((P * u + Q * v) / total, h.mean, column * shrink, shrink)
    return p["variance"] * q["variance"] * tf.exp(-0.5 * apart) * bell


def _bell_line(bell: Part, line: Prepared, i, j, h: Inputs) -> tf.Tensor:
    """An RBF times a linear kernel: the line at the mean that the RBF moves h to."""
    q = bell[1]
    slope, centre = tf.gather(_slopes(line), j), tf.gather(q["Z"] / tf.transpose(q["scale"]), i)  # T, D
    moved = _moved(q, h)
    at = tf.matmul(slope, (1.0 - moved) * h.mean) + tf.matmul(slope * centre, moved)
    return tf.gather(_psi1(bell, h), i) * at


def _moved(q: Prepared, h: Inputs) -> tf.Tensor:
    """How far, between 0 and 1, an RBF moves the mean of h to its centre (D, B)."""
    spread = h.var * tf.square(q["scale"])
    return spread / (1.0 + spread)


# ---- a layer --------------------------------------------------------------------------------------------


def projected(layer: GPLayer, batch: PreparedGP, h: Inputs) -> Inputs:
    """Mean and variance (P, B) of the layer's outputs, mean function included; `batch` in the form `quad`."""
    alpha, C = batch.form.alpha, batch.form.C
    i, j = pairs(layer.num_inducing)
    weights = C + alpha[:, :, None] * alpha[:, None, :]  # P, M, M
    once = tf.constant(np.where(i == j, 0.5, 1.0), alpha.dtype)
    both = weights + tf.linalg.matrix_transpose(weights)  # so that the gradient in C is symmetric too
    flat = tf.gather(tf.reshape(both, (both.shape[0], -1)), i * layer.num_inducing + j, axis=1) * once
    mean = tf.matmul(alpha, psi1(layer.kernel, batch.kernel, h))
    second = tf.matmul(flat, psi2(layer.kernel, batch.kernel, h))
    var = psi0(layer.kernel, batch.kernel, h) + second - tf.square(mean)
    if layer.mean != "zero":
        with_inputs = covariance(layer, batch, h)  # P, D, B
        if layer.mean == "identity":
            var += h.var + 2.0 * tf.transpose(tf.linalg.diag_part(tf.transpose(with_inputs, (2, 0, 1))))
        else:
            W = batch.mean["W"]  # D, P
            var += tf.matmul(tf.square(W), h.var, transpose_a=True)
            var += 2.0 * tf.einsum("dp,pdb->pb", W, with_inputs)
    return Inputs(layer.add_mean(batch, mean, h.mean), tf.maximum(var, VARIANCE_FLOOR[var.dtype]))


def covariance(layer: GPLayer, batch: PreparedGP, h: Inputs) -> tf.Tensor:
    """Covariance (P, D, B) of each GP's mean with each input."""
    alpha, total = batch.form.alpha, 0.0
    for kernel, q in _smooth(layer.kernel, batch.kernel):
        if type(kernel) is Linear:
            total += tf.matmul(alpha, _slopes(q))[:, :, None] * h.var
            continue
        bell = _psi1((kernel, q), h)
        centres = q["Z"] / tf.transpose(q["scale"])  # M, D
        towards = tf.einsum("pm,md,mb->pdb", alpha, centres, bell)
        total += _moved(q, h) * (towards - tf.matmul(alpha, bell)[:, None] * h.mean)
    return total
