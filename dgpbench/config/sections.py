"""Sections of a config: flat and nested names, and the check of a section against its fields."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from dgpbench.config.schema import Field, check_field, show_value
from dgpbench.config.suggest import did_you_mean
from dgpbench.errors import UserError


def flatten(tree: dict, prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one mapping with dotted names; an empty mapping stays a value."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def nested(flat: dict[str, Any]) -> dict[str, Any]:
    """Dotted names as nested mappings: the inverse of `flatten`."""
    out: dict[str, Any] = {}
    for name, value in flat.items():
        *parents, leaf = name.split(".")
        node = out
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = value
    return out


def check_names(prefix: str, given: Collection[str], allowed: Collection[str]) -> None:
    """Raise UserError for the first name that is not allowed, with the nearest one that is."""
    for name in given:
        if name not in allowed:
            hint = did_you_mean(f"{prefix}{name}", [prefix + a for a in allowed])
            raise UserError(f"unknown key '{prefix}{name}'{hint}")


def check_plain(name: str, value: Any) -> None:
    """Raise UserError unless a free field holds what a record can: text, finite numbers, true, false, null,
    and lists and mappings of these."""
    if isinstance(value, dict):
        for key, part in value.items():
            check_plain(f"{name}.{key}", part)
    elif isinstance(value, list):
        for part in value:
            check_plain(name, part)
    elif not (value is None or isinstance(value, str | int | float)):
        raise UserError(f"{name} is a {type(value).__name__}; give text, a number, true, false or null")
    elif isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{name}={value} is not allowed; give a finite number, null, or text in quotes")


def check_section(section: str, values: dict, fields: dict[str, Field], closed=False, required=()) -> dict:
    """A section with its values converted. Closed: exactly these fields. Otherwise others pass unchecked, and
    only `required` ones must be there."""
    prefix = f"{section}." if section else ""
    flat = flatten(values) if closed else values
    if closed:
        check_names(prefix, flat, list(fields))
    for name in fields if closed else required:
        if name not in flat:
            raise UserError(f"{prefix}{name} is missing; give it a value in the yaml file of this {section}")
    for name, value in flat.items():
        if name not in fields:
            check_plain(prefix + name, value)
    checked = {k: check_field(prefix + k, v, fields[k]) if k in fields else v for k, v in flat.items()}
    return nested(checked) if closed else checked


def option(cfg: dict, name: str, field: Field) -> Any:
    """Return model.`name`, a field that the schema does not have, in its type and range."""
    if name not in cfg["model"]:
        raise UserError(f"model.{name} is missing; give it a value in the yaml file of this model")
    return check_field(f"model.{name}", cfg["model"][name], field)


def hidden_sizes(cfg: dict) -> tuple[int, ...]:
    """Return model.hidden, the widths of a network's hidden layers."""
    sizes = option(cfg, "hidden", Field(list))
    if any(type(size) is not int or size < 1 for size in sizes):
        raise UserError(
            f"model.hidden={show_value(sizes)} is not allowed; model.hidden must be a list of whole numbers,"
            " each at least 1, e.g. [50,50], or [] for no hidden layer"
        )
    return tuple(sizes)
