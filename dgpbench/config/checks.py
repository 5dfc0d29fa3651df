"""Check of a whole composed config: every field by the schema, then their combination (refusals.py)."""

from __future__ import annotations

import re

from dgpbench.config import refusals
from dgpbench.config.budget import budget_of
from dgpbench.config.inference import check_inference
from dgpbench.config.priors import check_priors
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
from dgpbench.errors import UserError

SECRET_FIELD = re.compile(r"pass(word|wd)|secret|token|api_?key|credential", re.I)
SECRET_TEXT = re.compile(r"//[^/\s]*@|(pass(word|wd)|secret|token|api_?key)=", re.I)


def validate(cfg: dict) -> None:
    """Raise UserError for the first field that is missing, misspelt, of a wrong type or out of range."""
    normalise(cfg)


def normalise(cfg: dict) -> dict:
    """A checked copy in which 1 is 1.0 where a real number is meant, and layer numbers are text."""
    out = check_fields(cfg)
    refusals.check(out)
    return out


def check_fields(cfg: dict) -> dict:
    """Return the copy of `normalise` after the check of each field, before that of their combination."""
    cfg = {"tracker": {"name": "none"}, **cfg}  # records keep no tracker
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
    if name != "none" and not target.startswith(refusals.OURS):
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
