"""Monotone warps of several sequences, one for each: y_j(x) = f(g_j(x)) + noise, with f in common.

The alignment of Ustyuzhaninov et al. (2020, app. D) with one latent function for all sequences, the limit in
which their latent functions are as similar as can be. The last input names the sequence; the warps have a
kernel and inducing inputs in common, and a q(u) each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import tensorflow as tf

from dgpbench.errors import UserError
from dgpbench.gp.warp import PreparedWarp, WarpLayer

MOST = 50  # sequences


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


def levels(X: np.ndarray) -> np.ndarray:
    """The values that name the sequences, ascending; UserError where X (N, D) does not have them."""
    found = np.unique(X[:, -1])
    if X.shape[1] == 2 and len(found) <= MOST:
        return found
    has = f"{len(found)} values" if X.shape[1] == 2 else f"{X.shape[1]} columns"
    raise UserError(
        f"model=alignment takes two inputs, of which the second names one of at most {MOST} sequences; this "
        f"has {has}: use model=warped_gp, or give such inputs"
    )
