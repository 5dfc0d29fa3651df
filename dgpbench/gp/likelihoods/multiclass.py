"""Likelihoods of C classes with one function for each: robust-max and softmax. Y (1, B) holds 0 .. C - 1."""

from __future__ import annotations

import math
from dataclasses import dataclass

import tensorflow as tf

from dgpbench.gp.likelihoods.base import NODES, Likelihood, deviation, hermite_points, phi

SQUASH = 1e-6  # keeps products of distribution functions off 0 and 1, as in GPflow


@dataclass(frozen=True)
class MultiClass(Likelihood):
    """What the two share: one column of labels, C functions."""

    classes: int = 2
    discrete = True

    def gps(self, targets: int) -> int:
        return self.classes

    def targets(self, gps: int) -> int:
        return 1

    def encode(self, Y) -> tf.Tensor:
        return self.one_hot(Y, Y.dtype)

    def one_hot(self, Y: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        """Labels (1, B) as (C, B) zeros and ones."""
        return tf.one_hot(tf.cast(tf.round(Y[0]), tf.int32), self.classes, axis=0, dtype=dtype)


@dataclass(frozen=True)
class RobustMax(MultiClass):
    """p(y | f) = 1 - epsilon where f_y is the largest of f, epsilon / (C - 1) where it is not.

    Its expectation needs only the probability that f_y is the largest, a one-dimensional integral.
    """

    epsilon: float = 1e-3
    name = "robustmax"
    log_concave = False

    def variational_expectations(self, p, mean, var, Y, noise=None) -> tf.Tensor:
        largest = self.prob_is_largest(mean, var, self.one_hot(Y, mean.dtype))
        hit, miss = math.log(1.0 - self.epsilon), math.log(self.epsilon / (self.classes - 1))
        return miss + (hit - miss) * largest

    def log_power(self, p, mean, var, Y, alpha: float, noise=None) -> tf.Tensor:
        """In closed form: p(y | f)^alpha takes two values."""
        largest = self.prob_is_largest(mean, var, self.one_hot(Y, mean.dtype))
        hit, miss = (1.0 - self.epsilon) ** alpha, (self.epsilon / (self.classes - 1)) ** alpha
        return tf.math.log(miss + (hit - miss) * largest)

    def prob_is_largest(self, mean, var, chosen, nodes: int = NODES) -> tf.Tensor:
        """P(f_y > f_c for all c != y) (B,) for independent f (C, B) and y one-hot (C, B)."""
        own_mean, own_var = tf.reduce_sum(chosen * mean, 0), tf.reduce_sum(chosen * var, 0)
        F, weight = hermite_points(own_mean, own_var, nodes)  # K, B
        z = (F[:, None] - mean) / deviation(var)  # K, C, B
        below = phi(z) * (1.0 - 2.0 * SQUASH) + SQUASH
        below = below * (1.0 - chosen) + chosen
        return tf.reduce_sum(weight * tf.reduce_prod(below, 1), 0)

    def probs(self, p, mean, var, noise=None) -> tf.Tensor:
        """Class probabilities (C, B); what the quadrature misses of a sum of one is shared out."""
        eye = tf.eye(self.classes, dtype=mean.dtype)
        each = [
            self.prob_is_largest(mean, var, eye[:, c : c + 1] * tf.ones_like(mean))
            for c in range(self.classes)
        ]
        largest = tf.stack(each)
        largest = largest / tf.reduce_sum(largest, 0)
        miss = self.epsilon / (self.classes - 1)
        return miss + (1.0 - self.epsilon - miss) * largest


@dataclass(frozen=True)
class Softmax(MultiClass):
    """p(y | f) = exp(f_y) / sum_c exp(f_c).

    E f_y is exact, E log sum exp is sampled at a pair f = mean +- sd eps of our own noise. The gradients are
    averages of derivatives in f over the pair, dE/dm = E softmax and dE/dv = E p (1 - p) / 2, unbiased as
    those of the samples are, with less noise, and of the sign that keeps natural-gradient steps valid.
    """

    name = "softmax"

    def noise_rows(self, gps: int) -> int:
        return gps

    def variational_expectations(self, p, mean, var, Y, noise=None) -> tf.Tensor:
        own = tf.reduce_sum(self.one_hot(Y, mean.dtype) * mean, 0)
        return own - _expected_log_sum_exp(tf.identity(mean), var, noise)

    def log_power(self, p, mean, var, Y, alpha: float, noise=None) -> tf.Tensor:
        """At one sample of f: an unbiased estimate before the logarithm, to be averaged over many samples."""
        F = mean + deviation(var) * noise
        return alpha * tf.reduce_sum(self.one_hot(Y, mean.dtype) * tf.nn.log_softmax(F, 0), 0)

    def probs(self, p, mean, var, noise=None) -> tf.Tensor:
        """Class probabilities (C, B) at a pair of samples of f."""
        step = deviation(var) * noise
        return 0.5 * (tf.nn.softmax(mean + step, 0) + tf.nn.softmax(mean - step, 0))


@tf.custom_gradient
def _expected_log_sum_exp(mean, var, noise) -> tf.Tensor:
    """An unbiased estimate of E log sum exp f (B,) under independent N(f; mean, var), all (C, B)."""
    step = deviation(var) * noise
    pair = tf.stack([mean + step, mean - step])  # 2, C, B
    value = 0.5 * tf.reduce_sum(tf.reduce_logsumexp(pair, 1), 0)

    def gradient(g):
        share = tf.nn.softmax(pair, 1)
        d_mean, d_var = tf.reduce_mean(share, 0), 0.5 * tf.reduce_mean(share * (1.0 - share), 0)
        return g * d_mean, g * d_var, None

    return value, gradient
