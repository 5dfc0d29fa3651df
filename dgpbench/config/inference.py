"""Check of the inference section: its own fields, then what model and likelihood allow."""

from __future__ import annotations

from dgpbench.config.schema import GP_TARGET, INFERENCE, show_value
from dgpbench.config.sections import check_section
from dgpbench.errors import UserError


def check_inference(values: dict, model: dict, likelihood: dict) -> dict:
    """The inference section with its values converted; UserError where it does not fit the model and the
    likelihood, which are checked already."""
    inference = check_section("inference", values, INFERENCE, closed=True)
    _latents(model, inference)
    _line_search(model, inference)
    target = model["_target_"]
    if target.startswith("dgpbench.") and target != GP_TARGET and inference["hyperparameters"] == "fixed":
        setting = "inference.hyperparameters=fixed"
        raise UserError(f"{setting} is for GP models; model={model['name']} is none, leave it out")
    if likelihood["name"] == "softmax" and inference["bound"] != "vi" and "lv" in model.get("layers", ()):
        raise UserError(
            f"likelihood=softmax is sampled, which inference.bound={inference['bound']} cannot take inside"
            " its logarithm; use inference=vi or likelihood=robustmax"
        )
    return inference


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


def _latents(model: dict, inference: dict) -> None:
    """Refuse a bound that does not fit the layers."""
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
