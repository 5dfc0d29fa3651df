"""Generalised FITC (Naish-Guzman and Holden, 2008): EP for two classes under the prior Q + diag(K - Q)."""

from __future__ import annotations

from typing import Any

import numpy as np

from dgpbench.engine.platform import tf
from dgpbench.models.classics import ep
from dgpbench.models.classics.ep_gpc import EPGPC, FullEP
from dgpbench.models.classics.sparse import Sparse


class SparseEP(FullEP):
    def __init__(self, kernel: Any, likelihood: Any, values: dict[str, np.ndarray], epsilon: float):
        from gpflow.inducing_variables import InducingPoints

        super().__init__(kernel, likelihood, values, epsilon)
        self.inducing_variable = InducingPoints(values["Z"])

    def inducing(self) -> tf.Tensor:
        return self.inducing_variable.Z

    def prior(self) -> ep.Prior:
        P = self.whitened(self.X)
        rest = self.kernel.K_diag(self.X) - tf.reduce_sum(tf.square(P), 1)
        return ep.Prior(P, tf.maximum(rest, 0.0))


class GFITC(EPGPC, Sparse):
    """EP at a cost of N M^2, with Z = X that of the full GP."""

    evidence_kind = "EP's log evidence of FITC's model, which is no bound"
    instead = "model=sgp, which trains on minibatches"
    kind = SparseEP
    numbers = Sparse.numbers
