"""The predictive density of a model with one one-dimensional latent variable, by quadrature over it.

A mixture over draws of w from its prior needs a draw near every observation. Where the noise is small and an
observation lies in a tail, thousands of draws have none, and the log density is far too low, by an amount
that no standard error shows. For fixed noise eps_s in the inner layers the moments of f are smooth in w:
    p(y | x) = 1/S sum_s of the integral of p(y | m(w, eps_s), v(w, eps_s)) p(w) dw,
each by the adaptive rule of gp/quadrature.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import tensorflow as tf

from dgpbench.gp import latent, quadrature
from dgpbench.gp.deep_gp import DeepGP
from dgpbench.inference.base import Bound

NODES = 128
COLUMNS = 40_000  # points times samples times nodes that pass through the layers at once


def possible(model: DeepGP) -> bool:
    """One latent variable of one dimension, outputs that are independent given it, p(y | m, v) exact."""
    one = [model.layers[i].dim for i in model.latent] == [1]
    return one and not model.layers[-1].mixed and model.likelihood.exact_density


def log_density(
    bound: Bound, prepared: dict, X: np.ndarray, Y: np.ndarray, samples: int, seed: int
) -> np.ndarray:
    """log of each of the S integrals at the rows of X (N, D), Y (N, P): (S, N); their mean is the density."""
    samples = samples if bound.model.noise_dim > 1 else 1  # nothing but w to integrate over
    rows = max(1, COLUMNS // (samples * NODES))
    out = []
    for block, start in enumerate(range(0, len(X), rows)):
        part = [np.concatenate([A[start : start + rows], A[:1].repeat(rows, 0)])[:rows] for A in (X, Y)]
        value = _compiled(bound, samples)(prepared, *part, tf.constant([seed, block]))
        out.append(value.numpy()[:, : len(X) - start])
    return np.concatenate(out, 1)


@lru_cache(maxsize=8)
def _compiled(bound: Bound, samples: int):
    model = bound.model

    @tf.function(reduce_retracing=True)
    def run(prepared, X, Y, seed):
        N = X.shape[0]
        Xs, Ys = (tf.tile(tf.transpose(A), (1, samples)) for A in (X, Y))  # D, C with C = S N
        shape = (model.noise_dim, samples * N)
        noise = tf.cast(tf.random.stateless_normal(shape, seed, dtype=tf.float32, alg="philox"), Xs.dtype)

        def moments(w):  # of f: P, K C for w (1, K, C)
            K = w.shape[1]
            return bound.moments(prepared, Xs, tf.tile(noise, (1, K)), [w], K, joint=False)

        def log_p(y, mean, var):
            return model.likelihood.log_density(prepared["likelihood"], mean, var, y)

        return tf.reshape(integrate(moments, Ys, log_p), (samples, N))

    return run


def integrate(moments: Callable, Y: tf.Tensor, log_p: Callable | None = None) -> tf.Tensor:
    """log of the integral of p(y; moments(w)) p(w) dw for each column of Y (P, C): (C,).

    `moments` maps w (1, K, C) to a mean and a variance (P, K C), and log_p(y, mean, var) sums log p over
    outputs; None: the moments are those of a Gaussian y.
    """
    log_p = log_p or _log_normal
    C = Y.shape[1]
    grid = tf.constant(quadrature.coarse_grid(NODES), Y.dtype)[None, :, None]
    w, log_weight = quadrature.place(
        *moments(tf.tile(grid, (1, 1, C))),
        lambda m, v, w: log_p(Y[:, None], m, v) - 0.5 * w * w,
        NODES,
    )
    mean, var = (tf.reshape(a, (-1, NODES, C)) for a in moments(w[None]))  # P, K, C
    terms = log_p(Y[:, None], mean, var) + latent.log_prior(w[None]) + log_weight
    return tf.reduce_logsumexp(terms, 0)


def _log_normal(y: tf.Tensor, mean: tf.Tensor, var: tf.Tensor) -> tf.Tensor:
    """log N(y; mean, var) summed over outputs (the first axis)."""
    each = math.log(2.0 * math.pi) + tf.math.log(var) + tf.square(y - mean) / var
    return -0.5 * tf.reduce_sum(each, 0)
