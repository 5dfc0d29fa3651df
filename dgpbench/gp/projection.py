"""A Bayesian linear projection of the inputs, x -> A x, before the first GP (thesis 4.2.3).

Elements of A (Q, D) have prior N(0, 1) and posterior q(A) = N(mean, scale^2), independent. Given x, the
elements of A x are independent Gaussians: they are sampled, not A, one draw for each column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import tensorflow as tf

from dgpbench.gp.flow import Flow
from dgpbench.gp.latent import kl_from_prior
from dgpbench.gp.parameters import POSITIVE, Constraint
from dgpbench.gp.preparation import Preparation


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
        return sample(batch, H, flow.draw(self.noise_dim, H))


def initial(mean: np.ndarray, scale: float) -> dict[str, np.ndarray]:
    """First values from a map W (D, Q), such as principal axes, and one scale for all elements."""
    return {"projection/mean": mean.T.copy(), "projection/scale": np.full(mean.T.shape, scale)}


def sample(prepared: Mapping[str, tf.Tensor], X: tf.Tensor, eps: tf.Tensor) -> tf.Tensor:
    """A x (Q, C) for each column of X (D, C), with A ~ q(A); eps (Q, C) standard normal."""
    mean = tf.matmul(prepared["mean"], X)
    var = tf.matmul(prepared["variance"], tf.square(X))
    return mean + tf.sqrt(tf.maximum(var, 1e-30)) * eps  # the floor keeps the gradient finite at x = 0
