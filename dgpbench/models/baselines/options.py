"""Checks of a baseline's own fields, with the words that the schema has for all others."""

from __future__ import annotations

from typing import Any

from dgpbench.config.schema import Field, check_field, show_value
from dgpbench.errors import UserError


def option(cfg: dict, name: str, field: Field) -> Any:
    """model.`name` in its type and range, or a UserError that says what it may be."""
    if name not in cfg["model"]:
        raise UserError(f"model.{name} is missing; give it a value in the yaml file of this model")
    return check_field(f"model.{name}", cfg["model"][name], field)


def hidden_sizes(cfg: dict) -> tuple[int, ...]:
    """model.hidden: the widths of a network's hidden layers."""
    sizes = option(cfg, "hidden", Field(list))
    if any(type(size) is not int or size < 1 for size in sizes):
        raise UserError(
            f"model.hidden={show_value(sizes)} is not allowed; model.hidden must be a list of whole numbers,"
            " each at least 1, e.g. [50,50], or [] for no hidden layer"
        )
    return tuple(sizes)
