"""Likelihoods as GPflow's classes. GPflow is imported when the function is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from dgpbench.config.schema import IN_GPFLOW
from dgpbench.errors import UserError
from dgpbench.gp.likelihoods.base import Likelihood, phi
from dgpbench.gp.likelihoods.continuous import StudentT
from dgpbench.gp.likelihoods.discrete import Bernoulli, Poisson
from dgpbench.gp.likelihoods.multiclass import RobustMax
from dgpbench.gp.parameters import NOISE

LEAST = NOISE.floor * (1.0 + 1e-9)  # GPflow has the same floor, and takes what lies above it


def to_gpflow(likelihood: Likelihood, values: Mapping[str, np.ndarray]) -> Any:
    """GPflow's likelihood with these values, named as in `likelihood.initial`; UserError where it has none
    whose expectations are the same numbers."""
    import gpflow

    their = gpflow.likelihoods
    own = {name: np.maximum(v, LEAST) for name, v in values.items() if name in likelihood.positive}
    if isinstance(likelihood, Bernoulli):
        e = likelihood.epsilon
        return their.Bernoulli() if e == 1e-3 else their.Bernoulli(lambda f: e + (1.0 - 2.0 * e) * phi(f))
    if isinstance(likelihood, RobustMax):
        C = likelihood.classes
        return their.MultiClass(C, their.RobustMax(C, likelihood.epsilon))
    if isinstance(likelihood, StudentT):
        return their.StudentT(own["scale"], likelihood.df)
    if likelihood.name == "beta":
        return their.Beta(tf.sigmoid, own["scale"])
    if likelihood.name == "bernoulli_logit":
        return their.Bernoulli(tf.sigmoid)
    if isinstance(likelihood, Poisson):
        return their.Poisson(binsize=likelihood.bin_size)
    if likelihood.name in IN_GPFLOW:
        kind: Any = their.Gamma if likelihood.name == "gamma" else their.Gaussian
        return kind(**own)
    raise UserError(
        f"likelihood {likelihood.name} has no exact counterpart in GPflow; use one of {', '.join(IN_GPFLOW)}"
    )
