"""Likelihoods of real targets: Gaussian, Student-t, Gamma, Beta.

A parameter is used at most twice in each, so that no more than two gradients are added (gp/kernels).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from dgpbench.gp.likelihoods.base import LOG_2PI, Likelihood


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """p(y | f) = N(y; f, sigma^2), one sigma^2 for all outputs. Expectation in closed form."""

    variance: float = 0.01  # first value
    name = "gaussian"
    positive = ("variance",)
    exact_density = True

    def initial(self) -> dict[str, np.ndarray]:
        return {"variance": np.asarray(float(self.variance))}

    def variational_expectations(self, p, mean, var, Y, noise=None) -> tf.Tensor:
        v = p["variance"]
        each = -0.5 * (LOG_2PI + tf.math.log(v) + (tf.square(Y - mean) + var) / v)
        return tf.reduce_sum(each, 0)

    def log_density(self, p, mean, var, Y, nodes=None) -> tf.Tensor:
        v = var + p["variance"]
        return -0.5 * tf.reduce_sum(LOG_2PI + tf.math.log(v) + tf.square(Y - mean) / v, 0)

    def log_power(self, p, mean, var, Y, alpha: float, noise=None) -> tf.Tensor:
        """In closed form: N(y; f, s2)^alpha is N(y; f, s2 / alpha) times a constant."""
        s2 = p["variance"]
        v = var + s2 / alpha
        each = -0.5 * (LOG_2PI + tf.math.log(v) + tf.square(Y - mean) / v)
        constant = 0.5 * (1.0 - alpha) * (LOG_2PI + tf.math.log(tf.identity(s2))) - 0.5 * math.log(alpha)
        return tf.reduce_sum(each + constant, 0)


@dataclass(frozen=True)
class StudentT(Likelihood):
    """y = f + scale t, with t of Student's distribution with `df` degrees of freedom."""

    df: float = 3.0
    scale: float = 1.0  # first value
    name = "student_t"
    positive = ("scale",)
    log_concave = False

    def initial(self) -> dict[str, np.ndarray]:
        return {"scale": np.asarray(float(self.scale))}

    def log_prob(self, p, F, Y) -> tf.Tensor:
        df, scale = self.df, p["scale"]
        constant = math.lgamma(0.5 * (df + 1.0)) - math.lgamma(0.5 * df) - 0.5 * math.log(df * math.pi)
        tail = 0.5 * (df + 1.0) * tf.math.log1p(tf.square((Y - F) / scale) / df)
        return constant - tf.math.log(scale) - tail

    def draw(self, p, F, rng) -> np.ndarray:
        return F + p["scale"] * rng.standard_t(self.df, F.shape)


@dataclass(frozen=True)
class Gamma(Likelihood):
    """y of a Gamma distribution with a shape that is trained and scale exp(f). Expectation in closed form."""

    shape: float = 1.0  # first value
    name = "gamma"
    positive = ("shape",)

    def initial(self) -> dict[str, np.ndarray]:
        return {"shape": np.asarray(float(self.shape))}

    def log_prob(self, p, F, Y) -> tf.Tensor:
        return self._log_prob(p, F, tf.exp(-F), Y)

    def variational_expectations(self, p, mean, var, Y, noise=None) -> tf.Tensor:
        once = tf.identity(mean)
        return tf.reduce_sum(self._log_prob(p, mean, tf.exp(0.5 * var - once), Y), 0)

    def _log_prob(self, p, F, inverse_scale, Y) -> tf.Tensor:
        log_y = tf.math.log(Y)
        return p["shape"] * (log_y - F) - tf.math.lgamma(p["shape"]) - log_y - Y * inverse_scale

    def draw(self, p, F, rng) -> np.ndarray:
        return rng.gamma(p["shape"], np.exp(F))


@dataclass(frozen=True)
class Beta(Likelihood):
    """y in (0, 1) of a Beta distribution of mean m = 1 / (1 + exp(-f)): alpha = s m, beta = s (1 - m)."""

    scale: float = 1.0  # first value of s
    name = "beta"
    positive = ("scale",)
    log_concave = False

    def initial(self) -> dict[str, np.ndarray]:
        return {"scale": np.asarray(float(self.scale))}

    def log_prob(self, p, F, Y) -> tf.Tensor:
        s = p["scale"]
        both = tf.stack([F, -F])
        log_m = -tf.math.softplus(-both)  # log m, log(1 - m)
        concentration = s * tf.exp(log_m)  # alpha, beta
        log_y = tf.reshape(
            tf.stack([tf.math.log(Y), tf.math.log1p(-Y)]), (2, *[1] * (F.shape.rank - Y.shape.rank), *Y.shape)
        )
        # -lgamma(a) = log a - lgamma(1 + a), which stays finite where m rounds to 0 or 1
        each = log_m - tf.math.lgamma(1.0 + concentration) + (concentration - 1.0) * log_y
        once = tf.identity(s)
        return tf.reduce_sum(each, 0) + tf.math.lgamma(once) + 2.0 * tf.math.log(once)

    def draw(self, p, F, rng) -> np.ndarray:
        tiny = np.finfo(float).tiny  # the smallest parameter that numpy takes
        m = np.exp(-np.logaddexp(0.0, -F)), np.exp(-np.logaddexp(0.0, F))
        return rng.beta(*(np.maximum(p["scale"] * part, tiny) for part in m))
