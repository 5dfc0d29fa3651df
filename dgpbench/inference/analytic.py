"""The analytic bound of Damianou and Lawrence (2013), and what methods with psi statistics share.

Every layer has Gaussian inputs for every training row.

Between layers stands noise, f~_l = f_l + e_l, e_l ~ N(0, s_l): the white noise of the inner kernels. With
q(f~_l) = N(mu_l, D_l), D_l diagonal, and psi statistics (gp/psi.py) the bound
    sum_n E log p(y | f_L) + sum_{l<L} (E log N(f~_l; f_l, s_l) + H[q(f~_l)]) - sum_l KL(q(u_l) || p(u_l))
needs no samples, but 2 N parameters for each hidden unit and all rows in each step. q(u) is kept and trained,
which gives the collapsed bound at its optimum. Predictions sample through the layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from dgpbench.config.kernel_names import Term, read
from dgpbench.errors import UserError
from dgpbench.gp.lazy import lazy
from dgpbench.inference.adam_method import (
    AdamMethod,
    correlated_outputs,
    gp_layers_only,
)
from dgpbench.inference.base import Bound, Numerics, Update

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

    from dgpbench.gp import parameters, psi
    from dgpbench.gp.deep_gp import DeepGP
else:
    np, tf, psi = lazy("numpy"), lazy("tensorflow"), lazy("dgpbench.gp.psi")
    parameters = lazy("dgpbench.gp.parameters")

WITH_PSI = ("rbf", "linear", "white")


@dataclass(frozen=True)
class Projected(Bound):
    """Layers behind the first are prepared as gp/psi.py reads them, in float64: the form `quad`."""

    exact: ClassVar[bool] = True

    @property
    def tallest(self) -> int:
        behind = [layer.num_inducing for layer in self.model.layers[1:]]
        return max([super().tallest, *(M * (M + 1) // 2 for M in behind)])

    def forms(self, batch: int, exact: bool) -> tuple[str, ...]:
        first = self.model.layers[0].form(batch * self.samples, exact)
        return (first, *("quad" for _ in self.model.layers[1:]))

    def prepare(self, values, numerics: Numerics, key=None, rows=None) -> tuple[Any, dict]:
        return super().prepare(
            values, numerics._replace(forms=numerics.forms or self.forms(1, True)), key, rows
        )


class ProjectedMethod(AdamMethod):
    """What these methods share: Adam, and kernels that have psi statistics behind the first layer."""

    def refuses(self, model: Mapping[str, Any], likelihood: str) -> str | None:
        own = self.settings["name"]
        if reason := gp_layers_only(own, model) or correlated_outputs(own, model, "output_gps", "inner_gps"):
            return reason
        if self.cfg["precision"] == "float32":
            return f"inference={own} takes differences too small for float32; use precision=mixed or float64"
        return kernels_without_psi(own, model, "inference=alpha")


def kernels_without_psi(own: str, model: Mapping[str, Any], instead: str) -> str | None:
    """Why a kernel behind the first layer has no psi statistics, and what fits; None where all have."""
    overrides = model.get("layer_overrides") or {}
    for i in range(1, len(model.get("layers", ()))):
        kernel = overrides.get(str(i), {}).get("kernel", model["kernel"])
        if not has_psi(read(kernel)):
            return (
                f"inference={own} averages kernels over Gaussian inputs, which has a closed form for "
                f"{', '.join(WITH_PSI[:-1])} and {WITH_PSI[-1]} kernels and their sums; layer {i} has "
                f"{kernel}: use model.kernel=rbf, or {instead}"
            )
    return None


def has_psi(term: Term) -> bool:
    """Whether gp/psi.py has the statistics of a kernel."""
    parts = term.terms if term.op == "+" and not term.dims else (term,)
    return all(part.op in WITH_PSI and not part.dims for part in parts)


NOT_GAUSSIAN = "inference=analytic is for Gaussian noise, not likelihood={}; use inference=aep or dsvi"


@dataclass(frozen=True)
class Analytic(Projected):
    def constraints(self):
        own = {f"layer{i}/local/variance": parameters.POSITIVE for i in self._inner}
        return super().constraints() | own

    @property
    def _inner(self) -> range:
        return range(len(self.model.layers) - 1)

    def row_values(self, values: Mapping[str, np.ndarray], X: np.ndarray, num_data: int):
        """mu_l and D_l (width, N): what the mean functions make of X, and the noise between layers."""
        if len(X) < num_data:
            raise UserError(f"inference=analytic has parameters for each row, {num_data:,} are too many")
        out, H = {}, tf.constant(X.T)
        for i in self._inner:
            layer, p = self.model.layers[i], parameters.scope(values, f"layer{i}")
            H = layer.with_mean(p, tf.zeros((layer.width, len(X)), H.dtype), H)
            out[f"layer{i}/local/mean"] = H.numpy()
            out[f"layer{i}/local/variance"] = np.full(H.shape, float(values[_noise(i)]))
        return out

    def prepare(self, values, numerics: Numerics, key=None, rows=None) -> tuple[Any, dict]:
        prepared, watched = super().prepare(values, numerics, key, rows)
        if numerics.num_data is not None:
            for i in self._inner:
                both = [values[f"layer{i}/local/mean"], values[f"layer{i}/local/variance"]]
                prepared[f"local{i}"] = tf.concat(both, 0)
                prepared[f"noise{i}"] = tf.identity(values[_noise(i)])  # the kernel has the other one
        return prepared, watched

    def terms(self, prepared, X, Y, noise, start) -> tf.Tensor:
        total, h = 0.0, None
        for i, layer in enumerate(self.model.layers):
            batch = prepared[f"layer{i}"]
            f = psi.Inputs(*layer.conditional(batch, X)) if h is None else psi.projected(layer, batch, h)
            if i in self._inner:
                local = prepared[f"local{i}"]
                part = tf.slice(local, tf.stack([tf.constant(0), start]), (local.shape[0], X.shape[1]))
                h = psi.Inputs(*tf.split(part, 2, axis=0))
                total += hidden_term(h, f, prepared[f"noise{i}"])
        expectations = self.model.likelihood.variational_expectations
        return total + expectations(prepared["likelihood"], f.mean, f.var, Y)

    def checks(self, prepared, X, Y, seed: int) -> tuple[dict[str, dict[str, float]], list[str]]:
        """How much of each layer is used: the variance over the rows of its GPs' posterior mean, beside their
        mean posterior variance. A layer that is turned off has none of the first."""
        out, H = {}, X
        for i, layer in enumerate(self.model.layers):
            mean, var = layer.conditional(prepared[f"layer{i}"], H)
            own = mean - layer.add_mean(prepared[f"layer{i}"], tf.zeros_like(mean), H)
            signal = float(tf.reduce_mean(tf.math.reduce_variance(own, 1)))
            out[f"layer{i}"] = {"signal": signal, "variance": float(tf.reduce_mean(var))}
            H = mean
        return out, []


def hidden_term(h, f, noise: tf.Tensor) -> tf.Tensor:
    """E log N(f~; f, noise) + H[q(f~)] (B,) for q(f~) = h; f.var holds the noise."""
    squares = tf.square(h.mean - f.mean) + h.var + f.var - noise
    return 0.5 * tf.reduce_sum(1.0 + tf.math.log(h.var / noise) - squares / noise, 0)


def _noise(i: int) -> str:
    return f"layer{i}/kernel/white/variance"


class AnalyticBound(ProjectedMethod):
    def refuses(self, model: Mapping[str, Any], likelihood: str) -> str | None:
        if reason := super().refuses(model, likelihood):
            return reason
        if likelihood not in ("auto", "gaussian"):
            return NOT_GAUSSIAN.format(likelihood)
        inner = [
            (model.get("layer_overrides") or {}).get(str(i), {}) for i in range(len(model["layers"]) - 1)
        ]
        if any(not part.get("inner_noise", model["inner_noise"]) for part in inner):
            return "inference=analytic has noise between layers; model.inner_noise must be above 0, e.g. 0.01"
        return None

    def bound(self, model: DeepGP) -> Analytic:
        if model.likelihood.name != "gaussian":
            raise UserError(NOT_GAUSSIAN.format(model.likelihood.name))
        return Analytic(model)

    def update(self, bound: Bound) -> Update:
        from dgpbench.inference.updates.adam import AllRowsAdam

        return AllRowsAdam()
