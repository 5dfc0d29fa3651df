"""Fully connected networks as pure functions: the encoder of latent variables and the neural baselines.

Points are columns: inputs are (D, B), weights (out, in), biases (out, 1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf


def initial(sizes: Sequence[int], rng: np.random.RandomState) -> dict[str, np.ndarray]:
    """Weights and biases of a network with these layer sizes, inputs first. Xavier start, biases zero."""
    values = {}
    for i, (dim_in, dim_out) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
        values[f"W{i}"] = rng.randn(dim_out, dim_in) * np.sqrt(2.0 / (dim_in + dim_out))
        values[f"b{i}"] = np.zeros((dim_out, 1))
    return values


def forward(
    p: dict[str, tf.Tensor],
    inputs: tf.Tensor,
    skip: bool = False,
    masks: Sequence[tf.Tensor] | None = None,
) -> tf.Tensor:
    """tanh between layers, none at the end; `skip` adds a layer's input to its output where widths agree;
    `masks` are factors (width, B) on the hidden units."""
    H, depth = inputs, len(p) // 2
    for i in range(depth):
        W = p[f"W{i}"]
        out = tf.matmul(W, H) + p[f"b{i}"]
        out = tf.tanh(out) if i < depth - 1 else out
        out = out * masks[i] if masks and i < depth - 1 else out
        H = out + H if skip and W.shape[0] == W.shape[1] else out
    return H  # sizes[-1], B
