"""Variational inference with stochastic gradients: DSVI, importance weighting, the optimal q(w); Adam,
natural gradients, line searches. The default method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dgpbench.config.keys import later_defaults, merged
from dgpbench.config.schema import COUNT, RATE, SWITCH, Field, show_value
from dgpbench.inference.adam_method import ADAM_FIELDS, AdamMethod, adam_rates
from dgpbench.inference.base import Bound, Update
from dgpbench.inference.hyperpriors import priors_of

if TYPE_CHECKING:
    from dgpbench.gp.deep_gp import DeepGP

PARAMETERISATIONS = ("natural", "natural_sqrt", "natural_log", "meanvar", "meanvar_sqrt", "meanvar_log")
INVARIANT = ("natural", "meanvar", "meanvar_sqrt")  # xi of u = L v is linear in that of v (natgrad.py)


def _one_of(*choices: str) -> Field:
    return Field(str, choices=choices)


class Variational(AdamMethod):
    direct_q = True
    takes_priors = True
    fields = {
        "optimiser": _one_of("adam", "gd", "ngd_adam", "ngd_all"),
        "bound": _one_of("vi", "iwvi", "optimal"),
        "importance_samples": COUNT,
        "dreg": SWITCH,
        "latent_q": _one_of("amortised", "free"),
        "encoder": Field(list),
        "quadrature.rule": _one_of("adaptive", "hermite"),
        "quadrature.nodes": Field(int, low=4),
        **ADAM_FIELDS,
        "natgrad.gamma": RATE,
        "natgrad.inner_gamma": Field(float, null=True, above=0, high=1),
        "natgrad.gamma_initial": RATE,
        "natgrad.ramp_steps": Field(int, low=0),
        "natgrad.parameterisation": _one_of(*PARAMETERISATIONS),
        "natgrad.step": _one_of("schedule", "linesearch"),
        "natgrad.direction": _one_of("natural", "gradient", "adam", "lbfgs"),
        "natgrad.alternate": SWITCH,
        "natgrad.decay": RATE,
        "natgrad.decay_steps": COUNT,
    }

    def __init__(self, cfg: Mapping[str, Any]):
        super().__init__(cfg)
        self.settings = merged(later_defaults("inference"), dict(cfg["inference"]))

    # ---- what fits -----------------------------------------------------------------------------------

    def refuses(self, model: Mapping[str, Any], likelihood: str) -> str | None:
        if reason := self._encoder() or self._line_search(model):
            return reason
        if model.get("priors") and self.settings["hyperparameters"] == "fixed":
            return "model.priors make no difference under inference.hyperparameters=fixed; leave one out"
        return self._latents(model) or self._softmax(model, likelihood) or self._direct(model)

    def _direct(self, model: Mapping[str, Any]) -> str | None:
        """What a q(u) that is not whitened does not go with."""
        if model.get("whiten", True):
            return None
        settings, how = self.settings, self.settings["natgrad"]["parameterisation"]
        if settings["bound"] != "vi":
            return f"model.whiten=false needs inference.bound=vi; it is {settings['bound']}"
        if settings["optimiser"].startswith("ngd") and how not in INVARIANT:
            return (
                f"inference.natgrad.parameterisation={how} needs a whitened q(u); with model.whiten=false "
                f"use one of {', '.join(INVARIANT)}"
            )
        if self.cfg["precision"] == "float32":
            return "model.whiten=false solves with Cholesky factors; use precision=mixed or float64"
        return None

    def _encoder(self) -> str | None:
        encoder = self.settings["encoder"]
        if any(type(width) is not int or width < 1 for width in encoder):
            return (
                f"inference.encoder={show_value(encoder)} is not allowed; it must be a list of hidden widths "
                "of at least 1, e.g. [20,20], or []"
            )
        return None

    def refuses_network(self, name: str) -> str | None:
        """A network of ours is trained by Adam on its own bound."""
        settings = self.settings
        if reason := self._encoder() or self._line_search({}):
            return reason
        if settings["optimiser"] != "adam":
            return (
                f"model={name} has no natural gradients, inference.optimiser={settings['optimiser']} is not "
                "possible; use inference=adam or dsvi"
            )
        if settings["bound"] != "vi":
            return (
                f"model={name} is trained on its own bound, inference.bound={settings['bound']} is not "
                "possible; use inference=adam or dsvi"
            )
        return None

    def refuses_levels(self, name: str) -> str | None:
        if self.settings["bound"] != "vi" or self.settings["natgrad"]["step"] == "linesearch":
            return super().refuses_levels(name)
        return self._encoder() or self._line_search({})

    def _line_search(self, model: Mapping[str, Any]) -> str | None:
        """A line search moves one q(u) and nothing else."""
        settings, natgrad = self.settings, self.settings["natgrad"]
        if natgrad["step"] != "linesearch":
            if natgrad["direction"] == "natural":
                return None
            return (
                f"inference.natgrad.direction={natgrad['direction']} is a direction of a line search; add "
                "inference.natgrad.step=linesearch, or choose inference=gd or dsvi"
            )
        needs = "inference.natgrad.step=linesearch needs"
        if settings["optimiser"] != "ngd_adam":
            return f"{needs} inference.optimiser=ngd_adam; it is {settings['optimiser']}"
        if settings["hyperparameters"] != "fixed":
            return f"{needs} inference.hyperparameters=fixed: the search is over q(u) alone"
        if "layers" in model and model["layers"] != ["gp"]:
            return f"{needs} one GP layer, model.layers=[gp]; they are {show_value(model['layers'])}"
        return None

    def _latents(self, model: Mapping[str, Any]) -> str | None:
        """Which bound fits which layers."""
        layers, bound = model["layers"], self.settings["bound"]
        if bound != "vi" and "lv" not in layers:
            return (
                f"model.layers={show_value(layers)} has no latent variables: inference.bound={bound} needs "
                "an lv layer; use vi"
            )
        if self.settings["dreg"] and bound != "iwvi":
            return f"inference.dreg=true is a gradient of iwvi; inference.bound is {bound}"
        return self._quadrature(layers, model) if bound == "optimal" else None

    def _quadrature(self, layers: list[str], model: Mapping[str, Any]) -> str | None:
        if layers.count("lv") != 1 or layers[-2] != "lv":
            return (
                "inference.bound=optimal integrates over one latent layer right below the last gp, as in "
                f"[lv,gp]; model.layers is {show_value(layers)}; use inference=iwvi"
            )
        own = model.get("layer_overrides", {}).get(str(len(layers) - 2), {})
        dim = own.get("latent_dim", model["latent_dim"])
        rule, nodes = self.settings["quadrature"]["rule"], self.settings["quadrature"]["nodes"]
        most = {"adaptive": 1, "hermite": 2}[rule]
        if dim > most:
            return (
                f"quadrature over {dim}-dimensional latent variables is not possible; the {rule} rule takes "
                f"model.latent_dim of at most {most}; use inference=vi or iwvi"
            )
        if rule == "adaptive" and (nodes % 2 or nodes < 16):
            return f"inference.quadrature.nodes={nodes} must be even and at least 16 under the adaptive rule"
        return None

    def _softmax(self, model: Mapping[str, Any], likelihood: str) -> str | None:
        bound = self.settings["bound"]
        if likelihood != "softmax" or bound == "vi" or "lv" not in model["layers"]:
            return None
        return (
            f"likelihood=softmax is sampled, which inference.bound={bound} cannot take inside its logarithm; "
            "use inference=vi or likelihood=robustmax"
        )

    # ---- bound and update ----------------------------------------------------------------------------

    def bound(self, model: DeepGP) -> Bound:
        from dgpbench.inference.bounds import IWVI, VI, DirectVI, Optimal

        settings, samples = self.settings, self.settings["samples"]
        priors = priors_of(self.cfg["model"].get("priors") or {}, model)
        if not self.cfg["model"].get("whiten", True):
            return DirectVI(model, samples, priors=priors)
        if not model.latent or settings["bound"] == "vi":
            return VI(model, samples, priors=priors)
        if settings["bound"] == "optimal":
            return Optimal(model, samples, **settings["quadrature"], priors=priors)
        joint = self.cfg["model"].get("compat") != "released"
        return IWVI(model, samples, settings["importance_samples"], joint, settings["dreg"], priors=priors)

    def update(self, bound: Bound) -> Update:
        from dgpbench.inference.updates.adam import Adam, GradientAscent
        from dgpbench.inference.updates.linesearch import LineSearch
        from dgpbench.inference.updates.natural import NaturalAdam

        natgrad = self.settings["natgrad"]
        match self.settings["optimiser"]:
            case "adam":
                return Adam()
            case "gd":
                return GradientAscent()
            case optimiser:
                gps = bound.model.gps
        if natgrad.get("step") == "linesearch":
            how = natgrad["parameterisation"], natgrad["direction"]
            return LineSearch(bound.model, gps[-1], *how, bound.whitened)
        layers = gps if optimiser == "ngd_all" else gps[-1:]
        how = natgrad["parameterisation"], natgrad["alternate"]
        return NaturalAdam(bound.model, layers, *how, bound.whitened)

    def rates(self) -> dict[str, float]:
        ngd = self.settings["natgrad"]
        return adam_rates(self.settings["adam"]) | {
            "gamma": float(ngd["gamma"]),
            "inner_gamma": float(ngd["inner_gamma"] or ngd["gamma"]),
            "gamma_initial": float(ngd["gamma_initial"]),
            "gamma_ramp": float(ngd["ramp_steps"]),
            "gamma_decay": float(ngd["decay"]),
            "gamma_decay_steps": float(ngd["decay_steps"]),
        }
