"""Check a whole composed config: every field by the schema, then what holds between fields."""

from __future__ import annotations

from typing import Any

from dgpbench.config.protocol import check_split
from dgpbench.config.schema import (
    CLOSED,
    DATASET,
    GP_REQUIRED,
    GP_TARGET,
    LAST_LAYER_FIXED,
    LAUNCHER,
    LAYERS,
    LIKELIHOODS,
    MODEL,
    PER_LAYER,
    SECTIONS,
    TEXT,
    TOP,
    Field,
    check_field,
    show_value,
)
from dgpbench.config.suggest import did_you_mean
from dgpbench.errors import UserError


def validate(cfg: dict) -> None:
    """Raise UserError for the first field that is missing, misspelt, of a wrong type or out of range."""
    normalise(cfg)


def normalise(cfg: dict) -> dict:
    """A checked copy in which 1 is 1.0 where a real number is meant, and layer numbers are text."""
    out = dict(cfg)
    _names("", cfg, [*TOP, *SECTIONS])
    out.update(_section("", {k: cfg[k] for k in TOP if k in cfg}, TOP, closed=True))
    for section in SECTIONS:
        if not isinstance(cfg.get(section), dict):
            example = f"{section}.{next(iter(CLOSED.get(section, {'name': None})))}=..."
            raise UserError(f"'{section}' must be a section with fields of its own; set them, e.g. {example}")
        if section in CLOSED:
            out[section] = _section(section, cfg[section], CLOSED[section], closed=True)
    out["dataset"] = _section("dataset", cfg["dataset"], DATASET, required=DATASET)
    out["launcher"] = _section("launcher", cfg["launcher"], LAUNCHER, required=LAUNCHER)
    out["model"] = _model(cfg["model"])
    out["likelihood"] = _likelihood(cfg["likelihood"])
    _relations(out)
    return out


def flatten(tree: dict, prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one mapping with dotted names; an empty mapping stays a value."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _names(prefix: str, given: dict, allowed: list[str]) -> None:
    for name in given:
        if name not in allowed:
            hint = did_you_mean(f"{prefix}{name}", [prefix + a for a in allowed])
            raise UserError(f"unknown key '{prefix}{name}'{hint}")


def _section(section: str, values: dict, fields: dict[str, Field], closed=False, required=()) -> dict:
    """Check one section. Closed: exactly these fields. Otherwise others pass unchecked (a user's own)."""
    prefix = f"{section}." if section else ""
    flat = flatten(values) if closed else values
    if closed:
        _names(prefix, flat, list(fields))
    for name in fields if closed else required:
        if name not in flat:
            raise UserError(f"{prefix}{name} is missing; give it a value in the yaml file of this {section}")
    out: dict = {}
    for name, value in flat.items():
        checked = check_field(prefix + name, value, fields[name]) if name in fields else value
        *parents, leaf = name.split(".") if closed else [name]
        node = out
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = checked
    return out


def _model(values: dict) -> dict:
    gp = values.get("_target_") == GP_TARGET
    model = _section("model", values, MODEL, required=GP_REQUIRED if gp else ("_target_", "name"))
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
    if "layer_overrides" in model:
        model["layer_overrides"] = _layer_overrides(model["layer_overrides"], len(model.get("layers", [])))
    return model


def _likelihood(values: dict) -> dict:
    name = values.get("name")
    if name not in LIKELIHOODS:
        hint = did_you_mean(str(name), list(LIKELIHOODS))
        raise UserError(f"likelihood.name={show_value(name)} is no likelihood{hint}")
    likelihood = _section("likelihood", values, {"name": TEXT, **LIKELIHOODS[name]}, closed=True)
    if name == "ordinal" and likelihood["low"] >= likelihood["high"]:
        raise UserError("likelihood.low must be below likelihood.high, e.g. -2 and 2")
    return likelihood


def _layer_order(layers: list[str], model: dict) -> None:
    shown = f"model.layers={show_value(layers)} is not allowed;"
    if layers[-1] != "gp":
        raise UserError(f"{shown} the last layer must be gp")
    if "linear" in layers[1:]:
        raise UserError(f"{shown} linear projects the inputs and can only come first")
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
        _names(f"{name}.", settings, list(PER_LAYER))
        out[str(int(layer))] = {k: check_field(f"{name}.{k}", v, MODEL[k]) for k, v in settings.items()}
        fixed = [k for k in settings if k in LAST_LAYER_FIXED]
        if int(layer) == depth - 1 and fixed:
            raise UserError(f"{name}.{fixed[0]} is a setting of inner layers and not of the last")
    return dict(sorted(out.items(), key=lambda item: int(item[0])))


def _relations(cfg: dict) -> None:
    check_split(cfg["split"], cfg["dataset"], cfg["protocol"])
    _latents(cfg["model"], cfg["inference"])
    _line_search(cfg["model"], cfg["inference"])
    _for_gps(cfg)
    _likelihood_fits(cfg["likelihood"]["name"], cfg["model"], cfg["inference"])
    if cfg["budget"]["steps"] is None and cfg["budget"]["seconds"] is None:
        raise UserError("the budget is empty; set budget.steps or budget.seconds")


def _for_gps(cfg: dict) -> None:
    """What our own models other than GPs would ignore."""
    target = cfg["model"]["_target_"]
    if target == GP_TARGET or not target.startswith("dgpbench."):
        return
    given = {
        "inference.hyperparameters=fixed": cfg["inference"]["hyperparameters"] == "fixed",
        "engine.trace_test=true": cfg["engine"]["trace_test"],
    }
    for setting in (name for name, is_set in given.items() if is_set):
        raise UserError(f"{setting} is for GP models; model={cfg['model']['name']} is none, leave it out")


def _line_search(model: dict, inference: dict) -> None:
    """A line search moves one q(u) and nothing else."""
    natgrad = inference["natgrad"]
    if natgrad["step"] != "linesearch":
        if natgrad["direction"] != "natural":
            raise UserError(
                f"inference.natgrad.direction={natgrad['direction']} is a direction of a line search; add "
                "inference.natgrad.step=linesearch, or choose inference=gd or dsvi"
            )
        return
    needs = "inference.natgrad.step=linesearch needs"
    if inference["optimiser"] != "ngd_adam":
        raise UserError(f"{needs} inference.optimiser=ngd_adam; it is {inference['optimiser']}")
    if inference["hyperparameters"] != "fixed":
        raise UserError(f"{needs} inference.hyperparameters=fixed: the search is over q(u) alone")
    if "layers" in model and model["layers"] != ["gp"]:
        raise UserError(f"{needs} one GP layer, model.layers=[gp]; they are {show_value(model['layers'])}")


def _likelihood_fits(name: str, model: dict, inference: dict) -> None:
    """Where a likelihood would be ignored, or its expectation does not serve the bound."""
    target = model["_target_"]
    if name != "auto" and target.startswith("dgpbench.") and target != GP_TARGET:
        raise UserError(
            f"likelihood={name} is for GP models; model={model['name']} has its own, leave likelihood=auto"
        )
    if name == "softmax" and inference["bound"] != "vi" and "lv" in model.get("layers", ()):
        raise UserError(
            f"likelihood=softmax is sampled, which inference.bound={inference['bound']} cannot take inside"
            " its logarithm; use inference=vi or likelihood=robustmax"
        )


def _latents(model: dict, inference: dict) -> None:
    """Which bound fits which layers."""
    encoder, bound = inference["encoder"], inference["bound"]
    if any(type(width) is not int or width < 1 for width in encoder):
        raise UserError(
            f"inference.encoder={show_value(encoder)} is not allowed; it must be a list of hidden widths of "
            "at least 1, e.g. [20,20], or []"
        )
    if "layers" not in model:
        return
    layers, shown = model["layers"], f"model.layers={show_value(model['layers'])}"
    if bound != "vi" and "lv" not in layers:
        raise UserError(f"{shown} has no latent variables: inference.bound={bound} needs an lv layer; use vi")
    if inference["dreg"] and bound != "iwvi":
        raise UserError(f"inference.dreg=true is a gradient of iwvi; inference.bound is {bound}")
    if bound == "optimal":
        _quadrature(layers, model, inference["quadrature"])


def _quadrature(layers: list[str], model: dict, quadrature: dict) -> None:
    if layers.count("lv") != 1 or layers[-2] != "lv":
        raise UserError(
            "inference.bound=optimal integrates over one latent layer right below the last gp, as in [lv,gp];"
            f" model.layers is {show_value(layers)}; use inference=iwvi"
        )
    index = str(len(layers) - 2)
    dim = model.get("layer_overrides", {}).get(index, {}).get("latent_dim", model["latent_dim"])
    rule, nodes = quadrature["rule"], quadrature["nodes"]
    most = {"adaptive": 1, "hermite": 2}[rule]
    if dim > most:
        raise UserError(
            f"quadrature over {dim}-dimensional latent variables is not possible; the {rule} rule takes "
            f"model.latent_dim of at most {most}; use inference=vi or iwvi"
        )
    if rule == "adaptive" and (nodes % 2 or nodes < 16):
        raise UserError(
            f"inference.quadrature.nodes={nodes} must be even and at least 16 under the adaptive rule"
        )
