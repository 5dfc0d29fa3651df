"""Likelihoods of labels and counts with one function each: Bernoulli, Poisson, Ordinal."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from dgpbench.gp.likelihoods.base import NODES, Likelihood, hermite_mean, log_phi, phi


@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """p(y = 1 | f) = epsilon + (1 - 2 epsilon) Phi(f), labels 0 and 1: the probit link.

    A share of wrong labels epsilon bounds what one row can cost; GPflow has 1e-3, 0 is the plain probit.
    """

    epsilon: float = 1e-3
    name = "bernoulli"
    discrete = True

    @property
    def log_concave(self) -> bool:  # type: ignore[override]  # depends on epsilon here
        return self.epsilon == 0

    def log_prob(self, p, F, Y) -> tf.Tensor:
        z = (2.0 * Y - 1.0) * F
        if self.epsilon == 0:
            return log_phi(z)
        return tf.math.log(self.epsilon + (1.0 - 2.0 * self.epsilon) * phi(z))

    def probs(self, p, mean, var, noise=None) -> tf.Tensor:
        """Probabilities of the classes 0 and 1 (2, B), in closed form."""
        z = mean / tf.sqrt(1.0 + tf.maximum(var, 0.0))
        return self.epsilon + (1.0 - 2.0 * self.epsilon) * phi(tf.concat([-z, z], 0))


@dataclass(frozen=True)
class BernoulliLogit(Likelihood):
    """p(y = 1 | f) = 1 / (1 + exp(-f)), labels 0 and 1."""

    name = "bernoulli_logit"
    discrete = True

    def log_prob(self, p, F, Y) -> tf.Tensor:
        return -tf.math.softplus((1.0 - 2.0 * Y) * F)

    def probs(self, p, mean, var, noise=None) -> tf.Tensor:
        """Probabilities of the classes 0 and 1 (2, B), by quadrature."""
        both = tf.concat([-mean, mean], 0)
        each = hermite_mean(tf.sigmoid, both, tf.concat([var, var], 0), 4 * NODES)
        return each / tf.reduce_sum(each, 0)


@dataclass(frozen=True)
class Poisson(Likelihood):
    """Counts y of rate b exp(f), b the size of a bin. Expectation in closed form."""

    bin_size: float = 1.0
    name = "poisson"
    fixed = ("bin_size",)
    discrete = True

    def initial(self) -> dict[str, np.ndarray]:
        return {"bin_size": np.asarray(float(self.bin_size))}

    def encode(self, Y) -> tf.Tensor:
        return tf.math.log1p(Y)

    def log_prob(self, p, F, Y) -> tf.Tensor:
        F = F + math.log(self.bin_size)
        return Y * F - tf.exp(F) - tf.math.lgamma(Y + 1.0)

    def variational_expectations(self, p, mean, var, Y, noise=None) -> tf.Tensor:
        mean = mean + math.log(self.bin_size)
        return tf.reduce_sum(Y * mean - tf.exp(mean + 0.5 * var) - tf.math.lgamma(Y + 1.0), 0)

    def draw(self, p, F, rng) -> np.ndarray:
        return rng.poisson(np.minimum(self.bin_size * np.exp(F), 2.0**62)).astype(np.float64)


@dataclass(frozen=True)
class Ordinal(Likelihood):
    """Levels 0 .. levels - 1: p(y <= k | f) = Phi((a_k - f) / sigma), edges a_k evenly from low to high.

    A probit model of ordered classes (Chu and Ghahramani 2005) with edges that are not trained.
    """

    levels: int = 2
    low: float = -2.0
    high: float = 2.0
    sigma: float = 1.0  # first value
    name = "ordinal"
    positive = ("sigma",)
    fixed = ("edges",)
    discrete = True
    exact_density = True

    def initial(self) -> dict[str, np.ndarray]:
        edges = np.linspace(self.low, self.high, self.levels - 1)
        return {"sigma": np.asarray(float(self.sigma)), "edges": edges}

    def encode(self, Y) -> tf.Tensor:
        return 4.0 * Y / (self.levels - 1) - 2.0

    def _bin(self, p, mean, Y, sd) -> tf.Tensor:
        """log of Phi((a_y - mean) / sd) - Phi((a_{y-1} - mean) / sd)."""
        level = tf.cast(tf.round(Y), tf.int32)
        edges = tf.stop_gradient(p["edges"])
        padded = tf.concat([edges[:1] - 1.0, edges, edges[-1:] + 1.0], 0)  # the ends are not used
        below, above = tf.gather(padded, level), tf.gather(padded, level + 1)
        low, high = (below - mean) / sd, (above - mean) / sd  # of the bin
        flip = low > 0.0  # by symmetry no difference of two numbers near 1
        log_high, log_low = log_phi(tf.where(flip, -low, high)), log_phi(tf.where(flip, -high, low))
        gap = tf.minimum(log_low - log_high, -1e-30)  # a bin that rounds to nothing
        inside = log_high + tf.math.log(-tf.math.expm1(gap))
        ends = tf.where(level == 0, high, -low)
        return tf.where((level == 0) | (level == self.levels - 1), log_phi(ends), inside)

    def log_prob(self, p, F, Y) -> tf.Tensor:
        return self._bin(p, F, Y, p["sigma"])

    def log_density(self, p, mean, var, Y, nodes=None) -> tf.Tensor:
        sd = tf.sqrt(tf.square(p["sigma"]) + tf.maximum(var, 0.0))
        return tf.reduce_sum(self._bin(p, mean, Y, sd), 0)

    def draw(self, p, F, rng) -> np.ndarray:
        noisy = F + p["sigma"] * rng.standard_normal(F.shape)
        return np.searchsorted(p["edges"], noisy).astype(np.float64)
