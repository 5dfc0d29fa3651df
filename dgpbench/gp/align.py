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

    def describe(self) -> str:
        return f"1 (warped, {self.warps} sequences)"

    def chosen(self, batch: PreparedWarp, H: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        gaps = tf.abs(H[1:2] - batch.levels["levels"][:, None])  # J, C
        mine = tf.one_hot(tf.argmin(gaps, 0), self.warps, axis=0, dtype=weights.dtype)
        return tf.reduce_sum(weights * mine[:, None, :], 0)


def levels(column: np.ndarray) -> np.ndarray:
    """The values that name the sequences, ascending; UserError where they are no names."""
    found = np.unique(column)
    if len(found) > MOST:
        raise UserError(
            f"model=alignment takes the last input as the number of the sequence, of at most {MOST}; it has "
            f"{len(found)} values: put the number of the sequence there, or use model=warped_gp"
        )
    return found
