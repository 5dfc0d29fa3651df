"""Lower bounds as pure functions of parameters, structure, data and noise.

`dsvi_bound` is the definition. `dsvi_bound_and_gradients` is the same number with its gradient, organised
for speed: the M x M part in `param_dtype` outside XLA, the batch part in `batch_dtype`, in column chunks that
fit the cache, optionally compiled by XLA, and the two chained by hand. Sums are written with `+`, one after
the other: tf.add_n adds in an order that depends on timing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from dgpbench.models.deep_gp import DeepGP, expected_log_likelihood, kl_divergences, prepare
from dgpbench.models.layers import gradient_in_mean_and_covariance
from dgpbench.models.parameters import constrain


def dsvi_bound(
    model: DeepGP, raw: dict, X, Y, noise, *, num_data, samples: int = 1, jitter=1e-6
) -> tf.Tensor:
    """Thesis (2.19): N / B sum_n E log p(y_n | f_n^L) - sum_l KL(q(u^l) || p(u^l)).

    X (D, B), Y (P, B), noise (noise_dim, samples * B): sample s of point b stands in column s * B + b.
    """
    values = constrain(raw)
    prepared, _ = prepare(model, values, jitter)
    ell = expected_log_likelihood(model, prepared, tf.tile(X, (1, samples)), tf.tile(Y, (1, samples)), noise)
    return tf.reduce_sum(ell) * (num_data / (X.shape[1] * samples)) - sum(kl_divergences(model, values))


def batch_term(model: DeepGP, samples: int) -> Callable:
    """Value and gradient of the summed expected log-likelihood with respect to the prepared M x M part."""

    def value_and_gradient(prepared, X, Y, noise, weight):
        with tf.GradientTape() as tape:
            tape.watch(prepared)
            ell = expected_log_likelihood(
                model, prepared, tf.tile(X, (1, samples)), tf.tile(Y, (1, samples)), noise
            )
            value = tf.reduce_sum(ell) * weight
        return value, tape.gradient(value, prepared, unconnected_gradients=tf.UnconnectedGradients.ZERO)

    return value_and_gradient


def dsvi_bound_and_gradients(
    model: DeepGP,
    raw: dict[str, tf.Tensor],
    chunks: Sequence[tuple[tf.Tensor, tf.Tensor, tf.Tensor]],
    weight: tf.Tensor,
    term: Callable,
    *,
    trainable: Sequence[str],
    natural: Sequence[int] = (),
    jitter: tf.Tensor,
    forms: Sequence[str],
    batch_dtype: tf.DType,
) -> tuple[tf.Tensor, dict[str, tf.Tensor], dict[int, tuple[tf.Tensor, tf.Tensor]]]:
    """The bound, its gradient for `trainable`, and for each `natural` layer the data part of (dL/dm, dL/dS).

    The layers in `natural` keep their KL out of their gradients: its contribution to a natural-gradient step
    is known in closed form. `chunks` are (X, Y, noise) column blocks, `weight` is N / (B * samples).
    """
    with tf.GradientTape() as tape:
        tape.watch(raw)
        values = constrain(raw)
        prepared, Linv = prepare(model, values, jitter, forms, batch_dtype)
        kl = kl_divergences(model, values)
        kl_ordinary = sum((k for i, k in enumerate(kl) if i not in natural), tf.zeros_like(kl[0]))
        flat = tf.nest.flatten(prepared)

    low = tf.nest.map_structure(lambda t: tf.cast(t, batch_dtype), prepared)
    parts = [term(low, X, Y, noise, tf.cast(weight, batch_dtype)) for X, Y, noise in chunks]
    data = sum(tf.cast(value, kl[0].dtype) for value, _ in parts)
    d_parts = zip(*[tf.nest.flatten(gradient) for _, gradient in parts], strict=True)
    d_flat = [sum(tf.cast(d, t.dtype) for d in ds) for t, ds in zip(flat, d_parts, strict=True)]
    gradients = tape.gradient(
        [*flat, kl_ordinary],
        [raw[name] for name in trainable],
        output_gradients=[*d_flat, -tf.ones_like(kl_ordinary)],
        unconnected_gradients=tf.UnconnectedGradients.ZERO,
    )
    d_prepared = tf.nest.pack_sequence_as(prepared, d_flat)
    pairs = {i: gradient_in_mean_and_covariance(d_prepared[f"layer{i}"], Linv[i]) for i in natural}
    return data - sum(kl), dict(zip(trainable, gradients, strict=True)), pairs
