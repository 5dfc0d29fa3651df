"""Variational MCMC for sparse GPs (Matthews' thesis, chapter 5; Hensman et al. 2015).

The best free-form q(v, theta) of the whitened inducing outputs v and the hyperparameters theta is known up to
its constant (5.26):
    log q(v, theta) = log p(theta) + log N(v; 0, I) + sum_n E_{f_n | v, theta} log p(y_n | f_n) + const.
`LogPosterior` is that density, theta in log space with its Jacobian; updates/chains.py samples it. The recipe
of 5.5: fit the Gaussian approximation, `Fit`, then hold Z and start the chains at draws of q(u).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dgpbench.config.derived import every
from dgpbench.config.schema import COUNT, COUNT_OR_NULL, POSITIVE, RATE, SWITCH, Field
from dgpbench.gp.lazy import lazy
from dgpbench.inference.base import Bound, Method, Numerics, Update
from dgpbench.inference.hyperpriors import Prior, penalty_of, priors_of
from dgpbench.inference.sghmc import LogJoint

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

    from dgpbench.gp import deep_gp, parameters
    from dgpbench.gp.deep_gp import DeepGP
    from dgpbench.gp.fast import point
    from dgpbench.gp.kernels import covariances
else:
    tf, deep_gp = lazy("tensorflow"), lazy("dgpbench.gp.deep_gp")
    parameters, point = lazy("dgpbench.gp.parameters"), lazy("dgpbench.gp.fast.point")
    covariances = lazy("dgpbench.gp.kernels.covariances")

LOG_2PI = math.log(2.0 * math.pi)
START, BURN_IN = 1000, 500  # steps of the fit and of burn-in, where the budget has room for both


@dataclass(frozen=True)
class LogPosterior(LogJoint):
    """log p(theta) + log N(v; 0, I) + sum_n E log p(y_n | f_n), a density of v and log theta.

    `held`: Z stays where it starts. Then rows on a grid, and those of one input, have a form of their own
    (gp/fast/point.py), where the kernel is an RBF.
    """

    priors: tuple[tuple[str, Prior], ...] = ()  # by parameter
    held: bool = False
    places: point.Grid | None = None

    def on_rows(self, values: Mapping[str, np.ndarray], X: np.ndarray) -> LogPosterior:
        layer = self.model.layers[0]
        apart = isinstance(layer.kernel, covariances.RBF) and (layer.grid or layer.input_dim == 1)
        if not (self.held and apart):
            return self
        return replace(self, places=point.find_grid(values["layer0/Z"], X))

    @property
    def tallest(self) -> int:
        return max(map(len, self.places.Z)) if self.places else super().tallest

    @property
    def divisible(self) -> bool:
        return self.places is None

    def prepare(self, values, numerics: Numerics, key=None, rows=None) -> tuple[Any, dict]:
        if self.places is None or numerics.forms != ("point",):
            return super().prepare(values, numerics, key, rows)
        p = parameters.scope(values, "layer0")
        lengthscales, variance = self.model.layers[0].scales(p)
        v, jitter = p["q_mu"], numerics.jitter
        form = point.make_on_grid(self.places, v, lengthscales, variance, jitter, numerics.compiled)
        return {"likelihood": parameters.scope(values, "likelihood"), "layer0": form}, {}

    def moments(self, prepared, X, noise, *how, **named):
        if self.places and isinstance(prepared["layer0"], point.OnGrid):
            return point.grid_moments(self.places, prepared["layer0"])
        return super().moments(prepared, X, noise, *how, **named)

    def initial(self, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """As they come: q_sqrt is that of the Gaussian approximation."""
        return values

    def constraints(self) -> dict:
        return super().constraints() | {name: parameters.LOG for name, _ in self.priors}

    def forms(self, batch: int, exact: bool) -> tuple[str, ...] | None:
        return ("point",) if self.model.layers[0].has_point else super().forms(batch, exact)

    def penalty(self, values, prepared, numerics: Numerics) -> dict[int, tf.Tensor]:
        v = values["layer0/q_mu"]
        normal = {0: 0.5 * (tf.reduce_sum(tf.square(v)) + tf.cast(tf.size(v), v.dtype) * LOG_2PI)}
        return normal | penalty_of(self.priors, values)


@dataclass(frozen=True)
class Fit(Bound):
    """The Gaussian approximation: the evidence lower bound plus log p(theta), in the same coordinates."""

    priors: tuple[tuple[str, Prior], ...] = ()

    def constraints(self) -> dict:
        return super().constraints() | {name: parameters.LOG for name, _ in self.priors}

    def terms(self, prepared, X, Y, noise, start) -> tf.Tensor:
        return deep_gp.expected_log_likelihood(self.model, prepared, X, Y, noise)[0]

    def penalty(self, values, prepared, numerics: Numerics) -> dict[int, tf.Tensor]:
        return super().penalty(values, prepared, numerics) | penalty_of(self.priors, values)


class SGPMC(Method):
    takes_priors = True
    fields = {
        "sampler": Field(str, choices=("hmc", "nuts")),
        "step": POSITIVE,
        "accept": Field(float, null=True, above=0, below=1),
        "leapfrog": COUNT,
        "depth": Field(int, low=1, high=12),
        "precondition": SWITCH,
        "chains": COUNT,
        "start.steps": COUNT_OR_NULL,
        "start.learning_rate": POSITIVE,
        "start.gamma": RATE,
        "start.inducing": Field(str, choices=("trained", "fixed")),
        "burn_in": COUNT_OR_NULL,
        "thinning": COUNT,
        "kept": COUNT,
    }

    def scaled(self, steps: int | None) -> dict[str, Any]:
        """Return the steps of fit and burn-in: 1,000 and 500, or in a budget without room for them a half and
        a quarter of the steps, so that a quarter is left to sample."""
        start, burn_in, thinning = (
            self.settings["start"]["steps"],
            self.settings["burn_in"],
            self.settings["thinning"],
        )
        if steps is None or steps >= (start or START) + (burn_in or BURN_IN) + thinning:
            start, burn_in = start or START, burn_in or BURN_IN
        else:
            start = start or max(1, (steps - (burn_in or steps // 4)) * 2 // 3)
            burn_in = burn_in or max(1, (steps - start) // 2)
        return {"start": {**self.settings["start"], "steps": start}, "burn_in": burn_in}

    def schedule(self) -> str:
        s = self.settings
        return (
            f"{s['start']['steps']:,} steps of fit and {s['burn_in']:,} of burn-in, then a sample of each "
            f"chain {every(s['thinning'])}"
        )

    def refuses(self, model: Mapping[str, Any], likelihood: str) -> str | None:
        if model["layers"] != ["gp"] or model.get("output_gps"):
            return (
                f"inference=sgpmc is for one GP layer, and model={model['name']} is none; use model=sgp, or "
                "inference=sghmc for deep GPs"
            )
        if likelihood == "softmax":
            return "likelihood=softmax has no exact expectation for inference=sgpmc; use likelihood=robustmax"
        if self.cfg["precision"] == "float32":
            return "inference=sgpmc accepts by differences of log densities; use precision=mixed or float64"
        return self._budget()

    def _budget(self) -> str | None:
        s, steps, start = self.settings, self.cfg["budget"]["steps"], self.settings["start"]["steps"]
        if self.cfg["budget"].get("stop", "none") != "none":
            return "inference=sgpmc samples for as long as its budget says; set budget.stop=none"
        if steps is None:
            return "inference=sgpmc counts its burn-in in steps; set budget.steps"
        least = start + s["burn_in"] + s["thinning"]
        if steps < least:
            return (
                f"budget.steps={steps} leaves no sample behind inference.start.steps={start} and "
                f"inference.burn_in={s['burn_in']} at inference.thinning={s['thinning']}; set budget.steps "
                f"to at least {least}, or shorten them"
            )
        return None

    def bound(self, model: DeepGP) -> LogPosterior:
        held = self.settings["start"]["inducing"] == "fixed"
        return LogPosterior(model, priors=priors_of(self.cfg["model"].get("priors", {}), model), held=held)

    def update(self, bound: Bound) -> Update:
        from dgpbench.inference.updates.chains import Chains
        from dgpbench.inference.updates.natural import NaturalAdam

        assert isinstance(bound, LogPosterior)
        s = self.settings
        same = ("sampler", "leapfrog", "depth", "precondition", "chains", "burn_in", "thinning", "kept")
        return Chains(
            fit=Fit(bound.model, priors=bound.priors),
            start=NaturalAdam(bound.model, bound.model.gps, "natural"),
            start_steps=s["start"]["steps"],
            held=("layer0/Z",) if s["start"]["inducing"] == "fixed" else (),
            adapt=s["accept"] is not None,
            sampled=("layer0/q_mu", *(name for name, _ in bound.priors)),
            **{name: s[name] for name in same},
        )

    def rates(self) -> dict[str, float]:
        s = self.settings
        adam = {"learning_rate": float(s["start"]["learning_rate"]), "lr_decay": 1.0}
        adam |= {"lr_decay_steps": 1.0, "lr_staircase": 1.0}
        natural = {name: float(s["start"]["gamma"]) for name in ("gamma", "inner_gamma")}
        natural |= {"gamma_initial": 1e-3, "gamma_ramp": 50.0}
        natural |= {"gamma_decay": 1.0, "gamma_decay_steps": 1.0}
        return adam | natural | {"step": float(s["step"]), "accept": float(s["accept"] or 0.8)}
