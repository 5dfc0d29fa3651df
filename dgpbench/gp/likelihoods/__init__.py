"""Likelihoods by name, which of them a config means for given data, and which targets it can generate.

Nothing here imports TensorFlow before a likelihood computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

import numpy as np

from dgpbench.config import plugins
from dgpbench.config.classes import likelihood_class
from dgpbench.config.keys import likelihood_name, likelihood_settings
from dgpbench.errors import UserError
from dgpbench.gp.likelihoods.base import Likelihood
from dgpbench.gp.likelihoods.distributions import Gaussian, MultiClass
from dgpbench.gp.parameters import scope

__all__ = [
    "LIKELIHOODS",
    "Gaussian",
    "Likelihood",
    "choose",
    "fitting",
    "from_values",
    "in_gpflow",
    "of_size",
]

LIKELIHOODS: dict[str, type[Likelihood]] = {
    name: plugins.load(entry) for name, entry in plugins.built_in("likelihood").items()
}


def fitting(cfg: dict, split) -> type[Likelihood]:
    """Return the likelihood that a config means for a split; UserError if it cannot generate the data."""
    kind = _kind(cfg, split.task)
    if split.task not in kind.tasks:
        possible = ", ".join(name for name, other in LIKELIHOODS.items() if split.task in other.tasks)
        raise UserError(
            f"likelihood={kind.name} does not fit {split.dataset}, whose task is {split.task}; "
            f"use likelihood=auto or one of: {possible}"
        )
    if kind.needs is None:
        return kind
    rows = np.concatenate([split.rows_train, split.rows_test])
    y = (split.Y[rows] - split.y_mean) / split.y_std
    bad = np.flatnonzero(~kind.needs.holds(y).all(1))
    if len(bad):
        value = split.Y[rows[bad[0]]].ravel()[0]
        raise UserError(
            f"likelihood={kind.name} needs targets that are {kind.needs.text}; {len(bad)} of {len(rows)} "
            f"rows of {split.dataset} are not (row {rows[bad[0]]}: {value:g}); {kind.needs.remedy}"
        )
    return kind


def _kind(cfg: dict, task: str) -> type[Likelihood]:
    return likelihood_class(likelihood_settings(cfg) | {"name": likelihood_name(cfg, task)})


def choose(cfg: dict, split) -> Likelihood:
    """The likelihood that a config names, or the default of the task, for the data of a split."""
    kind = fitting(cfg, split)
    highest = np.max((split.Y - split.y_mean) / split.y_std) if kind.scaling == "levels" else -1
    levels = round(float(highest)) + 1
    likelihood = _create(cfg, kind, classes=split.n_classes, levels=levels, bin_size=split.bin_size)
    if cfg["model"].get("output_gps") and isinstance(likelihood, MultiClass):
        raise UserError(
            f"model.output_gps mixes GPs to outputs that are correlated; likelihood={kind.name} needs them "
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
    return _create(cfg, _kind(cfg, task), classes=gps, levels=levels, bin_size=bin_size)


def _create(cfg: dict, kind: type[Likelihood], classes: int, levels: int, bin_size: float) -> Likelihood:
    known = likelihood_settings(cfg) | {"classes": classes, "levels": levels}
    known["bin_size"] = known["bin_size"] or bin_size
    known["variance"] = cfg["model"]["likelihood_variance"]
    return kind(**{field.name: known[field.name] for field in fields(kind)})


def in_gpflow(likelihood: Likelihood, values: Mapping[str, np.ndarray]) -> object:
    """Return GPflow's likelihood with these values; UserError if it has none with the same expectations."""
    if not likelihood.in_gpflow():
        possible = ", ".join(name for name, kind in LIKELIHOODS.items() if kind.in_gpflow())
        raise UserError(
            f"likelihood {likelihood.name} has no exact counterpart in GPflow; use one of {possible}"
        )
    return likelihood.to_gpflow(values)
