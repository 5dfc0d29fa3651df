"""The predictive density of many outputs, such as the pixels of an image, by importance sampling.

p(y | x) is the integral of p(y | u) N(u; 0, I) over the standard normals u in front of the last layer: latent
variables w and the noise of a projection A x. The last layer is integrated in closed form, mixed outputs
included. Given an image, u is known closely: draws from the prior have none near it. So the proposal is found
for each row in stages: draws, their weights flattened until enough of them count, and a Gaussian with the
mean and covariance of these, until nothing need be flattened. Averaged are fresh draws from that Gaussian, a
wider one and the prior:
    log p(y | u_s) + log N(u_s; 0, I) - log q(u_s).
Their exponentials have p(y | x) as their mean whatever the proposal. A poor one shows in the Monte Carlo
error, except where u has two separate regions of which all stages saw one: the density is then too low.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import tensorflow as tf

from dgpbench.gp.deep_gp import DeepGP
from dgpbench.gp.latent import log_prior
from dgpbench.inference.base import Bound

FIRST, EACH = 128, (32, 4)  # draws from the prior; of each stage: so many, and so many for each dimension
STAGES = 12  # at most: 25 found the same densities of MNIST in twice the time (notes/2026-11-18-densities.md)
HALVINGS = 25  # of the interval in which a power of weights is looked for
ENOUGH = 0.25  # share of a stage's draws that count, by their effective number
SHARES = (0.8, 0.15, 0.05)  # of the proposal: the Gaussian found, the same 3 times as wide, the prior
WIDER = (1.3, 9.0)  # factors on the covariance of the first two
NUMBERS = 10_000_000  # of the matrices of a block of rows, which shares its random numbers
PIECE = 128  # draws whose matrices are factorised together
LOG_2PI = math.log(2.0 * math.pi)


def log_density(
    bound: Bound, prepared: dict, X: np.ndarray, Y: np.ndarray, samples: int, seed: int
) -> np.ndarray:
    """Logs (S, N) of terms whose mean is p(y | x) at the rows of X (N, D), Y (N, P)."""
    last = bound.model.layers[-1]
    tall = last.output_dim**2 if last.mixed else last.output_dim
    rows = block_rows(tall, samples, len(X))
    return in_blocks(lambda *given: _compiled(bound, samples)(prepared, *given), X, Y, rows, seed)


def block_rows(tall: int, samples: int, most: int) -> int:
    """Rows that share a block, by the numbers that one draw at one row needs."""
    return max(1, min(NUMBERS // (max(samples, FIRST) * tall), most))


def in_blocks(terms: Callable, X: np.ndarray, Y: np.ndarray, rows: int, seed: int) -> np.ndarray:
    """terms(X, Y, key) (S, rows) of blocks of so many rows, side by side (S, N)."""
    out = []
    for block, start in enumerate(range(0, len(X), rows)):
        part = [np.concatenate([A[start : start + rows], A[:1].repeat(rows, 0)])[:rows] for A in (X, Y)]
        out.append(terms(*part, tf.constant([seed, block])).numpy()[:, : len(X) - start])
    return np.concatenate(out, 1)


@lru_cache(maxsize=8)
def _compiled(bound: Bound, samples: int):
    model = bound.model

    @tf.function
    def run(prepared, X, Y, key):
        target = output_density(model, prepared, tf.transpose(Y))

        def log_p(u, stream):  # dim, K, R
            K, R = u.shape[1:]
            noise, w = _noise(model, tf.reshape(u, (-1, K * R)), fold(key, stream))
            mean, var = bound.moments(prepared, tf.tile(tf.transpose(X), (1, K)), noise, w)
            return tf.reshape(target(mean, var, K), (K, R))

        return adapted_terms(log_p, searched(model), X.shape[0], samples, key, X.dtype)

    return run


def fold(key: tf.Tensor, stream) -> tf.Tensor:
    return tf.random.experimental.stateless_fold_in(key, stream)


def searched(model: DeepGP) -> int:
    """Dimensions of u: latent variables and projections."""
    return sum(layer.noise_dim for layer in model.layers[:-1] if layer.kind in ("lv", "linear"))


def _noise(model: DeepGP, u: tf.Tensor, key) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Noise of all layers (noise_dim, C), and w (dim, 1, C) of each latent one: u in its places, fresh
    normals for GPs between."""
    parts, w, row, C = [], [], 0, u.shape[1]
    for i, layer in enumerate(model.layers[:-1]):
        if layer.kind in ("lv", "linear"):
            own = u[row : row + layer.noise_dim]
            row += layer.noise_dim
        else:
            own = tf.random.stateless_normal((layer.noise_dim, C), fold(key, i), dtype=u.dtype, alg="philox")
        parts.append(own)
        if layer.kind == "lv":
            w.append(own[:, None, :])
    rest = model.noise_dim - sum(part.shape[0] for part in parts)
    return tf.concat([*parts, tf.zeros((rest, C), u.dtype)], 0), w


# ---- the density given u --------------------------------------------------------------------------------


def output_density(model: DeepGP, prepared: dict, Y: tf.Tensor) -> Callable:
    """log p(y | m, v) (K R,) as a function of the last GPs' moments (G, K R) and K, for Y (P, R)."""
    p, last = prepared["likelihood"], model.layers[-1]
    if not last.mixed:
        return lambda mean, var, K: model.likelihood.log_density(p, mean, var, tf.tile(Y, (1, K)))
    P = prepared[f"layer{len(model.layers) - 1}"].mixing["P"]
    gram, seen, squares = tf.matmul(P, P, transpose_a=True), tf.matmul(P, Y, transpose_a=True), tf.square(Y)
    facts = gram, seen, tf.reduce_sum(squares, 0), P.shape[0], p["variance"]

    def log_p(mean, var, K):
        gram, seen, squares, outputs, noise = facts
        return log_mixed(mean, var, gram, tf.tile(seen, (1, K)), tf.tile(squares, [K]), outputs, noise)

    return log_p


def log_mixed(mean, var, gram, seen, squares, outputs: int, noise) -> tf.Tensor:
    """log N(y; P m, P diag(v) P^T + noise I) (C,) from m, v (G, C), P^T P (G, G), P^T y (G, C), |y|^2 (C,) by
    Woodbury's identity: matrices of G x G in place of outputs x outputs."""
    along = tf.matmul(gram, mean)
    error = squares - tf.reduce_sum(mean * (2.0 * seen - along), 0)
    root = tf.transpose(tf.sqrt(tf.maximum(var, 0.0)))  # C, G
    b = root * tf.transpose(seen - along) / noise
    eye = tf.eye(gram.shape[0], dtype=mean.dtype)

    def factored(given) -> tf.Tensor:
        root, b = given
        L = tf.linalg.cholesky(eye + root[:, :, None] * gram * root[:, None, :] / noise)
        explained = tf.reduce_sum(tf.square(tf.linalg.triangular_solve(L, b[:, :, None])[:, :, 0]), 1)
        return explained - 2.0 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(L)), 1)

    found = _in_pieces(factored, (root, b), error.shape[0])
    return -0.5 * (outputs * (LOG_2PI + tf.math.log(noise)) + error / noise - found)


def _in_pieces(function: Callable, given: tuple[tf.Tensor, ...], count: int) -> tf.Tensor:
    """function(given) (C,) of arrays with C rows, PIECE at a time: its matrices stay in the cache."""
    pieces = -(-count // PIECE)
    padding = ((0, pieces * PIECE - count), (0, 0))
    cut = tuple(tf.reshape(tf.pad(A, padding), (pieces, PIECE, -1)) for A in given)
    out = tf.map_fn(function, cut, fn_output_signature=given[0].dtype, parallel_iterations=1)
    return tf.reshape(out, (-1,))[:count]


# ---- proposals ------------------------------------------------------------------------------------------


def adapted_terms(log_p: Callable, dim: int, R: int, samples: int, key, dtype) -> tf.Tensor:
    """Logs (S, R) of terms whose mean is the integral of exp(log_p(u)) N(u; 0, I), with a proposal for each
    row, in random order. log_p(u, stream) maps u (dim, K, R) to (K, R); `stream` names random numbers."""

    def normals(K: int, stream) -> tf.Tensor:
        return tf.random.stateless_normal((dim, K, R), fold(key, 1000 + stream), dtype=dtype, alg="philox")

    if not dim:
        return log_p(tf.zeros((0, samples, R), dtype), 0)

    def stage(number, mean, root, _):
        u = _drawn(mean, root, normals(EACH[0] + EACH[1] * dim, number))
        mean, root, power = _fitted(u, log_p(u, number) + log_prior(u) - _log_gaussian(u, mean, root))
        return number + 1, mean, root, tf.reduce_all(power == 1.0)

    u = normals(FIRST, 0)
    begin = (tf.constant(1), *_fitted(u, log_p(u, 0))[:2], tf.constant(False))
    _, mean, root, _ = tf.while_loop(lambda *at: ~at[-1], stage, begin, maximum_iterations=STAGES)
    parts, counts = [], _shared(samples)
    for i, (count, factor) in enumerate(zip(counts, (*WIDER, None), strict=True)):
        eps = normals(count, 500 + i)
        parts.append(eps if factor is None else _drawn(mean, math.sqrt(factor) * root, eps))
    u = tf.concat(parts, 1)
    shares = [math.log(count / samples) if count else -math.inf for count in counts]
    each = [_log_gaussian(u, mean, math.sqrt(f) * root) for f in WIDER] + [log_prior(u)]
    log_q = tf.reduce_logsumexp(tf.stack([a + b for a, b in zip(shares, each, strict=True)]), 0)
    terms = tf.transpose(log_p(u, STAGES + 1) + log_prior(u) - log_q)  # R, S
    # in any order: the Monte Carlo error follows a draw by its index, whose part of the proposal is no chance
    lots = tf.random.stateless_uniform((R, samples), fold(key, 999), alg="philox")
    return tf.transpose(tf.gather(terms, tf.argsort(lots), batch_dims=1))


def _shared(samples: int) -> list[int]:
    """Draws of each part of the proposal, at least one where there are as many."""
    wide, prior = (min(samples // 3, max(1, round(share * samples))) for share in SHARES[1:])
    return [samples - wide - prior, wide, prior]


def _fitted(u: tf.Tensor, log_weight: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Mean (dim, R) and lower root (R, dim, dim) of weighted draws u (dim, K, R), and the power (R,) by which
    the weights were flattened."""
    dim, K, _ = u.shape
    power = _flattening(log_weight, ENOUGH * K)
    weight = tf.nn.softmax(power * log_weight, 0)  # K, R
    effective = 1.0 / tf.reduce_sum(tf.square(weight), 0)
    mean = tf.reduce_sum(weight * u, 1)
    apart = (u - mean[:, None, :]) * tf.sqrt(weight)
    cov = tf.einsum("dkr,ekr->rde", apart, apart)
    keep = (effective / (effective + dim))[
        :, None, None
    ]  # few draws say little of how dimensions hang together
    diagonal = tf.linalg.diag(tf.linalg.diag_part(cov))
    cov = keep * cov + (1.0 - keep) * diagonal + 1e-8 * tf.eye(dim, dtype=u.dtype)
    return mean, tf.linalg.cholesky(cov), power


def _flattening(log_weight: tf.Tensor, wanted: float) -> tf.Tensor:
    """The largest power of the weights (R,), at most 1, that leaves so many of the draws effective."""

    def halve(low, high):
        middle = 0.5 * (low + high)
        effective = 1.0 / tf.reduce_sum(tf.square(tf.nn.softmax(middle * log_weight, 0)), 0)
        return tf.where(effective > wanted, middle, low), tf.where(effective > wanted, high, middle)

    ends = tf.zeros_like(log_weight[0]), tf.ones_like(log_weight[0])  # the upper stays 1 where that is enough
    return tf.while_loop(lambda *at: True, halve, ends, maximum_iterations=HALVINGS)[1]


def _drawn(mean: tf.Tensor, root: tf.Tensor, eps: tf.Tensor) -> tf.Tensor:
    return mean[:, None, :] + tf.einsum("rde,ekr->dkr", root, eps)


def _log_gaussian(u: tf.Tensor, mean: tf.Tensor, root: tf.Tensor) -> tf.Tensor:
    """log N(u; mean, root root^T) (K, R)."""
    apart = tf.transpose(u - mean[:, None, :], (2, 0, 1))  # R, dim, K
    white = tf.linalg.triangular_solve(root, apart)
    log_det = tf.reduce_sum(tf.math.log(tf.abs(tf.linalg.diag_part(root))), 1)  # R
    return -0.5 * tf.transpose(tf.reduce_sum(tf.square(white), 1)) - log_det - 0.5 * u.shape[0] * LOG_2PI
