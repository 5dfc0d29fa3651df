"""The predictive density of a model with one one-dimensional latent variable, by quadrature over it.

A mixture over draws of w from its prior needs a draw near every observation. Where the noise is small and an
observation lies in a tail, thousands of draws have none, and the log density is far too low, by an amount
that no standard error shows. For fixed noise eps_s in the inner layers the moments of f are smooth in w:
    p(y | x) = 1/S sum_s of the integral of p(y | m(w, eps_s), v(w, eps_s)) p(w) dw.
Of each term m and v are computed on a coarse grid of w. It shows where the integrand has its mass, however
narrow, and panels of Gauss-Legendre nodes are put there. m and v at these are read from splines through the
coarse grid where these agree with splines through half of it, else computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import tensorflow as tf

from dgpbench.gp import latent
from dgpbench.gp.deep_gp import DeepGP
from dgpbench.inference.base import Bound
from dgpbench.models import latent_curve
from dgpbench.models.latent_curve import Curve, Ways

SAMPLES = 128  # of latent variables for one of the inner layers
COLUMNS = 40_000  # rows times samples times SAMPLES that share a block and its noise
FEW, NUMBERS = 16, 4_000_000  # outputs above which blocks are smaller, of so many means on the fine grid
COARSE = 65  # values of w at which m and v are known, where no fewer will do
PANELS, PANEL = 64, 2  # panels, and Gauss-Legendre nodes in each
FINE = 1024  # cells of the grid on which the mass is looked for
FLATTEN = 0.1  # panels follow (mass density)^0.1, so that the flanks of a peak are covered too
SPARE = 1e-3  # share of the panels' density that is spread evenly
DOUBT = 0.1  # nats between splines through all and through half of the nodes: the former's error is a 100th
NEAR = 10.0  # nats below the largest node: what is lower adds nothing to the integral

# Of computing m and v, with the number of coarse nodes, each where the one before is in doubt: all layers but
# the first GP at the coarse nodes only; the same at the panels too; all layers at both.
EXACT = ("propagated", COARSE)
WAYS = (*(("splines", count) for count in latent_curve.NODES), ("curve", COARSE), EXACT)


def possible(model: DeepGP) -> bool:
    """One latent variable of one dimension, outputs that are independent given it, p(y | m, v) exact."""
    one = [model.layers[i].dim for i in model.latent] == [1]
    return one and not model.layers[-1].mixed and model.likelihood.exact_density


def log_density(
    bound: Bound, prepared: dict, X: np.ndarray, Y: np.ndarray, samples: int, seed: int
) -> np.ndarray:
    """log of each of the S integrals at the rows of X (N, D), Y (N, P): (S, N); their mean is the density.

    `samples` is the number of samples of w that the protocol asks for; S is a SAMPLES-th of it.
    """
    inner = max(1, samples // SAMPLES) if bound.model.noise_dim > 1 else 1  # nothing but w to integrate over
    rows = max(1, COLUMNS // (inner * SAMPLES))
    if Y.shape[1] > FEW:
        rows = max(1, min(rows, NUMBERS // (inner * FINE * Y.shape[1])))
    ways = Ways(WAYS if latent_curve.possible(bound) else (EXACT,))
    out = []
    for block, start in enumerate(range(0, len(X), rows)):
        part = [np.concatenate([A[start : start + rows], A[:1].repeat(rows, 0)])[:rows] for A in (X, Y)]
        given = (prepared, *part, tf.constant([seed, block]))
        value = ways.first_good(lambda way, given=given: _compiled(bound, inner, *way)(*given))
        out.append(value.numpy()[:, : len(X) - start])
    return np.concatenate(out, 1)


@lru_cache(maxsize=8)
def _compiled(bound: Bound, samples: int, way: str, nodes: int):
    """log of the integrals (S, N), by one of WAYS, and how much they are in doubt: up to 1 is good."""
    model = bound.model

    @tf.function(reduce_retracing=True)
    def run(prepared, X, Y, seed):
        N = X.shape[0]
        Xs, Ys = (tf.tile(tf.transpose(A), (1, samples)) for A in (X, Y))  # D, C with C = S N
        shape = (model.noise_dim, samples * N)
        noise = tf.cast(tf.random.stateless_normal(shape, seed, dtype=tf.float32, alg="philox"), Xs.dtype)

        def log_p(y, mean, var):
            return model.likelihood.log_density(prepared["likelihood"], mean, var, y)

        def moments(w):  # of f: P, K C for w (1, K, C)
            K = w.shape[1]
            return bound.moments(prepared, Xs, tf.tile(noise, (1, K)), [w], K, joint=False)

        if way == "propagated":
            return tf.reshape(integrate(moments, Ys, log_p), (samples, N)), tf.zeros((), X.dtype)
        curve = Curve(bound, prepared, X, noise, nodes)

        def by_curve(w):
            places = tf.reshape(w, (-1, samples, N))
            return curve.outputs(places, *curve.at(places))

        if way == "curve":
            return tf.reshape(integrate(by_curve, Ys, log_p), (samples, N)), curve.doubt()
        w = tf.tile(_nodes(nodes, X.dtype)[:, :, None], (1, samples, N))
        known = tf.reshape(tf.concat(curve.outputs(w, *curve.at_nodes()), 0), (-1, nodes, samples * N))
        value, change = integrate_splines(known, Ys, log_p)
        return tf.reshape(value, (samples, N)), tf.maximum(curve.doubt(), change / DOUBT)

    return run


def _nodes(count: int, dtype) -> tf.Tensor:
    return tf.constant(latent_curve.nodes(count)[:, None], dtype)


def integrate(moments: Callable, Y: tf.Tensor, log_p: Callable | None = None) -> tf.Tensor:
    """log of the integral of p(y; moments(w)) p(w) dw for each column of Y (P, C): (C,).

    `moments` maps w (1, K, C) to a mean and a variance (P, K C), and log_p(y, mean, var) sums log p over
    outputs; None: the moments are those of a Gaussian y.
    """
    log_p, C = log_p or _log_normal, Y.shape[1]
    known = tf.concat(moments(tf.tile(_nodes(COARSE, Y.dtype)[None], (1, 1, C))), 0)
    w, log_weight = place(tf.reshape(known, (-1, COARSE, C)), Y, log_p)
    mean, var = (tf.reshape(a, (-1, w.shape[0], C)) for a in moments(w[None]))  # P, K, C
    return _total(log_p(Y[:, None], mean, var), w, log_weight)


def integrate_splines(known: tf.Tensor, Y: tf.Tensor, log_p: Callable) -> tuple[tf.Tensor, tf.Tensor]:
    """The same from means and variances (2 P, Q, C) at Q nodes, and the largest change in nats of the
    integrand, where it counts, when every second node is left to a spline through the others."""
    w, log_weight = place(known, Y, log_p)
    mean, var = tf.split(latent_curve.spline_at(known, tf.transpose(w)), 2)
    value = _total(log_p(Y[:, None], mean, tf.maximum(var, 0.0)), w, log_weight)
    odd = _nodes(known.shape[1], Y.dtype)[1::2]
    found, truth = (
        log_p(
            Y[:, None],
            *(tf.maximum(a, floor) for a, floor in zip(tf.split(both, 2), (-np.inf, 0.0), strict=True)),
        )
        for both in latent_curve.at_odd_nodes(known)
    )
    mass = truth - 0.5 * odd * odd
    counts = mass > tf.reduce_max(mass, 0, keepdims=True) - NEAR
    return value, tf.reduce_max(tf.where(counts, tf.abs(found - truth), 0.0))


def _total(log_p: tf.Tensor, w: tf.Tensor, log_weight: tf.Tensor) -> tf.Tensor:
    return tf.reduce_logsumexp(log_p + latent.log_prior(w[None]) + log_weight, 0)


def place(known: tf.Tensor, Y: tf.Tensor, log_p: Callable) -> tuple[tf.Tensor, tf.Tensor]:
    """Nodes and log weights (PANELS * PANEL, C) for each column, from means and variances (2 P, Q, C)."""
    dtype = known.dtype
    u, spline = _fine_grid(known.shape[1])
    mean, var = tf.split(tf.einsum("fq,pqc->pfc", tf.constant(spline, dtype), known), 2)
    w = tf.constant(latent_curve.to_w(u)[:, None], dtype)
    slope = tf.constant(np.log(np.cosh(latent_curve.BEND * u))[:, None], dtype)  # of w in u
    log_mass = log_p(Y[:, None], mean, tf.maximum(var, 0.0)) - 0.5 * w * w + slope
    density = tf.exp(FLATTEN * (log_mass - tf.reduce_max(log_mass, 0, keepdims=True)))  # F, C
    density = density / tf.reduce_sum(density, 0, keepdims=True) + SPARE / FINE
    density = tf.transpose(density)  # C, F
    above = tf.cumsum(density, 1)
    targets = above[:, -1:] * tf.constant(np.linspace(0.0, 1.0, PANELS + 1)[None, 1:-1], dtype)
    cell = tf.minimum(tf.searchsorted(above, targets), FINE - 1)  # C, PANELS - 1
    share = 1.0 - (tf.gather(above, cell, batch_dims=1) - targets) / tf.gather(density, cell, batch_dims=1)
    inner = (tf.cast(cell, dtype) + share) * (2.0 / FINE) - 1.0
    ends = tf.ones_like(inner[:, :1])
    edges = tf.transpose(latent_curve.to_w(tf.concat([-ends, inner, ends], 1)))  # PANELS + 1, C
    x, weight = np.polynomial.legendre.leggauss(PANEL)
    low, size = edges[:-1], edges[1:] - edges[:-1]
    at = low[:, None] + size[:, None] * tf.constant((0.5 * (x + 1.0))[None, :, None], dtype)
    log_weight = tf.math.log(tf.maximum(size, 1e-300))[:, None] + tf.constant(
        np.log(0.5 * weight)[None, :, None], dtype
    )
    return tf.reshape(at, (PANELS * PANEL, -1)), tf.reshape(log_weight, (PANELS * PANEL, -1))


@lru_cache(maxsize=4)
def _fine_grid(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Centres u of the fine grid's cells (FINE,) and the spline from the nodes to them (FINE, nodes)."""
    cells = latent_curve.pieces(nodes)  # cells, powers, nodes
    u = (np.arange(FINE) + 0.5) * (2.0 / FINE) - 1.0
    place = (u + 1.0) * (0.5 * (nodes - 1))
    cell = place.astype(int)
    powers = (place - cell)[:, None] ** np.arange(cells.shape[1])
    return u, np.einsum("fj,fjq->fq", powers, cells[cell])


def _log_normal(y: tf.Tensor, mean: tf.Tensor, var: tf.Tensor) -> tf.Tensor:
    """log N(y; mean, var) summed over outputs (the first axis)."""
    each = math.log(2.0 * math.pi) + tf.math.log(var) + tf.square(y - mean) / var
    return -0.5 * tf.reduce_sum(each, 0)
