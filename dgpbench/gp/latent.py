"""Layers with a posterior for each point or input: latent variables, and a projection of the inputs.

Latent variables w_n ~ N(0, I) are concatenated to the inputs of their layer (thesis 5.1.2). Their posterior
q(w_n) = N(a_n, diag b_n^2) is the output of an encoder of (x_n, y_n), or a pair of free parameters per
training row. At test time w is drawn from its prior. Points are columns; a latent is (dim, K, C): K
importance samples of each of C columns.

The Bayesian linear projection x -> A x precedes the first GP (thesis 4.2.3). Elements of A (Q, D) have prior
N(0, 1) and posterior q(A) = N(mean, scale^2), independent. Given x, the elements of A x are independent
Gaussians, so that A x is sampled instead of A, once for each column.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import tensorflow as tf

from dgpbench.gp import networks
from dgpbench.gp.parameters import POSITIVE, Constraint, scope
from dgpbench.gp.propagation import Flow, Preparation

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
    kind: ClassVar[str] = "lv"
    variational: ClassVar[tuple[str, ...]] = ("encoder", "local")

    @property
    def output_dim(self) -> int:
        return self.input_dim + self.dim

    @property
    def noise_dim(self) -> int:
        return self.dim

    def describe(self) -> str:
        return f"{self.output_dim} (+ {self.dim} latent)"

    def constraints(self) -> dict[str, Constraint]:
        return {"scale": POSITIVE, "local/scale": POSITIVE}

    def initial(
        self, num_data: int, data_dim: int, hidden: Sequence[int], rng: np.random.RandomState
    ) -> dict[str, np.ndarray]:
        """First values of q(w); `data_dim` is the dimension of (x, y) together."""
        if self.q == "amortised":
            sizes = [data_dim, *hidden, 2 * self.dim]
            return {f"encoder/{name}": value for name, value in networks.initial(sizes, rng).items()}
        return {
            "local/mean": FREE_SCALE * rng.randn(num_data, self.dim),
            "local/scale": np.full((num_data, self.dim), FREE_SCALE),
        }

    def prepare(self, p: Mapping[str, tf.Tensor], how: Preparation) -> tuple[dict, None]:
        """The encoder, or the rows' own parameters as columns (2 dim, B), for the batch part."""
        prepared = {"scale": p["scale"]}
        if self.q == "amortised":
            prepared |= {"encoder": scope(p, "encoder")}
        elif self.q == "free" and how.rows is not None:  # else w comes from its prior
            both = [tf.gather(p["local/mean"], how.rows), tf.gather(p["local/scale"], how.rows)]
            prepared |= {"local": tf.transpose(tf.concat(both, 1))}
        return prepared, None

    def penalty(self, p: Mapping[str, tf.Tensor]) -> tf.Tensor | None:
        """None: q(w_n) belongs to its point, not to the layer."""
        return None

    def carry(self, batch: dict, H: tf.Tensor, flow: Flow) -> tf.Tensor:
        """H with the latent values below it: (input_dim + dim, K C)."""
        H, w = flow.latent(self.dim, H)
        return tf.concat([H, batch["scale"] * w], 0)

    def posterior(self, batch: dict, X: tf.Tensor, Y: tf.Tensor, start) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean a and scale b (dim, B) of q(w) at the columns of X (D, B), Y (P, B).

        `start` is the position of the first column in the minibatch, for parameters per row.
        """
        if self.q == "amortised":
            out = networks.forward(batch["encoder"], tf.concat([X, Y], 0), skip=True)
            a, b = tf.split(out, 2, axis=0)
            return a, tf.math.softplus(b - SCALE_SHIFT)
        local = batch["local"]
        part = tf.slice(local, tf.stack([tf.constant(0), start]), (local.shape[0], X.shape[1]))
        return tuple(tf.split(part, 2, axis=0))


@tf.custom_gradient
def kl_from_prior(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """KL(N(a, b^2) || N(0, 1)) summed over dimensions: (C,). One gradient for each argument (kernels.py)."""
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


@dataclass(frozen=True)
class ProjectionLayer:
    """Static structure: (input_dim, C) goes in, (output_dim, C) comes out."""

    input_dim: int
    output_dim: int
    kind: ClassVar[str] = "linear"
    variational: ClassVar[tuple[str, ...]] = ("projection",)

    @property
    def noise_dim(self) -> int:
        return self.output_dim

    def describe(self) -> str:
        return str(self.output_dim)

    def constraints(self) -> dict[str, Constraint]:
        return {"projection/scale": POSITIVE}

    def prepare(self, p: Mapping[str, tf.Tensor], how: Preparation) -> tuple[dict[str, tf.Tensor], None]:
        """Mean and variance of the elements of A, for the batch part."""
        return {"mean": p["projection/mean"], "variance": tf.square(p["projection/scale"])}, None

    def penalty(self, p: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """KL(q(A) || p(A))."""
        return tf.reduce_sum(kl_from_prior(p["projection/mean"], p["projection/scale"]))

    def carry(self, batch: dict, H: tf.Tensor, flow: Flow) -> tf.Tensor:
        """A draw of A x for each column of H, from the next rows of the flow's noise."""
        return sample_projection(batch, H, flow.draw(self.noise_dim, H))


def initial_projection(mean: np.ndarray, scale: float) -> dict[str, np.ndarray]:
    """First values from a map W (D, Q), such as principal axes, and one scale for all elements."""
    return {"projection/mean": mean.T.copy(), "projection/scale": np.full(mean.T.shape, scale)}


def sample_projection(prepared: Mapping[str, tf.Tensor], X: tf.Tensor, eps: tf.Tensor) -> tf.Tensor:
    """A x (Q, C) for each column of X (D, C), with A ~ q(A); eps (Q, C) standard normal."""
    mean = tf.matmul(prepared["mean"], X)
    var = tf.matmul(prepared["variance"], tf.square(X))
    return mean + tf.sqrt(tf.maximum(var, 1e-30)) * eps  # the floor keeps the gradient finite at x = 0
