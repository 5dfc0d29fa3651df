"""Likelihoods: the expectation that a bound needs and the moments that a prediction needs.

Every likelihood works on (P, B) arrays: P outputs in rows, B points in columns.
"""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf


class Gaussian:
    """p(y | f) = N(y; f, sigma^2), one sigma^2 for all outputs."""

    name = "gaussian"
    log_concave = True  # natural-gradient steps in the natural parameters then stay positive definite

    def initial(self, variance: float) -> dict[str, np.ndarray]:
        return {"variance": np.asarray(float(variance))}

    def variational_expectations(self, p, mean: tf.Tensor, var: tf.Tensor, Y: tf.Tensor) -> tf.Tensor:
        """E_{N(f; mean, var)} log p(y | f), summed over outputs: (B,)."""
        v = p["variance"]
        each = -0.5 * (math.log(2.0 * math.pi) + tf.math.log(v) + (tf.square(Y - mean) + var) / v)
        return tf.reduce_sum(each, 0)

    def predict_mean_and_var(self, p, mean: tf.Tensor, var: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and variance of y given a Gaussian f."""
        return mean, var + p["variance"]


LIKELIHOODS = {"gaussian": Gaussian()}
