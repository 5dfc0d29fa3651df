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

__all__ = [
    *("LIKELIHOODS", "Gaussian", "Likelihood", "MultiClass"),
    *("check_targets", "choose", "from_values", "of_size"),
]

KINDS = (Gaussian, Bernoulli, BernoulliLogit, RobustMax, Softmax, StudentT, Beta, Ordinal, Poisson, Gamma)
LIKELIHOODS: dict[str, type[Likelihood]] = {kind.name: kind for kind in KINDS}


def choose(cfg: dict, split) -> Likelihood:
    """The likelihood that a config names, or the default of the task, for the data of a split."""
    name = likelihood_name(cfg, split.task)
    kind = LIKELIHOODS[name]
    if split.task not in kind.tasks:
        fitting = ", ".join(n for n, k in LIKELIHOODS.items() if split.task in k.tasks)
        raise UserError(
            f"likelihood={name} does not fit {split.dataset}, whose task is {split.task}; "
            f"use likelihood=auto or one of: {fitting}"
        )
    levels = round(float(np.max((split.Y - split.y_mean) / split.y_std))) + 1 if name == "ordinal" else 0
    likelihood = _create(cfg, name, classes=split.n_classes, levels=levels, bin_size=split.bin_size)
    if cfg["model"].get("output_gps") and isinstance(likelihood, MultiClass):
        raise UserError(
            f"model.output_gps mixes GPs to outputs that are correlated; likelihood={name} needs them "
            "independent: set model.output_gps=null"
        )
    check_targets(likelihood, split)
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


CONDITIONS = {  # what must hold of the targets in the model's units: (name, test, what to do)
    "beta": (
        "in (0, 1)",
        lambda y: (y > 0) & (y < 1),
        "likelihood.rescale=true maps their range there",
    ),
    "gamma": ("positive", lambda y: y > 0, "use likelihood=gaussian or student_t"),
    "poisson": ("whole numbers from 0", lambda y: (y >= 0) & (y == np.round(y)), "use likelihood=gaussian"),
    "bernoulli": ("0 or 1", lambda y: (y == 0) | (y == 1), "code the classes 0, 1"),
}
CONDITIONS["bernoulli_logit"] = CONDITIONS["bernoulli"]


def check_targets(likelihood: Likelihood, split) -> None:
    """Raise UserError where targets of the split's rows lie outside what the likelihood can generate."""
    if likelihood.name not in CONDITIONS:
        return
    text, holds, remedy = CONDITIONS[likelihood.name]
    rows = np.concatenate([split.rows_train, split.rows_test])
    y = (split.Y[rows] - split.y_mean) / split.y_std
    bad = np.flatnonzero(~holds(y).all(1))
    if len(bad):
        value = split.Y[rows[bad[0]]].ravel()[0]
        raise UserError(
            f"likelihood={likelihood.name} needs targets that are {text}; {len(bad)} of {len(rows)} rows of "
            f"{split.dataset} are not (row {rows[bad[0]]}: {value:g}); {remedy}"
        )
