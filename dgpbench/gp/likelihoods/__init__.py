"""Likelihoods by name, and which of them a config means for given data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

import numpy as np

from dgpbench.config.keys import likelihood_name, likelihood_settings
from dgpbench.errors import UserError
from dgpbench.gp.likelihoods.base import Likelihood
from dgpbench.gp.likelihoods.continuous import Beta, Gamma, Gaussian, StudentT
from dgpbench.gp.likelihoods.discrete import Bernoulli, BernoulliLogit, Ordinal, Poisson
from dgpbench.gp.likelihoods.multiclass import MultiClass, RobustMax, Softmax
from dgpbench.gp.parameters import scope
from dgpbench.gp.targets import fitting

__all__ = [
    *("LIKELIHOODS", "Gaussian", "Likelihood", "MultiClass"),
    *("choose", "from_values", "of_size"),
]

KINDS = (Gaussian, Bernoulli, BernoulliLogit, RobustMax, Softmax, StudentT, Beta, Ordinal, Poisson, Gamma)
LIKELIHOODS: dict[str, type[Likelihood]] = {kind.name: kind for kind in KINDS}


def choose(cfg: dict, split) -> Likelihood:
    """The likelihood that a config names, or the default of the task, for the data of a split."""
    name = fitting(cfg, split)
    levels = round(float(np.max((split.Y - split.y_mean) / split.y_std))) + 1 if name == "ordinal" else 0
    likelihood = _create(cfg, name, classes=split.n_classes, levels=levels, bin_size=split.bin_size)
    if cfg["model"].get("output_gps") and isinstance(likelihood, MultiClass):
        raise UserError(
            f"model.output_gps mixes GPs to outputs that are correlated; likelihood={name} needs them "
            "independent: set model.output_gps=null"
        )
    return likelihood


def from_values(cfg: dict, values: dict[str, np.ndarray]) -> Likelihood:
    """The likelihood of a model with these parameters."""
    gps = len(values[f"layer{len(cfg['model']['layers']) - 1}/q_mu"])
    return of_size(cfg, gps, scope(values, "likelihood"))


def of_size(cfg: dict, gps: int, own: Mapping[str, np.ndarray]) -> Likelihood:
    """The likelihood over so many GPs that has the parameters `own`."""
    task = "regression" if "variance" in own else "binary" if gps == 1 else "multiclass"
    task = "counts" if "bin_size" in own else task
    levels = len(own["edges"]) + 1 if "edges" in own else 0
    bin_size = float(own.get("bin_size", 1.0))
    return _create(cfg, likelihood_name(cfg, task), classes=gps, levels=levels, bin_size=bin_size)


def _create(cfg: dict, name: str, classes: int, levels: int, bin_size: float) -> Likelihood:
    known = likelihood_settings(cfg) | {"classes": classes, "levels": levels}
    known["bin_size"] = known["bin_size"] or bin_size
    known["variance"] = cfg["model"]["likelihood_variance"]
    kind = LIKELIHOODS[name]
    return kind(**{field.name: known[field.name] for field in fields(kind)})
