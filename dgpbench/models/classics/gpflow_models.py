"""GPflow's GPR, SGPR, GPRFITC and VGP as models of the harness.

GPR maximises the evidence log N(y; 0, K + s2 I) in closed form, at a cost of N^3. With Q = K_xz K_zz^-1 K_zx,
VFE (Titsias, 2009) maximises log N(y; 0, Q + s2 I) - tr(K - Q) / (2 s2), a lower bound of the exact evidence.
FITC (Snelson and Ghahramani, 2006) maximises the evidence log N(y; 0, Q + diag(K - Q) + s2 I) of another
model. VGP maximises E log p(y | f) - KL(q || p) over all Gaussian q(f) at the training rows, for any
likelihood whose expectations GPflow computes without sampling.

"""

from __future__ import annotations

from typing import Any

import numpy as np

from dgpbench.errors import import_gpflow
from dgpbench.gp.initialisation import count_inducing, kmeans
from dgpbench.models.classics.base import Classic


class GPR(Classic):
    """GPflow's GPR."""

    evidence_kind = "exact log evidence"

    def numbers(self, rows: int, gps: int) -> float:
        return 13.0 * rows**2  # measured: 12

    def build(self, kernel: Any, likelihood: Any, values: dict[str, np.ndarray]) -> Any:
        gpflow = import_gpflow()

        return gpflow.models.GPR((values["X"], values["Y"]), kernel, likelihood=likelihood)


class Sparse(Classic):
    """What models with inducing points Z share."""

    instead = "model=sgp, which trains on minibatches"

    def inducing(self, rows: int) -> int:
        """Inducing points, no more than training rows."""
        return min(rows, count_inducing(self.settings["num_inducing"], rows))

    def numbers(self, rows: int, gps: int) -> float:
        M = self.inducing(rows)
        return 16.0 * M * (rows + M)  # measured: 15

    def start(self, split, seed: int) -> str:
        return f"{super().start(split, seed)}, {self.inducing(split.n_train)} inducing points"

    def own_initial(self, X: np.ndarray, gps: int, seed: int) -> dict[str, np.ndarray]:
        return {"Z": kmeans(X, self.inducing(len(X)), np.random.RandomState(seed))}

    def own_values(self) -> dict[str, np.ndarray]:
        return {"Z": self.model.inducing_variable.Z.numpy()}


class SGPR(Sparse):
    """GPflow's SGPR."""

    evidence_kind = "lower bound of the log evidence (VFE)"
    kind = "SGPR"

    def build(self, kernel: Any, likelihood: Any, values: dict[str, np.ndarray]) -> Any:
        gpflow = import_gpflow()

        data = values["X"], values["Y"]
        return getattr(gpflow.models, self.kind)(data, kernel, values["Z"], likelihood=likelihood)


class FITC(SGPR):
    """GPflow's GPRFITC."""

    evidence_kind = "log evidence of FITC's model, which is no bound"
    kind = "GPRFITC"


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
        gpflow = import_gpflow()

        model = gpflow.models.VGP((values["X"], values["Y"]), kernel, likelihood, num_latent_gps=self.gps())
        model.q_mu.assign(values["q_mu"])
        model.q_sqrt.assign(values["q_sqrt"])
        return model
