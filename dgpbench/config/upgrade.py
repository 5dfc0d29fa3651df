"""Old configs: completed once, when they are read, by the options that came after them.

An option is added with the value that means what was done before it (keys.LATER_DEFAULTS), so that a
completed config has the key of the old one and is as whole as one composed today.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from dgpbench.config.keys import LATER_DEFAULTS
from dgpbench.config.schema import LIKELIHOODS, MODEL
from dgpbench.config.sections import nested

OUTSIDE_KEYS: dict[str, Any] = {"engine.trace_test": False}  # later options that determine no number


def complete(cfg: dict) -> dict:
    """A config with every later option at its value at introduction, in nested sections too."""
    out = dict(cfg)
    if "model" in cfg:
        out.setdefault("likelihood", {"name": LATER_DEFAULTS["likelihood.name"]})
    if "experiment" in cfg:
        out.setdefault("tuned", None)
    for section, later in _later(*_kind(out)).items():
        out[section] = merged(later, out[section])
    return out


def _kind(cfg: dict) -> tuple[tuple[str, ...], str, bool, str]:
    """All that decides which later options concern a config: the same for most records of a scan."""
    sections = tuple(name for name, section in cfg.items() if isinstance(section, dict))
    likelihood, model, inference = (
        section if isinstance(section := cfg.get(name), dict) else {}
        for name in ("likelihood", "model", "inference")
    )
    method = inference.get("_target_", LATER_DEFAULTS["inference._target_"])
    return sections, str(likelihood.get("name")), "layers" in model, str(method)


@lru_cache(maxsize=256)
def _later(sections: tuple[str, ...], likelihood: str, layers: bool, method: str) -> dict[str, dict]:
    """Later options that concern such a config, by section."""
    fits = {
        "model": lambda field: layers and field in MODEL,
        "likelihood": lambda field: field in LIKELIHOODS.get(likelihood, {}),
        "inference": lambda field: method == LATER_DEFAULTS["inference._target_"],
    }
    options = LATER_DEFAULTS | OUTSIDE_KEYS
    found = {}
    for name, value in options.items():
        section, _, field = name.partition(".")
        if section in sections and fits.get(section, lambda field: True)(field):
            found[name] = value
    return nested(found)


def merged(defaults: dict, given: dict) -> dict:
    """`given` over `defaults`, section by section: a mapping that is given may still lack fields."""
    out = dict(given)
    for name, value in defaults.items():
        if name not in out:
            out[name] = dict(value) if isinstance(value, dict) else value
        elif isinstance(value, dict) and isinstance(out[name], dict):
            out[name] = merged(value, out[name])
    return out
