"""Sparse GP regression with q(u) in closed form: VFE (Titsias, 2009) and FITC (Snelson, Ghahramani, 2006).

With Q = K_xz K_zz^-1 K_zx, VFE maximises log N(y; 0, Q + s2 I) - tr(K - Q) / (2 s2), a lower bound of the
exact evidence, and FITC the evidence log N(y; 0, Q + diag(K - Q) + s2 I) of another model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dgpbench.gp.initialisation import count_inducing, kmeans
from dgpbench.models.classics.base import Classic


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
        import gpflow

        data = values["X"], values["Y"]
        return getattr(gpflow.models, self.kind)(data, kernel, values["Z"], likelihood=likelihood)


class FITC(SGPR):
    """GPflow's GPRFITC."""

    evidence_kind = "log evidence of FITC's model, which is no bound"
    kind = "GPRFITC"
