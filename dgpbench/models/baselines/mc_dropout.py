"""Dropout at training and at test (Gal and Ghahramani, 2016): y = f(x, masks) + noise of one variance.

Each hidden unit is set to 0 with probability `rate`, anew for each row and sample, and the others are divided
by 1 - rate. Training maximises log p(y | x, masks) - decay / 2 |W|^2 per row, averaged over masks;
predictions average over masks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from dgpbench.config.schema import POSITIVE, Field
from dgpbench.config.sections import hidden_sizes, option
from dgpbench.engine.platform import tf
from dgpbench.evaluate.predictive import Predictive
from dgpbench.gp import networks
from dgpbench.gp.parameters import NOISE, Constraint, scope
from dgpbench.models.baselines.neural import PREDICT_COLUMNS, Network, NeuralModel

LOG_2PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class DropoutNetwork(Network):
    """x -> mean of y, tanh layers with masks between them."""

    hidden: tuple[int, ...] = (50,)
    rate: float = 0.1
    decay: float = 1e-4
    variance: float = 0.05  # of the noise, to start from

    @property
    def noise_dim(self) -> int:
        return sum(self.hidden)

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.dim, *self.hidden, self.outputs)

    def describe(self) -> str:
        return f"{' -> '.join(map(str, self.sizes))}, dropout {self.rate:g}"

    def initial(self, rng: np.random.RandomState) -> dict[str, np.ndarray]:
        values = {f"network/{name}": value for name, value in networks.initial(self.sizes, rng).items()}
        return values | {"likelihood/variance": np.asarray(self.variance)}

    def constraints(self) -> dict[str, Constraint]:
        return {"likelihood/variance": NOISE}

    def mean(self, p: dict[str, tf.Tensor], X: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
        """The mean of y (P, B) under the masks that standard normals (noise_dim, B) make: a unit is dropped
        where its normal lies below the quantile of the rate."""
        weights, H, first = scope(p, "network"), X, 0
        for i, width in enumerate(self.hidden):
            H = tf.tanh(tf.matmul(weights[f"W{i}"], H) + weights[f"b{i}"])
            kept = noise[first : first + width] > ndtri(self.rate)
            H = tf.where(kept, H / (1.0 - self.rate), tf.zeros_like(H))
            first += width
        last = len(self.hidden)
        return tf.matmul(weights[f"W{last}"], H) + weights[f"b{last}"]

    def terms(self, p: dict[str, tf.Tensor], X, Y, noise) -> tf.Tensor:
        """log p(y | x, masks) - decay / 2 |W|^2, one draw of the masks per column (B,)."""
        variance = p["likelihood/variance"]
        residual = Y - self.mean(p, X, noise)
        loglik = -0.5 * tf.reduce_sum(LOG_2PI + tf.math.log(variance) + residual**2 / variance, 0)
        squares = [tf.reduce_sum(p[f"network/W{i}"] ** 2) for i in range(len(self.hidden) + 1)]
        return loglik - 0.5 * self.decay * tf.add_n(squares)


class MCDropout(NeuralModel):
    """Predictions are mixtures over masks."""

    def __init__(self, cfg: dict):
        self.hidden = hidden_sizes(cfg)
        self.rate = option(cfg, "rate", Field(float, above=0, below=1))
        self.decay = option(cfg, "decay", Field(float, low=0))
        self.variance = option(cfg, "likelihood_variance", POSITIVE)
        super().__init__(cfg)

    def network(self, dim: int, outputs: int) -> DropoutNetwork:
        settings = {"rate": self.rate, "decay": self.decay, "variance": self.variance}
        return DropoutNetwork(dim=dim, outputs=outputs, hidden=self.hidden, **settings)

    def predict(self, X: np.ndarray, samples: int, seed: int) -> Predictive:
        """An equally weighted mixture over `samples` draws of the masks, independent for each point."""
        p = self.tensors()
        network = self.network(X.shape[1], p[f"network/b{len(self.hidden)}"].shape[0])
        rows = max(1, PREDICT_COLUMNS // (samples * max(1, network.noise_dim // 50)))
        means = []
        for block, start in enumerate(range(0, len(X), rows)):
            part = X[start : start + rows]
            shape = (network.noise_dim, samples * len(part))
            noise = tf.random.stateless_normal(shape, (seed, block), dtype=tf.float32, alg="philox")
            F = network.mean(p, tf.tile(tf.transpose(part), (1, samples)), tf.cast(noise, tf.float64))
            means.append(F.numpy().reshape(-1, samples, len(part)).transpose(1, 2, 0))  # S, N, P
        mean = np.concatenate(means, 1)
        return Predictive(mean=mean, var=np.full(mean.shape, self.values["likelihood/variance"]))
