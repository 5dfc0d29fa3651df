"""From dgpbench to GPflow: kernels there and back, and a trained sparse GP as an SVGP."""

from __future__ import annotations

from typing import Any

import numpy as np

import dgpbench.engine.platform  # noqa: F401  before GPflow starts TensorFlow
from dgpbench.errors import UserError, import_gpflow
from dgpbench.gp.kernels.in_gpflow import from_gpflow, to_gpflow
from dgpbench.gp.likelihoods import in_gpflow
from dgpbench.gp.parameters import scope
from dgpbench.models.gp import GPModel
from dgpbench.store import read
from dgpbench.store.scan import Unit

__all__ = ["from_gpflow", "load_svgp", "to_gpflow", "to_svgp"]


def to_svgp(model: GPModel, num_data: int | None = None) -> Any:
    """A fitted GP of one layer as GPflow's SVGP with the same predictions, in standardised units.

    With `num_data`, the number of training rows, its `elbo` of a minibatch is scaled as in training.
    """
    gpflow = import_gpflow()

    values = model.parameters()
    layer = model.model.layers[-1] if model.model else None
    single = layer is not None and len(model.model.layers) == 1 and not layer.mixed
    if not single or "layer0/q_sqrt" not in values or any(name.startswith("draws/") for name in values):
        raise UserError("only a fitted GP of one layer with one q(u), such as model=sgp, can become an SVGP")
    jitter, theirs = float(values["jitter"]), gpflow.config.default_jitter()
    if not np.isclose(jitter, theirs, rtol=1e-12):
        raise UserError(
            f"this model has jitter {jitter:g} and GPflow {theirs:g}; call "
            f"gpflow.config.set_default_jitter({jitter:g}) first, or predictions would differ"
        )
    own = scope(values, "layer0")
    return gpflow.models.SVGP(
        to_gpflow(layer.kernel, scope(own, "kernel")),
        in_gpflow(model.model.likelihood, scope(values, "likelihood")),
        own["Z"],
        num_latent_gps=layer.output_dim,
        q_mu=own["q_mu"].T,
        q_sqrt=np.tril(own["q_sqrt"]),
        whiten=model.cfg["model"].get("whiten", True),
        num_data=num_data,
    )


def load_svgp(unit: Unit) -> Any:
    """The SVGP of a finished unit, from its record and parameters file."""
    model = GPModel(unit.record.config)
    model.load_parameters(read.parameters(unit))
    return to_svgp(model, unit.record.sizes["n_train"])
