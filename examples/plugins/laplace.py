"""Laplace noise as a likelihood: `dgpbench run --config-dir examples/plugins likelihood=laplace`."""

import math
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from dgpbench.config.schema import POSITIVE
from dgpbench.gp.likelihoods.base import Likelihood, likelihood


@likelihood("laplace")
@dataclass(frozen=True)
class Laplace(Likelihood):
    """p(y | f) = exp(-|y - f| / scale) / (2 scale), with a trained scale. Expectation in closed form."""

    scale: float = 1.0  # initial value, from likelihood/laplace.yaml
    tasks = ("regression",)
    link = "identity"
    fields = {"scale": POSITIVE}
    positive = ("scale",)  # trained, and kept above zero

    def initial(self):
        return {"scale": np.asarray(float(self.scale))}

    def log_prob(self, p, F, Y):
        scale = p["scale"]
        return -tf.abs(Y - F) / scale - tf.math.log(2.0 * scale)

    def variational_expectations(self, p, mean, var, Y, noise=None):
        """E|y - f| of a Gaussian f is the mean of a folded normal distribution."""
        sd = tf.sqrt(tf.maximum(var, 1e-12))
        z = (Y - mean) / sd
        folded = sd * math.sqrt(2.0 / math.pi) * tf.exp(-0.5 * z * z) + (Y - mean) * tf.math.erf(
            z / math.sqrt(2.0)
        )
        return tf.reduce_sum(-folded / p["scale"] - tf.math.log(2.0 * p["scale"]), 0)

    def draw(self, p, F, rng):
        return F + rng.laplace(0.0, p["scale"], F.shape)
