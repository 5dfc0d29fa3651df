"""Old configs: completed once, when they are read, by the options that came after them.

An option is added with the value that means what was done before it (keys.LATER_DEFAULTS), so that a
completed config has the key of the old one and is as whole as one composed today.
"""

from __future__ import annotations

from typing import Any

from dgpbench.config.keys import LATER_DEFAULTS
from dgpbench.config.schema import LIKELIHOODS
from dgpbench.config.sections import nested

OUTSIDE_KEYS: dict[str, Any] = {"engine.trace_test": False}  # later options that determine no number


def complete(cfg: dict) -> dict:
    """A config with every later option at its value at introduction, in nested sections too."""
    out = dict(cfg)
    if "model" in cfg:
        out.setdefault("likelihood", {"name": LATER_DEFAULTS["likelihood.name"]})
    if "experiment" in cfg:
        out.setdefault("tuned", None)
    options = LATER_DEFAULTS | OUTSIDE_KEYS
    later = nested({name: options[name] for name in options if _concerns(out, *name.split(".", 1))})
    for section in later:
        out[section] = merged(later[section], out[section])
    return out


def merged(defaults: dict, given: dict) -> dict:
    """`given` over `defaults`, section by section: a mapping that is given may still lack fields."""
    out = dict(defaults)
    for name, value in given.items():
        both = isinstance(value, dict) and isinstance(defaults.get(name), dict)
        out[name] = merged(defaults[name], value) if both else value
    return out


def _concerns(cfg: dict, section: str, field: str) -> bool:
    """True if the config's model, likelihood or method of inference has this later option."""
    given = cfg.get(section)
    if not isinstance(given, dict):
        return False
    if section == "model":
        return "layers" in given
    if section == "likelihood":
        return field in LIKELIHOODS.get(str(given.get("name")), {})
    method = LATER_DEFAULTS.get("inference._target_")
    return section != "inference" or given.get("_target_", method) == method
