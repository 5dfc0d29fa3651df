"""Stochastic gradient Hamiltonian Monte Carlo over the whitened inducing outputs (thesis ch. 6).

The state is v ~ N(0, I) of each layer, u = L v; a layer is its prior conditional given u. Potential
    U(v) = -sum_l log N(v_l; 0, I) - (N / B) sum_n ell_n,
with ell_n = E log p(y_n | f_n) over the conditional of the last layer (`expected`, as the thesis writes), or
log E p(y_n | f_n) (`marginal`, as its released code computes). Steps: updates/sghmc.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dgpbench.config.derived import every
from dgpbench.config.schema import COUNT, COUNT_OR_NULL, POSITIVE, Field
from dgpbench.errors import UserError
from dgpbench.gp.lazy import lazy
from dgpbench.inference.base import Bound, Method, Numerics, Update
from dgpbench.inference.fits import gp_layers_only
from dgpbench.inference.variational import ADAM_FIELDS, adam_rates

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

    from dgpbench.gp import propagation
    from dgpbench.gp.deep_gp import DeepGP
else:
    tf, propagation = lazy("tensorflow"), lazy("dgpbench.gp.propagation")


BURN_IN, THINNING = 2500, 25  # steps, where the budget has room for both


@dataclass(frozen=True)
class LogJoint(Bound):
    """log p(y, v), up to a constant: q(u) is a point."""

    marginal: bool = False
    chains: int = 1

    @property
    def evaluations(self) -> int:  # type: ignore[override]  # one of each chain, and that of the hyperparameters
        return 1 + self.chains

    def initial(self, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The mean-field start without its covariances: v = 0, where the mean functions are the model."""
        return {name: v for name, v in values.items() if not name.endswith("/q_sqrt")}

    def posterior(self, values, numerics: Numerics) -> Mapping[int, Any]:
        return {i: propagation.Whitened(values[f"layer{i}/q_mu"]) for i in self.model.gps}

    def terms(self, prepared, X, Y, noise, start) -> tf.Tensor:
        model = self.model
        Xs, Ys = tf.tile(X, (1, self.samples)), tf.tile(Y, (1, self.samples))
        mean, var = self.moments(prepared, Xs, noise)
        p, own = prepared["likelihood"], noise[model.likelihood_rows]
        if self.marginal:
            return model.likelihood.log_power(p, mean, var, Ys, 1.0, own)
        return model.likelihood.variational_expectations(p, mean, var, Ys, own)

    def penalty(self, values, prepared, numerics: Numerics) -> dict[int, tf.Tensor]:
        """-log N(v; 0, I) of each layer, without its constant."""
        return {i: 0.5 * tf.reduce_sum(tf.square(values[f"layer{i}/q_mu"])) for i in self.model.gps}


class SGHMC(Method):
    fields = {
        "potential": Field(str, choices=("expected", "marginal")),
        "step": POSITIVE,
        "friction": Field(float, above=0, below=1),
        "burn_in": COUNT_OR_NULL,
        "thinning": COUNT_OR_NULL,
        "kept": COUNT,
        "size_mb": POSITIVE,
        "chains": COUNT,
        "window": COUNT,
        "compat": Field(str, choices=("none", "released")),
        **ADAM_FIELDS,
    }

    def scaled(self, steps: int | None) -> dict[str, Any]:
        """Return burn-in and thinning: 2,500 and 25 steps, or in a budget without room for both half of the
        steps and what keeps `inference.kept` of the rest."""
        burn_in, thinning = self.settings["burn_in"], self.settings["thinning"]
        if steps is None or steps >= (burn_in or BURN_IN) + (thinning or THINNING):
            return {"burn_in": burn_in or BURN_IN, "thinning": thinning or THINNING}
        burn_in = burn_in or max(1, steps // 2)
        fitting = (steps - burn_in) // self.settings["kept"]
        return {"burn_in": burn_in, "thinning": thinning or min(THINNING, max(1, fitting))}

    def schedule(self) -> str:
        burn_in, thinning = self.settings["burn_in"], self.settings["thinning"]
        return f"{burn_in:,} steps of burn-in, then a sample {every(thinning)}"

    def refuses(self, model: Mapping[str, Any], likelihood: str) -> str | None:
        if reason := gp_layers_only(self.settings["name"], model, separate=True):
            return reason
        if model.get("output_gps"):
            return (
                f"model.output_gps={model['output_gps']} makes correlated outputs, and inference=sghmc takes "
                "each by itself; set model.output_gps=null or use inference=dsvi"
            )
        if likelihood == "softmax" and self.settings["potential"] == "marginal":
            return (
                "likelihood=softmax has no integral in closed form for inference.potential=marginal; use "
                "inference.potential=expected or likelihood=robustmax"
            )
        if self.cfg["budget"].get("stop", "none") != "none":
            return "inference=sghmc samples for as long as its budget says; set budget.stop=none"
        burn_in, thinning = self.settings["burn_in"], self.settings["thinning"]
        steps = self.cfg["budget"]["steps"]
        if steps is None:
            return (
                "inference=sghmc counts its burn-in in steps; set budget.steps, alone or with budget.seconds"
            )
        if steps < burn_in + thinning:
            return (
                f"budget.steps={steps} leaves no sample behind inference.burn_in={burn_in} at "
                f"inference.thinning={thinning}; set budget.steps to at least {burn_in + thinning}, or a "
                "shorter burn-in"
            )
        return None

    def bound(self, model: DeepGP) -> LogJoint:
        settings = self.settings
        return LogJoint(model, settings["samples"], settings["potential"] == "marginal", settings["chains"])

    def update(self, bound: Bound) -> Update:
        from dgpbench.inference.updates.sghmc import AdaptiveSGHMC

        model, settings = bound.model, self.settings
        kept, note = self._that_fit(
            sum(model.layers[i].num_inducing * model.layers[i].output_dim for i in model.gps)
        )
        names = tuple(f"layer{i}/q_mu" for i in model.gps)
        numbers = {name: settings[name] for name in ("burn_in", "thinning", "window", "chains")}
        return AdaptiveSGHMC(
            names, kept=kept, released=settings["compat"] == "released", reduced=note, **numbers
        )

    def _that_fit(self, size: int) -> tuple[int, str]:
        """Samples of each chain, of so many numbers each, that inference.size_mb allows, and a note if those
        are fewer than inference.kept; UserError where not one is."""
        wanted, chains, limit = (self.settings[name] for name in ("kept", "chains", "size_mb"))
        each = 8e-6 * size * chains
        if each > limit:
            raise UserError(
                f"one sample of each chain takes {each:.3g} MB, more than inference.size_mb={limit:g}; raise "
                "it, or lower model.num_inducing"
            )
        if (kept := min(wanted, int(limit / each))) == wanted:
            return kept, ""
        return kept, (
            f"{wanted} samples would take {wanted * each:.3g} MB of the parameters file: the last {kept} are "
            f"kept, as inference.size_mb={limit:g} allows"
        )

    def rates(self) -> dict[str, float]:
        own = {name: float(self.settings[name]) for name in ("step", "friction")}
        return adam_rates(self.settings["adam"]) | own
