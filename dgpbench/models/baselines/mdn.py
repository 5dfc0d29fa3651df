"""Mixture density network (Bishop, 1994): a network gives weights, means and variances of Gaussians at x.

The baseline MDN-k of thesis table 4.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dgpbench.config.schema import COUNT
from dgpbench.config.sections import hidden_sizes, option
from dgpbench.engine.platform import tf
from dgpbench.evaluate.predictive import Predictive
from dgpbench.gp import networks
from dgpbench.gp.parameters import NOISE, scope
from dgpbench.models.baselines.neural import PREDICT_COLUMNS, Network, NeuralModel

LOG_2PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class MixtureDensityNetwork(Network):
    """x -> k logits, k P means and k P variances; outputs are independent given the component."""

    components: int = 5
    hidden: tuple[int, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.dim, *self.hidden, self.components * (1 + 2 * self.outputs))

    def describe(self) -> str:
        return f"{' -> '.join(map(str, self.sizes))}, {self.components} components"

    def initial(self, rng: np.random.RandomState) -> dict[str, np.ndarray]:
        """Xavier start; the biases of several components' means are spread as standardised targets are."""
        values = networks.initial(self.sizes, rng)
        if self.components > 1:
            k, P = self.components, self.outputs
            values[f"b{len(self.hidden)}"][k : k + k * P] = rng.randn(k * P, 1)
        return {f"network/{name}": value for name, value in values.items()}

    def mixture(self, p: dict[str, tf.Tensor], X: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Log weights (k, B), means and variances (k, P, B); a softplus and a floor keep these positive."""
        k, P = self.components, self.outputs
        out = networks.forward(scope(p, "network"), X)
        shape = (k, P, tf.shape(X)[1])
        mean, raw = tf.reshape(out[k : k + k * P], shape), tf.reshape(out[k + k * P :], shape)
        return tf.nn.log_softmax(out[:k], axis=0), mean, tf.math.softplus(raw) + NOISE.floor

    def terms(self, p: dict[str, tf.Tensor], X, Y, noise) -> tf.Tensor:
        """log p(y | x) itself, exact (B,)."""
        log_weights, mean, var = self.mixture(p, X)
        logp = -0.5 * tf.reduce_sum(LOG_2PI + tf.math.log(var) + (Y - mean) ** 2 / var, 1)  # k, B
        return tf.reduce_logsumexp(log_weights + logp, 0)


class MDN(NeuralModel):
    """Trained by maximum likelihood."""

    def __init__(self, cfg: dict):
        self.components = option(cfg, "components", COUNT)
        self.hidden = hidden_sizes(cfg)
        super().__init__(cfg)

    def network(self, dim: int, outputs: int) -> MixtureDensityNetwork:
        return MixtureDensityNetwork(dim=dim, outputs=outputs, components=self.components, hidden=self.hidden)

    def predict(self, X: np.ndarray, samples: int, seed: int) -> Predictive:
        """The mixture as it is: nothing is sampled."""
        p = self.tensors()
        outputs = (p[f"network/b{len(self.hidden)}"].shape[0] // self.components - 1) // 2
        network = self.network(X.shape[1], outputs)
        rows = max(1, PREDICT_COLUMNS // self.components)
        parts = [network.mixture(p, tf.transpose(X[i : i + rows])) for i in range(0, len(X), rows)]
        log_weights, mean, var = (np.concatenate(arrays, -1) for arrays in zip(*parts, strict=True))
        mean, var = mean.transpose(0, 2, 1), var.transpose(0, 2, 1)  # k, N, P
        return Predictive(mean=mean, var=var, log_weights=log_weights)
