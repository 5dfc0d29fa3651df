"""Which models a method takes: refusals that several methods share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def gp_layers_only(own: str, model: Mapping[str, Any], separate: bool = False) -> str | None:
    """Why a method named `own` that knows GP layers only refuses a model; None where it does not. `separate`:
    it takes layers with a kernel for each output."""
    if not separate and any_separate(model):
        return f"inference={own} takes layers with one kernel for all outputs; set model.per_output=none"
    others = [kind for kind in model.get("layers", ()) if kind != "gp"]
    if not others:
        return None
    words = {
        "lv": "latent variables (lv): use inference=vi, iwvi or optimal",
        "linear": "a linear projection",
        **dict.fromkeys(("warp", "align"), "a monotone warp: use inference=dsvi or fast"),
    }
    return f"inference={own} is for GP layers; model={model['name']} has {words.get(others[0], others[0])}"


def any_separate(model: Mapping[str, Any]) -> bool:
    """Whether some layer has a kernel for each output."""
    return any(own != "none" for own in _per_output(model))


def any_own_inducing(model: Mapping[str, Any]) -> bool:
    """Whether some layer has inducing inputs for each output."""
    return "all" in _per_output(model)


def _per_output(model: Mapping[str, Any]) -> list[str]:
    """`per_output` of the model and of its single layers."""
    each = (model, *(model.get("layer_overrides") or {}).values())
    return [settings.get("per_output", "none") for settings in each]
