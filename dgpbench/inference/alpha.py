"""Power expectation propagation with tied factors: alpha divergences between 0 (variational) and 1 (EP).

Every point has the same factor, so that the cavity is q without one alpha-th power of it (slides on deep
GPs):
    eta_cav = eta_q - (alpha / N)(eta_q - eta_prior)
    log Z = g(q) - g(prior) + sum_n (1 / alpha)(log Z_n + g(cav) - g(q)),  g = m' S^-1 m / 2 + log|S| / 2
    Z_n = E over the cavity of p(y_n | f_n)^alpha
The simplified objective has q in place of the cavity: sum_n (1 / alpha) log Z_n - KL(q || p). Z_n is a mean
over samples through the inner layers; the last layer is integrated as its likelihood can.

With c = alpha / N, b = 1 - c and the whitened prior N(0, I), no inverse of S is needed, which starts near 0
in the inner layers:
    S_cav = (b I + c S)^-1 S,   m_cav = b (b I + c S)^-1 m,
    g(q) + (g(cav) - g(q)) / c = log|S| / 2 - log|b I + c S| / (2 c) - b m' (b I + c S)^-1 m / 2.

Approximate expectation propagation (`ApproximateEP`) is power EP with alpha = 1 and a Gaussian projection
between layers. Psi statistics (gp/psi.py) replace the outputs of a layer by independent Gaussians of the same
mean and variance, so that log Z_n is an integral over one Gaussian and needs no samples. Predictions use the
same projection.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dgpbench.config.schema import Field
from dgpbench.gp.lazy import lazy
from dgpbench.inference.adam_method import (
    ADAM_FIELDS,
    AdamMethod,
    correlated_outputs,
    gp_layers_only,
)
from dgpbench.inference.analytic import Projected, ProjectedMethod
from dgpbench.inference.base import Bound, Numerics

if TYPE_CHECKING:
    import tensorflow as tf

    from dgpbench.gp import deep_gp, propagation, psi
    from dgpbench.gp.deep_gp import DeepGP
else:
    tf, deep_gp = lazy("tensorflow"), lazy("dgpbench.gp.deep_gp")
    propagation, psi = lazy("dgpbench.gp.propagation"), lazy("dgpbench.gp.psi")

SMALLEST = 1e-4  # below, the energy's differences divided by alpha / N are lost in rounding


@dataclass(frozen=True)
class PowerEP(Bound):
    alpha: float = 0.5
    tied: bool = True

    @property
    def repeats(self) -> int:
        return 1

    def posterior(self, values, numerics: Numerics) -> Mapping[int, Any] | None:
        """The cavity of each layer in training; q itself for predictions and the simplified objective."""
        if not self.tied or numerics.num_data is None:
            return None
        cavities = {}
        for i in self.model.gps:
            m, L = self._q(values, i)
            b, root, S = self._shrinking(L, numerics.num_data)
            mean = b * tf.linalg.cholesky_solve(root, m[..., None])[..., 0]
            S = tf.linalg.cholesky_solve(root, S)
            excess = 0.5 * (S + tf.linalg.matrix_transpose(S)) - tf.eye(S.shape[-1], dtype=S.dtype)
            cavities[i] = propagation.Whitened(mean, excess=excess)
        return cavities

    def _q(self, values, i: int):
        return tuple(values[name] for name in self.model.parameter_names(i))

    def _shrinking(self, L, num_data):
        """b, the Cholesky factor of b I + c S, and S (P, M, M)."""
        c = self.alpha / num_data
        S = tf.matmul(L, L, transpose_b=True)
        eye = tf.eye(L.shape[-1], dtype=L.dtype)
        return 1.0 - c, tf.linalg.cholesky((1.0 - c) * eye + c * S), S

    def terms(self, prepared, X, Y, noise, start) -> tf.Tensor:
        """(1 / alpha) log Z_n (B,)."""
        model, S = self.model, self.samples
        mean, var = self.moments(prepared, X, noise, repeat=S)
        p, own = prepared["likelihood"], noise[model.likelihood_rows]
        each = model.likelihood.log_power(p, mean, var, tf.tile(Y, (1, S)), self.alpha, own)
        return (tf.reduce_logsumexp(tf.reshape(each, (S, -1)), 0) - math.log(S)) / self.alpha

    def penalty(self, values, prepared, numerics: Numerics) -> dict[int, tf.Tensor]:
        if not self.tied:
            return deep_gp.penalties(self.model, values)
        return {i: self._energy(self._q(values, i), numerics.num_data) for i in self.model.gps}

    def _energy(self, q: tuple, num_data) -> tf.Tensor:
        """g(prior) - g(q) - sum_n (1 / alpha)(g(cav) - g(q)) of one layer."""
        m, L = q
        b, root, _ = self._shrinking(L, num_data)
        log_det = 2.0 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(root)))  # of b I + c S
        white = tf.linalg.triangular_solve(root, m[..., None])
        log_det_S = 2.0 * tf.reduce_sum(tf.math.log(tf.abs(tf.linalg.diag_part(L))))
        return 0.5 * (log_det * num_data / self.alpha + b * tf.reduce_sum(tf.square(white)) - log_det_S)


class Alpha(AdamMethod):
    fields = {
        "alpha": Field(float, low=SMALLEST, high=1),
        "objective": Field(str, choices=("tied", "simplified")),
        **ADAM_FIELDS,
    }

    def refuses(self, model: Mapping[str, Any], likelihood: str) -> str | None:
        own = self.settings["name"]
        if reason := gp_layers_only(own, model, separate=True) or correlated_outputs(
            own, model, "output_gps"
        ):
            return reason
        if self.cfg["precision"] == "float32":
            return "inference=alpha takes differences too small for float32; use precision=mixed or float64"
        if self.settings["samples"] == 1 and (len(model.get("layers", ())) > 1 or likelihood == "softmax"):
            return (
                "inference.samples=1 puts the logarithm of inference=alpha inside the average over samples, "
                "which is variational inference in the inner layers; use at least 10"
            )
        return None

    def bound(self, model: DeepGP) -> PowerEP:
        settings = self.settings
        return PowerEP(model, settings["samples"], settings["alpha"], settings["objective"] == "tied")


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
