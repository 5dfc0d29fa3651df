"""The full variational GP: q(f) is any Gaussian over the training rows; bound E log p(y | f) - KL(q || p).

Any likelihood whose expectations GPflow has without sampling.
"""

from __future__ import annotations

from typing import Any

import numpy as np

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
