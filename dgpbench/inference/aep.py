"""Approximate expectation propagation: power EP with alpha = 1 and a Gaussian projection between layers.

What leaves a layer is replaced by a Gaussian of the same mean and variance, independent between outputs, by
psi statistics (gp/psi.py); log Z_n is then an integral over one Gaussian, without samples. Tied factors and
their cavity as in alpha.py. Predictions take the same projection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dgpbench.gp.lazy import lazy
from dgpbench.inference.alpha import PowerEP
from dgpbench.inference.projected import Projected, ProjectedMethod

if TYPE_CHECKING:
    import tensorflow as tf

    from dgpbench.gp import psi
    from dgpbench.gp.deep_gp import DeepGP
else:
    tf, psi = lazy("tensorflow"), lazy("dgpbench.gp.psi")


@dataclass(frozen=True)
class ApproximateEP(Projected, PowerEP):
    alpha: float = 1.0

    @property
    def predictive_noise(self) -> int:
        return self.model.likelihood.noise_rows(self.model.output_dim)

    def moments(self, prepared, X, noise, w=(), K: int = 1, joint: bool = True, repeat: int = 1):
        first, *rest = self.model.layers
        h = psi.Inputs(*first.conditional(prepared["layer0"], X))
        for i, layer in enumerate(rest, 1):
            h = psi.projected(layer, prepared[f"layer{i}"], h)
        return tuple(tf.tile(moment, (1, repeat)) for moment in h)


class AEP(ProjectedMethod):
    def bound(self, model: DeepGP) -> ApproximateEP:
        return ApproximateEP(model, self.settings["samples"])
