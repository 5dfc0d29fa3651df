"""Deep ensemble (Lakshminarayanan et al., 2017): networks that differ in their start, as a mixture.

Each member gives mean and variance of a Gaussian at x and is trained by maximum likelihood. Members share the
minibatches and nothing else: Adam moves each parameter by its own gradient, so that training them as one is
training them one by one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dgpbench.config.schema import COUNT
from dgpbench.config.sections import hidden_sizes, option
from dgpbench.engine.platform import tf
from dgpbench.evaluate.predictive import Predictive
from dgpbench.gp.parameters import scope
from dgpbench.models.baselines.mdn import MixtureDensityNetwork
from dgpbench.models.baselines.neural import PREDICT_COLUMNS, Network, NeuralModel


@dataclass(frozen=True)
class Ensemble(Network):
    """Members with one Gaussian each; the bound is the mean of their log-likelihoods."""

    members: int = 5
    hidden: tuple[int, ...] = ()

    @property
    def member(self) -> MixtureDensityNetwork:
        return MixtureDensityNetwork(dim=self.dim, outputs=self.outputs, components=1, hidden=self.hidden)

    def describe(self) -> str:
        widths = " -> ".join(map(str, (self.dim, *self.hidden, 2 * self.outputs)))
        return f"{self.members} networks {widths}"

    def initial(self, rng: np.random.RandomState) -> dict[str, np.ndarray]:
        starts = [self.member.initial(rng) for _ in range(self.members)]
        return {f"member{i}/{name}": value for i, start in enumerate(starts) for name, value in start.items()}

    def moments(self, p: dict[str, tf.Tensor], X: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Means and variances (members, P, B)."""
        found = [self.member.mixture(scope(p, f"member{i}"), X) for i in range(self.members)]
        return tf.concat([mean for _, mean, _ in found], 0), tf.concat([var for _, _, var in found], 0)

    def terms(self, p: dict[str, tf.Tensor], X, Y, noise) -> tf.Tensor:
        """Mean over members of log p(y | x) (B,)."""
        each = [self.member.terms(scope(p, f"member{i}"), X, Y, noise) for i in range(self.members)]
        return tf.add_n(each) / self.members


class DeepEnsemble(NeuralModel):
    """An equally weighted mixture of the members' Gaussians."""

    def __init__(self, cfg: dict):
        self.members = option(cfg, "members", COUNT)
        self.hidden = hidden_sizes(cfg)
        super().__init__(cfg)

    def network(self, dim: int, outputs: int) -> Ensemble:
        return Ensemble(dim=dim, outputs=outputs, members=self.members, hidden=self.hidden)

    def predict(self, X: np.ndarray, samples: int, seed: int) -> Predictive:
        """The mixture as it is: nothing is sampled."""
        p = self.tensors()
        outputs = (p[f"member0/network/b{len(self.hidden)}"].shape[0] - 1) // 2
        network, rows = self.network(X.shape[1], outputs), max(1, PREDICT_COLUMNS // self.members)
        parts = [network.moments(p, tf.transpose(X[i : i + rows])) for i in range(0, len(X), rows)]
        mean, var = (np.concatenate(arrays, -1).transpose(0, 2, 1) for arrays in zip(*parts, strict=True))
        return Predictive(mean=mean, var=var, log_weights=np.full(mean.shape[:2], -math.log(self.members)))
