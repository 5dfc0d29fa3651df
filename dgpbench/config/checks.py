"""Check of a whole composed config: every field by the schema, then what holds between fields."""

from __future__ import annotations

import re

from dgpbench.config.budget import budget_of, refuses_stop
from dgpbench.config.inference import check_inference
from dgpbench.config.priors import check_priors
from dgpbench.config.protocol import check_split, is_trial
from dgpbench.config.schema import (
    CLOSED,
    DATASET,
    LAST_LAYER_FIXED,
    LAUNCHER,
    LAYERS,
    LIKELIHOODS,
    MODEL,
    PER_LAYER,
    REQUIRED,
    SECTIONS,
    TEXT,
    TOP,
    TRACKERS,
    check_field,
    show_value,
)
from dgpbench.config.sections import check_names, check_section, flatten
from dgpbench.config.suggest import did_you_mean
from dgpbench.config.targets import create_method
from dgpbench.errors import UserError

OURS = "dgpbench."  # before the targets of the models that come with this package
FIDELITIES = (
    "dgpbench.models.mfdgp.MultiFidelity"  # GP layers by the levels of the data, not by `model.layers`
)
SECRET_FIELD = re.compile(r"pass(word|wd)|secret|token|api_?key|credential", re.I)
SECRET_TEXT = re.compile(r"//[^/\s]*@|(pass(word|wd)|secret|token|api_?key)=", re.I)
SAMPLED = "dgpbench.models.classics.gpmc.GPMC"  # samples its hyperparameters by itself


def validate(cfg: dict) -> None:
    """Raise UserError for the first field that is missing, misspelt, of a wrong type or out of range."""
    normalise(cfg)


def normalise(cfg: dict) -> dict:
    """A checked copy in which 1 is 1.0 where a real number is meant, and layer numbers are text."""
    out = dict(cfg)
    check_names("", cfg, [*TOP, *SECTIONS])
    out.update(check_section("", {k: cfg[k] for k in TOP if k in cfg}, TOP, closed=True))
    for section in SECTIONS:
        if not isinstance(cfg.get(section), dict):
            example = f"{section}.{next(iter(CLOSED.get(section, {'name': None})))}=..."
            raise UserError(f"'{section}' must be a section with fields of its own; set them, e.g. {example}")
        if section in CLOSED:
            values = budget_of(cfg) if section == "budget" else cfg[section]
            out[section] = check_section(section, values, CLOSED[section], closed=True)
    out["dataset"] = check_section("dataset", cfg["dataset"], DATASET, required=DATASET)
    out["launcher"] = check_section("launcher", cfg["launcher"], LAUNCHER, required=LAUNCHER)
    out["tracker"] = _tracker(cfg["tracker"])
    out["model"] = _model(cfg["model"])
    out["likelihood"] = _likelihood(cfg["likelihood"])
    out["inference"] = check_inference(cfg["inference"])
    _relations(out)
    return out


def _model(values: dict) -> dict:
    required = REQUIRED.get(str(values.get("_target_")), ("_target_", "name"))
    model = check_section("model", values, MODEL, required=required)
    if "layers" in model:
        layers = model["layers"]
        unknown = [layer for layer in layers if layer not in LAYERS]
        if unknown or not layers:
            raise UserError(
                f"model.layers={show_value(layers)} is not allowed; it must be a list such as "
                f"[gp,gp], each one of: {', '.join(LAYERS)}"
            )
        _layer_order(layers, model)
    if model.get("inner_noise_trainable") and model.get("inner_noise") == 0:
        raise UserError(
            "model.inner_noise=0 cannot be trained; set model.inner_noise_trainable=false or a noise above 0"
        )
    if model.get("output_mixing") == "pixels" and not model.get("output_gps"):
        raise UserError("model.output_mixing=pixels needs GPs to mix; set model.output_gps, e.g. to 50")
    if model.get("output_mixing_trainable") is False and not model.get("output_gps"):
        raise UserError(
            "model.output_mixing_trainable=false needs GPs to mix; set model.output_gps, e.g. to 50"
        )
    if model.get("start") == "data" and model.get("likelihood_variance_trainable") is False:
        raise UserError(
            "model.likelihood_variance_trainable=false keeps model.likelihood_variance, which "
            "model.start=data would replace; set model.start=config"
        )
    if "priors" in model:
        model["priors"] = check_priors(model["priors"])
    if "layer_overrides" in model:
        model["layer_overrides"] = _layer_overrides(model["layer_overrides"], len(model.get("layers", [])))
    return model


def _tracker(values: dict) -> dict:
    """A tracker's section: closed if the tracker is ours. Plans keep it, so it must not hold a secret."""
    name, target = values.get("name"), str(values.get("_target_", ""))
    for field, value in flatten(values).items():
        if SECRET_FIELD.search(field) or (isinstance(value, str) and SECRET_TEXT.search(value)):
            raise UserError(
                f"tracker.{field} must not hold a secret, which would be stored in plans; keep it in the "
                "environment (MLFLOW_TRACKING_URI, MLFLOW_TRACKING_TOKEN, WANDB_API_KEY)"
            )
    own = {"name": TEXT} if name == "none" else {"name": TEXT, "_target_": TEXT}
    if name != "none" and not target.startswith(OURS):
        return check_section("tracker", values, own, required=own)
    if name not in TRACKERS:
        raise UserError(
            f"tracker.name={show_value(name)} is unknown{did_you_mean(str(name), list(TRACKERS))}"
        )
    return check_section("tracker", values, own | TRACKERS[name], closed=True)


def _likelihood(values: dict) -> dict:
    name = values.get("name")
    if name not in LIKELIHOODS:
        hint = did_you_mean(str(name), list(LIKELIHOODS))
        raise UserError(f"likelihood.name={show_value(name)} is no likelihood{hint}")
    likelihood = check_section("likelihood", values, {"name": TEXT, **LIKELIHOODS[name]}, closed=True)
    if name == "ordinal" and likelihood["low"] >= likelihood["high"]:
        raise UserError("likelihood.low must be below likelihood.high, e.g. -2 and 2")
    return likelihood


def _layer_order(layers: list[str], model: dict) -> None:
    shown = f"model.layers={show_value(layers)} is not allowed;"
    if layers[-1] != "gp":
        raise UserError(f"{shown} the last layer must be gp")
    if "linear" in layers[1:]:
        raise UserError(f"{shown} linear projects the inputs and can only come first")
    for kind in ("warp", "align"):
        if kind in layers[1:] or (kind == layers[0] and "lv" in layers):
            raise UserError(f"{shown} {kind} warps the inputs: it can only come first, before gp layers")
    width = model.get("projection_dim")
    if (layers[0] == "linear") != (width is not None):
        raise UserError(
            f"model.layers={show_value(layers)} and model.projection_dim={show_value(width)}"
            " do not fit; a projection needs both: model.layers=[linear,lv,gp] model.projection_dim=10"
        )
    if model.get("use_inputs") is False and layers[0] != "lv":
        raise UserError(f"{shown} without inputs (model.use_inputs=false) the first layer must be lv")


def _layer_overrides(overrides: dict, depth: int) -> dict[str, dict]:
    out: dict[str, dict] = {}
    for layer, settings in overrides.items():
        name = f"model.layer_overrides.{layer}"
        if not str(layer).isdecimal() or int(layer) >= depth:
            raise UserError(f"{name} names no layer; layers are numbered 0 to {depth - 1}")
        if not isinstance(settings, dict):
            raise UserError(
                f"{name}={show_value(settings)} is not allowed; it must be a mapping, "
                f"e.g. {name}.kernel=matern52"
            )
        check_names(f"{name}.", settings, list(PER_LAYER))
        out[str(int(layer))] = {k: check_field(f"{name}.{k}", v, MODEL[k]) for k, v in settings.items()}
        fixed = [k for k in settings if k in LAST_LAYER_FIXED]
        if int(layer) == depth - 1 and fixed:
            raise UserError(f"{name}.{fixed[0]} is a setting of inner layers and not of the last")
    return dict(sorted(out.items(), key=lambda item: int(item[0])))


def _relations(cfg: dict) -> None:
    check_split(cfg["split"], cfg["dataset"], cfg["protocol"])
    protocol = cfg["protocol"]
    if protocol["train_fraction"] == 1 and protocol["name"] != "whole":
        raise UserError(
            "protocol.train_fraction=1 leaves no test rows; it must be below 1, or take protocol=whole, "
            "which scores the training rows"
        )
    if is_trial(cfg) and not protocol["validation"]:
        raise UserError(
            "protocol.evaluate=validation needs rows to evaluate; set protocol.validation, e.g. to 0.1"
        )
    _for_gps(cfg)
    method = create_method(cfg)
    if not cfg["model"].get("whiten", True) and not method.direct_q:
        raise UserError(
            f"model.whiten=false is for inference=dsvi, gd, ngd_adam, ngd_all and fast; "
            f"inference={cfg['inference']['name']} has coordinates of its own"
        )
    if reason := method.refuses(cfg["model"], cfg["likelihood"]["name"]):
        raise UserError(reason)
    if cfg["model"].get("priors") and (reason := _unused_priors(cfg, method.takes_priors)):
        raise UserError(reason)
    if cfg["model"].get("kronecker") and (reason := _no_grid(cfg)):
        raise UserError(
            f"model.kronecker=true takes a grid apart that stays one, under an RBF kernel: {reason}"
        )
    if cfg["budget"]["steps"] is None and cfg["budget"]["seconds"] is None:
        raise UserError("the budget is empty; set budget.steps or budget.seconds")
    if cfg["budget"].get("max_steps") and cfg["budget"]["growth"] == "none":
        raise UserError(
            "budget.max_steps is the most that budget.growth=sqrt makes of budget.steps, and these do not "
            "grow here; set budget.steps, or budget.growth=sqrt too"
        )
    if reason := refuses_stop(cfg):
        raise UserError(reason)


def _unused_priors(cfg: dict, takes_priors: bool) -> str | None:
    """Why model.priors would mean nothing, if they would. A model that is not ours may have its own."""
    model = cfg["model"]
    if "layers" in model and not takes_priors:
        return (
            "model.priors are for inference=sgpmc and the variational methods, such as fast and dsvi; "
            f"inference={cfg['inference']['name']} has no use for them: leave them out"
        )
    if "layers" in model or model["_target_"] == SAMPLED or not model["_target_"].startswith(OURS):
        return None
    return (
        f"model.priors are not for model={model['name']}; use model=gpmc, or model=sgp with inference=sgpmc"
        " or a variational one, or leave them out"
    )


def _no_grid(cfg: dict) -> str | None:
    """What model.kronecker=true lacks."""
    model, start = cfg["model"], cfg["inference"].get("start", {})
    wanted = {
        "model.inducing=grid": model["inducing"] == "grid",
        "model.kernel=rbf": model["kernel"] == "rbf",
        "inference=sgpmc inference.start.inducing=fixed": start.get("inducing") == "fixed",
    }
    missing = [setting for setting, is_set in wanted.items() if not is_set]
    return f"set {' '.join(missing)}" if missing else None


def _for_gps(cfg: dict) -> None:
    """Refuse settings that our own models other than GPs trained by an inference would ignore."""
    model = cfg["model"]
    if "layers" in model or model["_target_"] == FIDELITIES or not model["_target_"].startswith(OURS):
        return
    given = {
        "inference.hyperparameters=fixed": cfg["inference"]["hyperparameters"] == "fixed",
        "engine.trace_test=true": cfg["engine"]["trace_test"],
    }
    for setting in (name for name, is_set in given.items() if is_set):
        if model.get("own_training"):
            raise UserError(
                f"{setting} is not for model={model['name']}, which trains in its own way; leave it out"
            )
        raise UserError(f"{setting} is for GP models; model={model['name']} is none, leave it out")
    if (name := cfg["likelihood"]["name"]) != "auto" and not model.get("own_training"):
        raise UserError(
            f"likelihood={name} is for GP models; model={model['name']} has its own, leave likelihood=auto"
        )
