"""Monotone warps of inputs: flows of differential equations whose velocities are sparse GPs.

    g(x) = h(1),   h(0) = x,   dh/dt = w(h),   w(h) = k(h, Z) K_zz^-1 u,   u ~ q(u)
(Ustyuzhaninov et al. 2020). Paths in one dimension do not cross, so that g increases; u = 0, the prior's
mean, leaves x unchanged. w is the GP's mean given u: its variance given u would turn paths into noise. Euler
steps h + w(h) / steps solve the equation. Each increases where w' > -steps: 63 prior standard deviations at
the defaults of conf/model/_warp.yaml.

`WarpLayer` warps each input separately. `AlignLayer` warps several sequences, y_j(x) = f(g_j(x)) + noise,
with one latent function f for all of them: the limit of Ustyuzhaninov et al. (2020, app. D) in which their
latent functions are equal. The last input names the sequence.

The warps share a kernel and inducing inputs, and each has its own q(u). Every column uses its own draw of u,
because the bound needs marginals only. Columns with the same noise have the same warp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from dgpbench.errors import UserError
from dgpbench.gp.kernels.base import Kernel
from dgpbench.gp.layer import kl_divergence
from dgpbench.gp.parameters import LOWER, Constraint, below, scope
from dgpbench.gp.propagation import Flow, Preparation


class PreparedWarp(NamedTuple):
    """K^-1 u = mean + root e for each warp: mean (J, M), root (J, M, M). `levels` is for AlignLayer."""

    kernel: dict
    mean: tf.Tensor
    root: tf.Tensor
    levels: dict[str, tf.Tensor]


@dataclass(frozen=True)
class WarpLayer:
    """Static structure: x (J, C) goes in, g_j(x_j) (J, C) comes out."""

    kernel: Kernel
    num_inducing: int
    warps: int = 1
    steps: int = 20  # of Euler's, from time 0 to time 1
    kind: ClassVar[str] = "warp"
    variational: ClassVar[tuple[str, ...]] = ("q_mu", "q_sqrt")

    @property
    def input_dim(self) -> int:
        return self.warps

    @property
    def width(self) -> int:
        return self.warps

    @property
    def noise_dim(self) -> int:
        return self.width * self.num_inducing

    def describe(self) -> str:
        return f"{self.width} (warped)"

    def constraints(self) -> dict[str, Constraint]:
        return {"q_sqrt": LOWER} | below("kernel", self.kernel.constraints())

    def prepare(self, p: Mapping[str, tf.Tensor], how: Preparation) -> tuple[PreparedWarp, None]:
        """The part that does not depend on the batch."""
        kernel = self.kernel.prepare(scope(p, "kernel"), p["Z"])
        K = self.kernel.gram(kernel) + how.jitter * tf.eye(self.num_inducing, dtype=p["Z"].dtype)
        J, M = self.warps, self.num_inducing
        columns = tf.concat([p["q_mu"][..., None], p["q_sqrt"]], 2)  # J, M, 1 + M
        flat = tf.reshape(tf.transpose(columns, (1, 0, 2)), (M, J * (1 + M)))
        weights = tf.linalg.triangular_solve(tf.linalg.cholesky(K), flat, adjoint=True)  # L^-T (m, R)
        weights = tf.transpose(tf.reshape(weights, (M, J, 1 + M)), (1, 0, 2))
        levels = {"levels": p["levels"]} if "levels" in p else {}
        return PreparedWarp(kernel, weights[..., 0], weights[..., 1:], levels), None

    def penalty(self, p: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """KL(q(u) || p(u)), whitened."""
        return kl_divergence(p["q_mu"], p["q_sqrt"])

    def carry(self, batch: PreparedWarp, H: tf.Tensor, flow: Flow) -> tf.Tensor:
        """A draw of g (width, C) at each column of H, from the next rows of the flow's noise."""
        return self.warp(batch, H, flow.draw(self.noise_dim, H))

    def warp(self, batch: PreparedWarp, H: tf.Tensor, eps: tf.Tensor) -> tf.Tensor:
        """g (width, C) at the columns of H, with u by the standard normals eps (noise_dim, C)."""
        h = tf.reshape(H[: self.width], (1, -1))
        now = batch.kernel, self.weights(batch, H, eps)
        for _ in range(self.steps):
            kernel, own = _copy(now)
            now = _copy(now)  # at most two gradients to add for any tensor
            velocity = tf.reduce_sum(self.kernel.cross(kernel, h) * own, 0, keepdims=True)
            h = h + velocity / self.steps
        return tf.reshape(h, (self.width, -1))

    def weights(self, batch: PreparedWarp, H: tf.Tensor, eps: tf.Tensor) -> tf.Tensor:
        """K^-1 u (M, width C) of the warp that each entry of (width, C) takes."""
        each = tf.reshape(eps, (self.warps, self.num_inducing, -1))
        each = batch.mean[..., None] + tf.matmul(batch.root, each)  # J, M, C
        return tf.reshape(tf.transpose(each, (1, 0, 2)), (self.num_inducing, -1))


def _copy(tree):
    return tf.nest.map_structure(tf.identity, tree)


def initial(x: np.ndarray, M: int, warps: int, scale: float) -> dict[str, np.ndarray]:
    """First values: inducing inputs evenly over all of x, no velocity, whitened q(u) of that scale."""
    return {
        "Z": np.linspace(x.min(), x.max(), M)[:, None],
        "q_mu": np.zeros((warps, M)),
        "q_sqrt": np.tile(np.eye(M), (warps, 1, 1)) * scale,
    }


MAX_SEQUENCES = 50  # sequences


@dataclass(frozen=True)
class AlignLayer(WarpLayer):
    """Static structure: x and the sequence (2, C) go in, g_j(x) (1, C) comes out."""

    kind: ClassVar[str] = "align"
    input_dim: ClassVar[int] = 2
    width: ClassVar[int] = 1

    def describe(self) -> str:
        return f"1 (warped, {self.warps} sequences)"

    def weights(self, batch: PreparedWarp, H: tf.Tensor, eps: tf.Tensor) -> tf.Tensor:
        """Those of the warp whose level is nearest."""
        gaps = tf.abs(H[1:2] - batch.levels["levels"][:, None])  # J, C
        mine = tf.one_hot(tf.argmin(gaps, 0), self.warps, axis=0, dtype=eps.dtype)
        each = batch.mean[..., None] + tf.matmul(batch.root, eps)  # J, M, C
        return tf.reduce_sum(each * mine[:, None, :], 0)


def sequence_levels(X: np.ndarray) -> np.ndarray:
    """The values that name the sequences, ascending; UserError where X (N, D) does not have them."""
    found = np.unique(X[:, -1])
    if X.shape[1] == 2 and len(found) <= MAX_SEQUENCES:
        return found
    has = f"{len(found)} values" if X.shape[1] == 2 else f"{X.shape[1]} columns"
    raise UserError(
        "model=alignment takes two inputs, of which the second names one of at most "
        f"{MAX_SEQUENCES} sequences; this has {has}: use model=warped_gp, or give such inputs"
    )
