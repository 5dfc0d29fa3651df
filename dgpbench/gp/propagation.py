"""What one pass hands to the layers: how to prepare the M x M part, and the columns that flow through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import tensorflow as tf


class Whitened(NamedTuple):
    """q(u) = N(mean, S) of a layer in whitened coordinates, with mean (P, M).

    S is given by a lower root (P, M, M), or by excess = S - I. Where both are None, q(u) is a point, S = 0.
    """

    mean: tf.Tensor
    root: tf.Tensor | None = None
    excess: tf.Tensor | None = None


@dataclass(frozen=True)
class Preparation:
    """Settings of `prepare`, the same for every kind of layer; each layer uses those that concern it.

    `form` names the form of the batch part (fast/forms.py). `rows` are the training rows of the batch, needed
    where q(w) has parameters for each row. A `natural` layer has gradients in its m and S - I. `q` replaces
    the layer's own q_mu and q_sqrt. With `compiled`, XLA compiles this part too.
    """

    jitter: tf.Tensor
    form: str = "white"
    batch_dtype: tf.DType = tf.float64
    rows: tf.Tensor | None = None
    natural: bool = False
    q: Whitened | None = None
    compiled: bool = False


class Flow:
    """State of one pass through the layers, which hands out noise rows and latent values layer by layer.

    noise (noise_dim, K C) is standard normal; w holds (dim, K, C) for each latent layer. Above the first
    latent layer each column becomes K columns. With `joint` they come from one draw of each inner function,
    as (5.11) requires, otherwise from K draws. Where the first layer is evaluated once, each column has
    `repeat` samples, in blocks.
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
        """Return the next `rows` of the noise for the columns of H and their repetitions."""
        eps = self.noise[self.row : self.row + rows, : H.shape[1] * self.repeat]
        self.row, self.repeat = self.row + rows, 1
        return eps

    def latent(self, rows: int, H: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return H with K columns for each of its own and the next latent values (dim, K C)."""
        H = tf.tile(H, (1, self.K)) if self.spread == 1 else H
        self.spread, self.row = self.K, self.row + rows
        return H, tf.reshape(self.w.pop(0), (rows, -1))
