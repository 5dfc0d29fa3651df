"""Lower bounds as pure functions of parameters, structure, data and noise.

`lower_bound` is the definition of all of them:
    vi       (2.19), (5.3):  sum_n E[L_n - KL_w] - KL          L_n is analytic in the last layer (5.8)
    iwvi     (5.11):         sum_n E log 1/K sum_k exp(L_n^k) p(w^k) / q(w^k) - KL
    optimal  (4.8):          sum_n E log of the integral of exp(L_n(w)) p(w) dw - KL, by quadrature
`bound_and_gradients` is the same number with its gradient, organised for speed: the M x M part in
`param_dtype` outside XLA, the batch part in `batch_dtype`, in column chunks that fit the cache, optionally
compiled by XLA, and the two chained by hand. Sums are written with `+`, one after the other: tf.add_n adds in
an order that depends on timing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from dgpbench.inference import quadrature
from dgpbench.models import latent
from dgpbench.models.deep_gp import (
    DeepGP,
    expected_log_likelihood,
    kl_divergences,
    mixed_outputs,
    prepare,
    propagate,
)
from dgpbench.models.parameters import constrain


@dataclass(frozen=True)
class Bound:
    """Which bound, and how it is sampled. A model without latent variables has `vi` only."""

    kind: str = "vi"  # vi | iwvi | optimal
    samples: int = 1  # S, Monte Carlo samples of the whole bound
    importance: int = 1  # K, the samples of w inside the logarithm: 1 under vi, the nodes under optimal
    joint: bool = True  # one draw of the inner functions for the K samples of a point
    dreg: bool = False  # doubly reparameterised gradient of q(w) (Tucker et al. 2019)
    rule: str = "adaptive"  # of the quadrature: adaptive | hermite

    @property
    def columns(self) -> int:
        """Columns that pass through the layers for each row of a minibatch."""
        return self.samples * self.importance


VI = Bound()


def lower_bound(
    model: DeepGP, raw: dict, X, Y, noise, *, num_data, kind: Bound = VI, jitter=1e-6, rows=None
) -> tf.Tensor:
    """The bound that `kind` names, from one draw of its noise.

    X (D, B), Y (P, B), noise (noise_dim, K S B): sample (k, s) of point b stands in column (k S + s) B + b.
    `rows` (B,) are the training rows, where q(w) has parameters for each.
    """
    values = constrain(raw)
    prepared, _ = prepare(model, values, jitter, rows=rows)
    data = tf.reduce_sum(data_term(model, prepared, kind, X, Y, noise, tf.constant(0)))
    return data * (num_data / (X.shape[1] * kind.samples)) - sum(kl_divergences(model, values).values())


def data_term(model: DeepGP, prepared: dict, kind: Bound, X, Y, noise, start) -> tf.Tensor:
    """The part of the bound that belongs to each column: (S B,). `start`: see latent.posterior."""
    Xs, Ys = tf.tile(X, (1, kind.samples)), tf.tile(Y, (1, kind.samples))
    if not model.latent:
        return expected_log_likelihood(model, prepared, Xs, Ys, noise)[0]
    if kind.kind == "vi":
        q = _posteriors(model, prepared, kind, X, Y, start)
        ell = expected_log_likelihood(model, prepared, Xs, Ys, noise, _draws(model, kind, q, noise))
        return ell[0] - sum(latent.kl_from_prior(a, b) for a, b in q)
    _, log_weight = weighted_latents(model, prepared, kind, X, Y, noise, start)
    total = tf.reduce_logsumexp(log_weight, 0)
    return total if kind.kind == "optimal" else total - math.log(kind.importance)


def weighted_latents(model: DeepGP, prepared: dict, kind: Bound, X, Y, noise, start):
    """w (dim, K, C) of each latent layer and log exp(L_n^k) p(w^k) / q(w^k) (K, C), for resampling (5.2.4).

    Under `optimal` w are the nodes, and the weights those of the quadrature.
    """
    if kind.kind == "optimal":
        Xs, Ys = tf.tile(X, (1, kind.samples)), tf.tile(Y, (1, kind.samples))
        nodes, log_weight = _nodes(model, prepared, kind, Xs, Ys, noise)
        return [nodes], log_weight + expected_log_likelihood(
            model, prepared, Xs, Ys, noise, [nodes], kind.importance
        )
    q = _posteriors(model, prepared, kind, X, Y, start)
    w = _draws(model, kind, q, noise)
    Xs, Ys = tf.tile(X, (1, kind.samples)), tf.tile(Y, (1, kind.samples))
    ell = expected_log_likelihood(model, prepared, Xs, Ys, noise, w, kind.importance, kind.joint)
    return w, ell + _log_ratio(w, q)


def _posteriors(model: DeepGP, prepared: dict, kind: Bound, X, Y, start) -> list[tuple[tf.Tensor, tf.Tensor]]:
    """a, b (dim, C) of q(w) in each latent layer."""
    seen = model.likelihood.encode(Y)
    pairs = [latent.posterior(prepared[f"layer{i}"], X, seen, start) for i in model.latent]
    return [(tf.tile(a, (1, kind.samples)), tf.tile(b, (1, kind.samples))) for a, b in pairs]


def _draws(model: DeepGP, kind: Bound, q, noise: tf.Tensor) -> list[tf.Tensor]:
    """w = a + b eps (dim, K, C) in each latent layer."""
    draws = []
    for i, (a, b) in zip(model.latent, q, strict=True):
        eps = tf.reshape(noise[model.noise_rows(i)], (a.shape[0], kind.importance, -1))
        draws.append(a[:, None, :] + b[:, None, :] * eps)
    return draws


def _log_ratio(w: Sequence[tf.Tensor], q) -> tf.Tensor:
    """log p(w) / q(w) over all latent layers: (K, C)."""
    once = [tf.identity(v) for v in w]  # at most two gradients to add for any tensor (gp/kernels)
    return sum(latent.log_prior(v) - latent.log_q(v, a, b) for v, (a, b) in zip(once, q, strict=True))


def _nodes(model: DeepGP, prepared: dict, kind: Bound, X, Y, noise) -> tuple[tf.Tensor, tf.Tensor]:
    """Nodes (dim, K, C) and log weights with the prior's density in them (K, C) for the one latent layer."""
    dim, K, C = model.layers[model.latent[0]].dim, kind.importance, X.shape[1]
    if kind.rule == "hermite":
        per_dimension = round(K ** (1.0 / dim))
        nodes, log_weight = quadrature.hermite(per_dimension, dim)
        nodes = tf.tile(tf.constant(nodes, X.dtype)[:, :, None], (1, 1, C))
        return nodes, tf.constant(log_weight[:, None], X.dtype)
    fixed = tf.nest.map_structure(tf.stop_gradient, prepared)
    grid = tf.tile(tf.constant(quadrature.coarse_grid(K), X.dtype)[None, :, None], (1, 1, C))
    mean, var = mixed_outputs(model, fixed, *propagate(model, fixed, X, noise, [grid], K))

    def log_joint(m, v, w):  # P, F, C
        P, F, _ = m.shape
        flat = lambda a: tf.reshape(a, (P, -1))  # noqa: E731
        expectations = model.likelihood.variational_expectations
        ell = expectations(fixed["likelihood"], flat(m), flat(v), tf.tile(Y, (1, F)))
        return tf.reshape(ell, (F, -1)) - 0.5 * w * w

    w, log_weight = quadrature.place(mean, var, log_joint, K)
    w = tf.stop_gradient(w)[None]
    return w, tf.stop_gradient(log_weight) + latent.log_prior(w)


# ---- value and gradient ---------------------------------------------------------------------------------


def batch_term(model: DeepGP, kind: Bound) -> Callable:
    """Value and gradient of the weighted sum of `data_term` with respect to what `prepare` made."""

    def value_and_gradient(prepared, X, Y, noise, start, weight):
        with tf.GradientTape() as tape:
            tape.watch(prepared)
            value = tf.reduce_sum(data_term(model, prepared, kind, X, Y, noise, start)) * weight
        return value, tape.gradient(value, prepared, unconnected_gradients=tf.UnconnectedGradients.ZERO)

    return dreg_term(model, kind) if kind.dreg else value_and_gradient


def dreg_term(model: DeepGP, kind: Bound) -> Callable:
    """`batch_term` of iwvi with the doubly reparameterised gradient of q(w): Tucker et al. (2019), eq. 8.

    The gradient in the parameters of q is sum_k v_k^2 d(log weight_k)/dw_k dw_k/dphi, with v_k the normalised
    weights and the density q held fixed; all others keep their ordinary gradient.
    """

    def value_and_gradient(prepared, X, Y, noise, start, weight):
        Xs, Ys = tf.tile(X, (1, kind.samples)), tf.tile(Y, (1, kind.samples))
        with tf.GradientTape() as encoder:
            encoder.watch(prepared)
            q = _posteriors(model, prepared, kind, X, Y, start)
            w = _draws(model, kind, q, noise)
        held = [(tf.stop_gradient(a), tf.stop_gradient(b)) for a, b in q]
        with tf.GradientTape() as tape:
            tape.watch([prepared, w])
            ell = expected_log_likelihood(model, prepared, Xs, Ys, noise, w, kind.importance, kind.joint)
            log_weight = ell + _log_ratio(w, held)
            each = tf.reduce_logsumexp(log_weight, 0) - math.log(kind.importance)
            value = tf.reduce_sum(each) * weight
        zero = tf.UnconnectedGradients.ZERO
        ordinary, d_w = tape.gradient(value, [prepared, w], unconnected_gradients=zero)
        share = tf.nn.softmax(log_weight, 0)  # d_w has one factor v_k already
        through = encoder.gradient(w, prepared, [share * d for d in d_w], unconnected_gradients=zero)
        return value, tf.nest.map_structure(tf.add, ordinary, through)

    return value_and_gradient


def bound_and_gradients(
    model: DeepGP,
    raw: dict[str, tf.Tensor],
    chunks: Sequence[tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]],
    weight: tf.Tensor,
    term: Callable,
    *,
    trainable: Sequence[str],
    natural: Sequence[int] = (),
    jitter: tf.Tensor,
    forms: Sequence[str],
    batch_dtype: tf.DType,
    rows: tf.Tensor | None = None,
) -> tuple[tf.Tensor, dict[str, tf.Tensor], dict[int, tuple[tf.Tensor, tf.Tensor]]]:
    """The bound, its gradient for `trainable`, and for each `natural` layer the data part of (dL/dm, dL/dS).

    The layers in `natural` keep their KL out of their gradients: its contribution to a natural-gradient step
    is known in closed form. `chunks` are (X, Y, noise, start) column blocks, `weight` is N / (B S).
    """
    with tf.GradientTape() as tape:
        tape.watch(raw)
        values = constrain(raw)
        prepared, moments = prepare(model, values, jitter, forms, batch_dtype, rows, natural)
        kl = kl_divergences(model, values)
        zero = tf.zeros((), next(iter(raw.values())).dtype)
        kl_ordinary = sum((k for i, k in kl.items() if i not in natural), zero)
        flat = tf.nest.flatten(prepared)

    low = tf.nest.map_structure(lambda t: tf.cast(t, batch_dtype), prepared)
    parts = [term(low, *chunk, tf.cast(weight, batch_dtype)) for chunk in chunks]
    data = sum(tf.cast(value, zero.dtype) for value, _ in parts)
    d_parts = zip(*[tf.nest.flatten(gradient) for _, gradient in parts], strict=True)
    d_flat = [sum(tf.cast(d, t.dtype) for d in ds) for t, ds in zip(flat, d_parts, strict=True)]
    gradients, pairs = tape.gradient(
        [*flat, kl_ordinary],
        [[raw[name] for name in trainable], [moments[i] for i in natural]],
        output_gradients=[*d_flat, -tf.ones_like(kl_ordinary)],
        unconnected_gradients=tf.UnconnectedGradients.ZERO,
    )
    data_part = {i: (g_m, tf.cast(g_S, g_m.dtype)) for i, (g_m, g_S) in zip(natural, pairs, strict=True)}
    dense = [tf.convert_to_tensor(g) for g in gradients]  # those of gathered rows come as slices
    return data - sum(kl.values()), dict(zip(trainable, dense, strict=True)), data_part
