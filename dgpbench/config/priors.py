"""Priors of hyperparameters in a config: `model.priors.lengthscale=[gamma,1.1,0.1]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dgpbench.config.schema import show_value
from dgpbench.config.suggest import did_you_mean
from dgpbench.errors import UserError

PRIORS = ("lengthscale", "kernel_variance", "likelihood_variance")  # named as their initial values are
FAMILIES = {  # by name: its arguments; all but `location` are positive
    "gamma": ("shape", "rate"),
    "inverse_gamma": ("shape", "scale"),
    "lognormal": ("location", "scale"),
    "half_normal": ("scale",),
}
LEAST, MOST = 1e-6, 1e6  # sizes of arguments whose densities, and squares, are finite numbers


def check_priors(priors: Mapping[str, Any]) -> dict[str, list]:
    """Priors with their arguments as numbers; UserError for an unknown name or family and for an argument
    that is none."""
    out = {}
    for name, prior in priors.items():
        field = f"model.priors.{name}"
        if name not in PRIORS:
            raise UserError(f"unknown key '{field}'{did_you_mean(name, PRIORS)}")
        if prior is None:
            continue
        shown = f"{field}={show_value(prior)} is not allowed"
        if not isinstance(prior, list) or not prior or prior[0] not in FAMILIES:
            known = ", ".join(show_value([family, *names]) for family, names in FAMILIES.items())
            raise UserError(f"{shown}; a prior is one of {known}, or null for none")
        family, *arguments = prior
        names = FAMILIES[family]
        if len(arguments) != len(names):
            example = show_value([family, *[1] * len(names)])
            raise UserError(f"{shown}; {family} takes {' and '.join(names)}, e.g. {field}={example}")
        for argument, value in zip(names, arguments, strict=True):
            least = -MOST if argument == "location" else LEAST
            if type(value) not in (int, float) or not least <= value <= MOST:
                kind = "a number" if argument == "location" else "a positive number"
                raise UserError(
                    f"{shown}; the {argument} of {family} must be {kind}, not {show_value(value)}: from "
                    f"{least:g} to {MOST:g}"
                )
        out[name] = [family, *map(float, arguments)]
    return out
