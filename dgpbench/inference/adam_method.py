"""Methods that train by Adam, and reasons to refuse a model that several methods share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from dgpbench.config.schema import COUNT, POSITIVE, RATE, SWITCH, Field
from dgpbench.inference.base import Bound, Method, Update

ADAM_FIELDS = {
    "adam.learning_rate": POSITIVE,
    "adam.decay": RATE,
    "adam.decay_steps": COUNT,
    "adam.staircase": SWITCH,
}
ADAM_RATES = ("learning_rate", "lr_decay", "lr_decay_steps", "lr_staircase")


class AdamMethod(Method):
    """A method whose update is Adam on all parameters."""

    fields: ClassVar[Mapping[str, Field]] = ADAM_FIELDS

    def update(self, bound: Bound) -> Update:
        from dgpbench.inference.updates.adam import Adam

        return Adam()

    def rates(self) -> dict[str, float]:
        return adam_rates(self.settings["adam"])


def adam_rates(adam: Mapping[str, float]) -> dict[str, float]:
    """Return the rates of Adam (updates/adam.py) for the `adam` section of a config."""
    fields = ("learning_rate", "decay", "decay_steps", "staircase")
    return {rate: float(adam[name]) for rate, name in zip(ADAM_RATES, fields, strict=True)}


def correlated_outputs(own: str, model: Mapping[str, Any], *names: str) -> str | None:
    """Return why the method `own` refuses a model that mixes GPs by one of the settings `names`."""
    for name in names:
        if model.get(name):
            return (
                f"model.{name}={model[name]} makes correlated outputs, and inference={own} takes each by "
                f"itself; set model.{name}=null or use inference=dsvi"
            )
    return None


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
