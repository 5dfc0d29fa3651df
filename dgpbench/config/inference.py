"""Check of the inference section: the fields of the method that its `_target_` names."""

from __future__ import annotations

from dgpbench.config.keys import LATER_DEFAULTS
from dgpbench.config.schema import INFERENCE, Field
from dgpbench.config.sections import check_section
from dgpbench.config.targets import method_class


def inference_fields(values: dict) -> dict[str, Field]:
    """Fields of every method, and those that this one declares."""
    return INFERENCE | dict(method_class(values).fields)


def check_inference(values: dict) -> dict:
    """The inference section with its values converted."""
    values = {"_target_": LATER_DEFAULTS["inference._target_"]} | values
    return check_section("inference", values, inference_fields(values), closed=True)
