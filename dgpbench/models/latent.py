"""Latent variables w_n ~ N(0, I), concatenated to what enters their layer (thesis 5.1.2), and their q(w_n).

q(w_n) = N(a_n, diag b_n^2) is the output of an encoder of (x_n, y_n), or a pair of free parameters per
training row. At test time w is drawn from its prior. Points are columns; a latent is (dim, K, C): K
importance samples of each of C columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from dgpbench.models import networks
from dgpbench.models.parameters import scope

SCALE_SHIFT = 3.0  # b = softplus(output - 3): the encoder starts with narrow q(w)
FREE_SCALE = 0.1  # first b of free parameters; their a starts at the prior's mean plus a little noise


@dataclass(frozen=True)
class LatentLayer:
    """Static structure: (input_dim, C) goes in, (input_dim + dim, K C) comes out.

    `q` is amortised | free | optimal (w is integrated out and has no parameters).
    """

    input_dim: int
    dim: int
    q: str = "amortised"

    @property
    def output_dim(self) -> int:
        return self.input_dim + self.dim

    @property
    def noise_dim(self) -> int:
        return self.dim


def initial(
    layer: LatentLayer, num_data: int, data_dim: int, hidden: list[int], rng: np.random.RandomState
) -> dict[str, np.ndarray]:
    """First values of q(w); `data_dim` is the dimension of (x, y) together."""
    if layer.q == "amortised":
        sizes = [data_dim, *hidden, 2 * layer.dim]
        return {f"encoder/{name}": value for name, value in networks.initial(sizes, rng).items()}
    return {
        "local/mean": FREE_SCALE * rng.randn(num_data, layer.dim),
        "local/scale": np.full((num_data, layer.dim), FREE_SCALE),
    }


def prepare(layer: LatentLayer, p: dict[str, tf.Tensor], rows: tf.Tensor | None) -> dict[str, tf.Tensor]:
    """What the batch part reads: the encoder, or the rows' own parameters as columns (2 dim, B)."""
    prepared = {"scale": p["scale"]}
    if layer.q == "amortised":
        return prepared | {"encoder": scope(p, "encoder")}
    if layer.q == "optimal" or rows is None:  # w is integrated out, or comes from its prior
        return prepared
    both = [tf.gather(p["local/mean"], rows), tf.gather(p["local/scale"], rows)]
    return prepared | {"local": tf.transpose(tf.concat(both, 1))}


def posterior(prepared: dict, X: tf.Tensor, Y: tf.Tensor, start) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean a and scale b (dim, B) of q(w) at the columns of X (D, B), Y (P, B).

    `start` is the position of the first column in the minibatch, for parameters per row.
    """
    if "encoder" in prepared:
        out = networks.forward(prepared["encoder"], tf.concat([X, Y], 0), skip=True)
        a, b = tf.split(out, 2, axis=0)
        return a, tf.math.softplus(b - SCALE_SHIFT)
    local = prepared["local"]
    part = tf.slice(local, tf.stack([tf.constant(0), start]), (local.shape[0], X.shape[1]))
    return tuple(tf.split(part, 2, axis=0))


@tf.custom_gradient
def kl_from_prior(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """KL(N(a, b^2) || N(0, 1)) summed over dimensions: (C,). One gradient for each argument (gp/kernels)."""
    value = tf.reduce_sum(0.5 * (a * a + b * b - 1.0) - tf.math.log(b), 0)
    return value, lambda g: (g * a, g * (b - 1.0 / b))


def log_prior(w: tf.Tensor) -> tf.Tensor:
    """log N(w; 0, I) for w (dim, K, C): (K, C)."""
    return -0.5 * tf.reduce_sum(tf.square(w), 0) - 0.5 * math.log(2.0 * math.pi) * w.shape[0]


def log_q(w: tf.Tensor, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """log N(w; a, b^2) for w (dim, K, C), a and b (dim, C): (K, C)."""
    a, b = a[:, None, :], b[:, None, :]
    each = -0.5 * tf.square((w - a) / b) - tf.math.log(b)
    return tf.reduce_sum(each, 0) - 0.5 * math.log(2.0 * math.pi) * w.shape[0]
