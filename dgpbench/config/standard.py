"""Settings that follow from the choice of inference and from the budget, where they are `auto` or null.

Each method has the precision that it needs, and samplers divide the budget into their phases. The default
inference, and nothing else, starts from the data, has inner layers with a kernel for each output and grows
its budget with the rows; first values, layers and steps that are asked for are taken as they are. A named
inference does as its paper, and as it always did: its keys do not change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dgpbench.config import expand
from dgpbench.config.refusals import SAMPLED, burn_in_of, unused_sections
from dgpbench.config.targets import create_method
from dgpbench.config.tree import conf_dir, default_options
from dgpbench.errors import UserError

FROM_DATA = ("likelihood_variance", "kernel_variance", "lengthscale")  # not read under model.start=data
KEPT = 100  # samples of each chain of model=gpmc, where the budget has room for them
STACKED = ("rbf", "matern12", "matern32", "matern52", "rational_quadratic")  # kernels of model.per_output


def settle(cfg: dict, given: Sequence[str]) -> None:
    """Fill in the settings of a config with valid fields that are left to the method or the budget.

    `given` are the fields that the command line sets: steps that it asks for are the steps that are made.
    """
    model, budget = cfg["model"], cfg["budget"]
    elsewhere = bool(unused_sections(model))
    standard = not elsewhere and cfg["inference"]["name"] == default_options()["inference"]
    if "layers" in model:
        own = "all" if standard and _can_be_separate(model, cfg["inference"]) else "none"
        for part in (model, *_overrides(model)):
            if part.get("per_output") == "auto":
                part["per_output"] = own
        if model.get("start") == "auto":
            model["start"] = "data" if standard and not _asked_for(model, given) else "config"
        elif model.get("start") == "data" and (asked := [n for n in FROM_DATA if f"model.{n}" in given]):
            raise UserError(
                f"model.{asked[0]} is not read under model.start=data, which takes it from the training "
                "rows; leave one of the two out, or set model.start=config"
            )
    if budget.get("growth") == "auto":
        grows = standard and ("budget.steps" not in given or "budget.growth" in given)
        budget["growth"] = "sqrt" if grows else "none"
        if not grows and "budget.max_steps" not in given:
            budget["max_steps"] = None
    if model["_target_"] == SAMPLED and model.get("kept", KEPT) is None and budget["steps"]:
        model["kept"] = min(KEPT, budget["steps"] - burn_in_of(cfg))
    method = None if elsewhere else create_method(cfg)
    if method:
        cfg["inference"] |= method.scaled(budget["steps"])
    if cfg["precision"] == "auto":
        cfg["precision"] = method.precision(model) if method and "layers" in model else "mixed"


def _asked_for(model: Mapping[str, Any], given: Sequence[str]) -> bool:
    """Whether the command line, the model's own file or a single layer sets one of the first values."""
    if model.get("likelihood_variance_trainable") is False:  # the noise stays where it starts
        return True
    usual = expand.read(conf_dir() / "model" / "_gp.yaml")
    return any(
        (f"model.{name}" in given and "model.start" not in given)
        or model.get(name) != usual[name]
        or any(name in part for part in _overrides(model))
        for name in FROM_DATA
    )


def _can_be_separate(model: Mapping[str, Any], inference: Mapping[str, Any]) -> bool:
    """Whether a model has inner GP layers, no others, and kernels that take an axis of outputs."""
    layers = model["layers"]
    kernels = [model.get("kernel"), *(part.get("kernel", "rbf") for part in _overrides(model))]
    return (
        len(layers) > 1
        and set(layers) == {"gp"}
        and all(kernel in STACKED for kernel in kernels)
        and not any(model.get(name) for name in ("inner_gps", "compat"))
        and model.get("whiten", True) is True
        and inference.get("optimiser") != "ngd_all"
    )


def _overrides(model: Mapping[str, Any]) -> list[dict]:
    """Return the settings of single layers."""
    return list(model.get("layer_overrides", {}).values())
