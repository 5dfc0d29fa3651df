"""Check of a whole composed config: every field by the schema, then their combination (refusals.py)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dgpbench.config import plugins, refusals
from dgpbench.config.classes import likelihood_class, method_class
from dgpbench.config.derived import budget_of
from dgpbench.config.kernel_names import leaves
from dgpbench.config.keys import LATER_DEFAULTS
from dgpbench.config.schema import (
    CLOSED,
    DATASET,
    INFERENCE,
    LAST_LAYER_FIXED,
    LAUNCHER,
    LAYERS,
    MODEL,
    PER_LAYER,
    REQUIRED,
    SECTIONS,
    TEXT,
    TOP,
    TRACKERS,
    Field,
    check_field,
    show_value,
)
from dgpbench.config.sections import check_names, check_section, flatten
from dgpbench.config.suggest import did_you_mean
from dgpbench.errors import UserError

PRIORS = ("lengthscale", "kernel_variance", "likelihood_variance")  # named as their initial values are
PRIOR_FAMILIES = {  # by name: its arguments; all but `location` are positive
    "gamma": ("shape", "rate"),
    "inverse_gamma": ("shape", "scale"),
    "lognormal": ("location", "scale"),
    "half_normal": ("scale",),
}
LEAST, MOST = 1e-6, 1e6  # sizes of arguments whose densities, and squares, are finite numbers
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
    plugins.declare("kernel", values.get("kernels", {}))
    model = check_section("model", values, MODEL, required=required)
    if "layers" in model:
        layers = model["layers"]
        unknown = [layer for layer in layers if layer not in LAYERS]
        if unknown or not layers:
            raise UserError(
                f"model.layers={show_value(layers)} is not allowed; it must be a list such as "
                f"[gp,gp], each one of: {', '.join(LAYERS)}"
            )
    if "priors" in model:
        model["priors"] = check_priors(model["priors"])
    if "layer_overrides" in model:
        model["layer_overrides"] = _layer_overrides(model["layer_overrides"], len(model.get("layers", [])))
    parts = (model, *model.get("layer_overrides", {}).values())
    used = {name for part in parts if "kernel" in part for name in leaves(part["kernel"])}
    if own := sorted(used - {*plugins.built_in("kernel")}):  # so that records name the code
        model["kernels"] = {name: {"_target_": plugins.entries("kernel")[name].target} for name in own}
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
    """The likelihood's section. That of a user gets its `_target_`, so that records name the code."""
    name = values.get("name")
    if name == "auto":
        return check_section("likelihood", values, {"name": TEXT}, closed=True)
    fields: dict[str, Field] = {"name": TEXT}
    known = plugins.entries("likelihood")
    if name not in plugins.built_in("likelihood"):
        if name in known:
            values = {"_target_": known[name].target} | values
        if "_target_" not in values:
            hint = did_you_mean(str(name), ["auto", *known])
            raise UserError(f"likelihood.name={show_value(name)} is no likelihood{hint}")
        fields |= {"_target_": TEXT}
    kind = likelihood_class(values)
    likelihood = check_section("likelihood", values, fields | dict(kind.fields), closed=True)
    kind.check(likelihood)
    return likelihood


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


def check_priors(priors: Mapping[str, Any]) -> dict[str, list]:
    """Priors with their arguments as numbers; UserError for an unknown name or family and for an argument
    that is none."""
    out = {}
    for name, prior in priors.items():
        field = f"model.priors.{name}"
        if name not in PRIORS:
            raise UserError(f"unknown key '{field}'{did_you_mean(name, PRIORS)}")
        if prior is None:
            continue
        shown = f"{field}={show_value(prior)} is not allowed"
        if not isinstance(prior, list) or not prior or prior[0] not in PRIOR_FAMILIES:
            known = ", ".join(show_value([family, *names]) for family, names in PRIOR_FAMILIES.items())
            raise UserError(f"{shown}; a prior is one of {known}, or null for none")
        family, *arguments = prior
        names = PRIOR_FAMILIES[family]
        if len(arguments) != len(names):
            example = show_value([family, *[1] * len(names)])
            raise UserError(f"{shown}; {family} takes {' and '.join(names)}, e.g. {field}={example}")
        for argument, value in zip(names, arguments, strict=True):
            least = -MOST if argument == "location" else LEAST
            if type(value) not in (int, float) or not least <= value <= MOST:
                kind = "a number" if argument == "location" else "a positive number"
                raise UserError(
                    f"{shown}; the {argument} of {family} must be {kind}, not {show_value(value)}: from "
                    f"{least:g} to {MOST:g}"
                )
        out[name] = [family, *map(float, arguments)]
    return out


def inference_fields(values: dict) -> dict[str, Field]:
    """Fields of every method, and those that this one declares."""
    return INFERENCE | dict(method_class(values).fields)


def check_inference(values: dict) -> dict:
    """The inference section with its values converted."""
    values = {"_target_": LATER_DEFAULTS["inference._target_"]} | values
    return check_section("inference", values, inference_fields(values), closed=True)
