"""The columns that pass through the layers: noise, latent values, and the samples of each point."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf


class Flow:
    """State of one pass: noise rows are handed out layer by layer, latent values likewise.

    noise (noise_dim, K C) is standard normal; w holds (dim, K, C) of each latent layer. Behind the first
    latent layer each column is K columns. `joint`: these come from one draw of each inner function, as
    (5.11) asks; else from K draws. `repeat` samples of each column, in blocks, where the first layer is
    asked once.
    """

    def __init__(
        self,
        noise: tf.Tensor,
        w: Sequence[tf.Tensor] = (),
        K: int = 1,
        joint: bool = True,
        repeat: int = 1,
        jitter=None,
    ):
        self.noise, self.w, self.K, self.joint, self.jitter = noise, list(w), K, joint, jitter
        self.repeat, self.spread, self.row = repeat, 1, 0

    @property
    def together(self) -> int:
        """Columns of a point that share one draw of a function."""
        return self.spread if self.joint else 1

    def draw(self, rows: int, H: tf.Tensor) -> tf.Tensor:
        """The next `rows` of the noise, for the columns of H and their repetitions."""
        eps = self.noise[self.row : self.row + rows, : H.shape[1] * self.repeat]
        self.row, self.repeat = self.row + rows, 1
        return eps

    def latent(self, rows: int, H: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """H with K columns for each of its own, unless it has them, and the next latent values (dim, K C)."""
        H = tf.tile(H, (1, self.K)) if self.spread == 1 else H
        self.spread, self.row = self.K, self.row + rows
        return H, tf.reshape(self.w.pop(0), (rows, -1))
