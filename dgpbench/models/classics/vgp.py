"""The full variational GP: q(f) is any Gaussian over the training rows; bound E log p(y | f) - KL(q || p).

Any likelihood whose expectations GPflow has without sampling.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dgpbench.engine.platform import tf
from dgpbench.evaluate.predictive import Predictive
from dgpbench.gp import likelihoods
from dgpbench.gp.parameters import scope
from dgpbench.models.classics.base import Classic


class VGP(Classic):
    """GPflow's VGP. q(f) is whitened: f = L (q_mu + q_sqrt e), K = L L^T; q_mu (N, P), q_sqrt (P, N, N)."""

    tasks = ("regression", "binary", "multiclass")
    evidence_kind = "lower bound of the log evidence (full KL)"

    def numbers(self, rows: int, gps: int) -> float:
        return (
            10.0 + 36.0 * gps
        ) * rows**2  # measured: 42 for one; of each q_sqrt L-BFGS keeps ten steps and gradients

    def own_initial(self, X: np.ndarray, gps: int, seed: int) -> dict[str, np.ndarray]:
        return {"q_mu": np.zeros((len(X), gps)), "q_sqrt": np.tile(np.eye(len(X)), (gps, 1, 1))}

    def own_values(self) -> dict[str, np.ndarray]:
        return {"q_mu": self.model.q_mu.numpy(), "q_sqrt": self.model.q_sqrt.numpy()}

    def gps(self) -> int:
        return self.values["q_mu"].shape[1]

    def build(self, kernel: Any, likelihood: Any, values: dict[str, np.ndarray]) -> Any:
        import gpflow

        model = gpflow.models.VGP((values["X"], values["Y"]), kernel, likelihood, num_latent_gps=self.gps())
        model.q_mu.assign(values["q_mu"])
        model.q_sqrt.assign(values["q_sqrt"])
        return model

    # ---- prediction as the likelihood asks -----------------------------------------------------------

    @property
    def likelihood(self) -> likelihoods.Likelihood:
        return likelihoods.of_size(self.cfg, self.gps(), scope(self.values, "likelihood"))

    @property
    def discrete(self) -> bool:
        """Whether y takes separate values."""
        return bool(self.values) and self.likelihood.discrete

    def predict(self, X: np.ndarray, samples: int, seed: int) -> Predictive:
        likelihood, p = self.likelihood, scope(self.values, "likelihood")
        if isinstance(likelihood, likelihoods.Gaussian):
            return super().predict(X, samples, seed)
        mean, var = self.moments(X)
        if hasattr(likelihood, "probs"):
            return Predictive(probs=likelihood.probs(p, tf.constant(mean.T), tf.constant(var.T)).numpy().T)
        rng = np.random.default_rng((seed, 1))
        F = mean + np.sqrt(np.maximum(var, 0.0)) * rng.standard_normal((samples, *mean.shape))
        return Predictive(draws=likelihood.draw(p, F, rng))

    def log_density(self, X: np.ndarray, Y: np.ndarray, samples: int, seed: int) -> np.ndarray | None:
        """log p(y | x) (1, N) by quadrature; None where `predict` has it."""
        if isinstance(self.likelihood, likelihoods.Gaussian) or hasattr(self.likelihood, "probs"):
            return None
        mean, var, y = (tf.constant(a.T) for a in (*self.moments(X), Y))
        p = {name: tf.constant(v) for name, v in scope(self.values, "likelihood").items()}
        return self.likelihood.log_density(p, mean, var, y).numpy()[None]
