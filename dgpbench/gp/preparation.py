"""How a layer is made ready for a batch: precision, form, and whose q(u) it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import tensorflow as tf


class Whitened(NamedTuple):
    """q(u) = N(mean, S) of a layer in whitened coordinates, mean (P, M): S by a lower root (P, M, M), or by
    excess = S - I; a point, S = 0, where both are None."""

    mean: tf.Tensor
    root: tf.Tensor | None = None
    excess: tf.Tensor | None = None


@dataclass(frozen=True)
class Preparation:
    """Settings of `prepare`, the same for every kind of layer; each takes those that concern it.

    `form` is that of the batch part (fast/forms.py); `rows` are the training rows of the batch, where q(w)
    has parameters for each; a `natural` layer has gradients in its m and S - I; `q` takes the place of the
    layer's own q_mu and q_sqrt; `compiled`: XLA takes this part too.
    """

    jitter: tf.Tensor
    form: str = "white"
    batch_dtype: tf.DType = tf.float64
    rows: tf.Tensor | None = None
    natural: bool = False
    q: Whitened | None = None
    compiled: bool = False
