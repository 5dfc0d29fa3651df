"""A Bayesian linear projection of the inputs, x -> A x, before the first GP (thesis 4.2.3).

Elements of A (Q, D) have prior N(0, 1) and posterior q(A) = N(mean, scale^2), independent. Given x, the
elements of A x are independent Gaussians: they are sampled, not A, one draw for each column.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from dgpbench.models.latent import kl_from_prior


@dataclass(frozen=True)
class ProjectionLayer:
    """Static structure: (input_dim, C) goes in, (output_dim, C) comes out."""

    input_dim: int
    output_dim: int

    @property
    def noise_dim(self) -> int:
        return self.output_dim


def initial(mean: np.ndarray, scale: float) -> dict[str, np.ndarray]:
    """First values from a map W (D, Q), such as principal axes, and one scale for all elements."""
    return {"projection/mean": mean.T.copy(), "projection/scale": np.full(mean.T.shape, scale)}


def prepare(p: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    return {"mean": p["projection/mean"], "variance": tf.square(p["projection/scale"])}


def sample(prepared: dict, X: tf.Tensor, eps: tf.Tensor) -> tf.Tensor:
    """A x (Q, C) for each column of X (D, C), with A ~ q(A); eps (Q, C) standard normal."""
    mean = tf.matmul(prepared["mean"], X)
    var = tf.matmul(prepared["variance"], tf.square(X))
    return mean + tf.sqrt(tf.maximum(var, 1e-30)) * eps  # the floor keeps the gradient finite at x = 0


def kl_divergence(p: dict[str, tf.Tensor]) -> tf.Tensor:
    """KL(q(A) || p(A))."""
    return tf.reduce_sum(kl_from_prior(p["projection/mean"], p["projection/scale"]))
