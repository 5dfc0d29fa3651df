"""Expectation propagation for binary classes under a Gaussian prior f = P u + e, u ~ N(0, I), e ~ N(0, rest).

Every row has a site exp(shift f - precision f^2 / 2) in the place of its probit factor. `P` is the root of
the covariance (full GP, rest 0), or that of its low rank part (FITC): the same code at a cost of N M^2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import tensorflow as tf

from dgpbench.gp.likelihoods.base import log_phi, phi

SETTLED = 1e-9  # largest change of a site, relative to 1 + its size, at which the sweeps end
MOST = 500  # sweeps
STEP = 0.9  # share of the way to its new value that a site goes


class Prior(NamedTuple):
    root: tf.Tensor  # P (N, M)
    rest: tf.Tensor  # variances of e (N,)


class Sites(NamedTuple):
    precision: tf.Tensor  # (N,)
    shift: tf.Tensor  # (N,)


class Posterior(NamedTuple):
    """q given the sites: moments of each f_n, and q(u) = N(L^-T c, L^-T L^-1)."""

    mean: tf.Tensor
    var: tf.Tensor
    L: tf.Tensor  # (M, M)
    c: tf.Tensor  # (M,)


def posterior(prior: Prior, sites: Sites) -> Posterior:
    gain = 1.0 / (1.0 + prior.rest * sites.precision)
    scaled = (gain * sites.precision)[:, None] * prior.root
    eye = tf.eye(tf.shape(prior.root)[1], dtype=prior.root.dtype)
    L = tf.linalg.cholesky(eye + tf.matmul(prior.root, scaled, transpose_a=True))
    A = tf.linalg.triangular_solve(L, tf.transpose(prior.root))
    c = tf.linalg.matvec(A, gain * sites.shift)
    mean = gain * (tf.linalg.matvec(A, c, transpose_a=True) + prior.rest * sites.shift)
    var = gain * (prior.rest + gain * tf.reduce_sum(tf.square(A), 0))
    return Posterior(mean, var, L, c)


def cavity(q: Posterior, sites: Sites) -> tuple[tf.Tensor, tf.Tensor]:
    """Moments of each q(f_n) without its own site."""
    var = 1.0 / (1.0 / q.var - sites.precision)
    return var * (q.mean / q.var - sites.shift), var


def tilted(mean: tf.Tensor, var: tf.Tensor, sign: tf.Tensor, epsilon: float) -> tuple[tf.Tensor, ...]:
    """log Z of N(f; mean, var) p(y | f), and its first and negative second derivative in the mean."""
    spread = tf.sqrt(1.0 + var)
    z = sign * mean / spread
    log_Z = tf.math.log(epsilon + (1.0 - 2.0 * epsilon) * phi(z)) if epsilon else log_phi(z)
    height = -0.5 * tf.square(z) - 0.5 * math.log(2.0 * math.pi) + math.log1p(-2.0 * epsilon)
    slope = sign * tf.exp(height - log_Z) / spread
    return log_Z, slope, slope * (slope + mean / (1.0 + var))


def renewed(prior: Prior, sites: Sites, sign: tf.Tensor, epsilon: float) -> Sites:
    """The sites that match the moments of their tilted distributions, all at once. One whose cavity is no
    distribution stays."""
    mean, var = cavity(posterior(prior, sites), sites)
    _, slope, curvature = tilted(mean, var, sign, epsilon)
    left = 1.0 - var * curvature
    new = Sites(curvature / left, (slope + mean * curvature) / left)
    proper = (var > 0.0) & (left > 0.0)
    return Sites(*(tf.where(proper, b, a) for a, b in zip(sites, new, strict=True)))


def change(old: Sites, new: Sites) -> tf.Tensor:
    """The largest change of a site, relative to 1 + its size."""
    parts = [tf.reduce_max(tf.abs(b - a) / (1.0 + tf.abs(a))) for a, b in zip(old, new, strict=True)]
    return tf.maximum(*parts)


def settle(prior: Prior, sites: Sites, sign: tf.Tensor, epsilon: float) -> Sites:
    """Sites at the fixed point. A sweep that moves them further than the one before shortens the next."""

    def body(sites, before, step):
        new = renewed(prior, sites, sign, epsilon)
        moved = change(sites, new)
        step = tf.where(moved > before, tf.maximum(tf.cast(0.1, step.dtype), 0.7 * step), step)
        return Sites(*(a + step * (b - a) for a, b in zip(sites, new, strict=True))), moved, step

    def moving(sites, moved, step):
        return moved > SETTLED

    dtype = prior.root.dtype
    start = sites, tf.constant(math.inf, dtype), tf.constant(STEP, dtype)
    return tf.while_loop(moving, body, start, maximum_iterations=MOST)[0]


def log_evidence(prior: Prior, sites: Sites, sign: tf.Tensor, epsilon: float) -> tf.Tensor:
    """EP's log p(y). Its gradient in the prior holds the sites and cavities: exact at the fixed point."""
    q = posterior(prior, sites)
    own = 1.0 + prior.rest * sites.precision
    joint = 0.5 * tf.reduce_sum(tf.square(q.c)) - tf.reduce_sum(tf.math.log(tf.linalg.diag_part(q.L)))
    joint += 0.5 * tf.reduce_sum(prior.rest * tf.square(sites.shift) / own - tf.math.log(own))
    mean, var = cavity(q, sites)
    log_Z, _, _ = tilted(mean, var, sign, epsilon)
    each = log_Z + _log_normaliser(mean, var) - _log_normaliser(q.mean, q.var)
    return joint + tf.stop_gradient(tf.reduce_sum(each))


def _log_normaliser(mean: tf.Tensor, var: tf.Tensor) -> tf.Tensor:
    return 0.5 * (tf.square(mean) / var + tf.math.log(var))
