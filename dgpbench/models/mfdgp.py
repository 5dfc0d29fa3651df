"""Multi-fidelity deep GPs as models of the harness (gp/fidelity.py): datasets with a level column."""

from __future__ import annotations

import dgpbench.engine.platform  # noqa: F401  isort: skip  (before anything else starts TensorFlow)

import numpy as np

from dgpbench.errors import UserError
from dgpbench.gp import fidelity
from dgpbench.gp.deep_gp import DeepGP
from dgpbench.inference.base import Bound
from dgpbench.inference.fidelity import FidelityBound
from dgpbench.models.gp import GPModel


class MultiFidelity(GPModel):
    """A GP for each level on top of the one below; predictions are at the level of each row."""

    latent = False
    tasks = ("regression",)

    def build(self, split, X: np.ndarray, Y: np.ndarray, seed: int, likelihood) -> tuple:
        if not split.levels:
            raise UserError(
                f"model=mfdgp needs a level for each row, dataset {split.dataset} has none; use "
                "dataset=mf_sine or another mf_ set, or name the column of your file with dataset.level"
            )
        if likelihood.name != "gaussian" or Y.shape[1] > 1:
            raise UserError("model=mfdgp is for one target with Gaussian noise; leave likelihood=auto")
        if missing := set(range(split.levels)) - set(X[:, -1].astype(int)):
            raise UserError(
                f"model=mfdgp: no training row has level {min(missing)}; set dataset.train_levels=all"
            )
        model, values, fixed = fidelity.start(self.cfg["model"], X, Y, split.levels, seed)
        if self.cfg["inference"]["hyperparameters"] == "fixed":
            fixed |= {name for name in values if not model.is_variational(name)}
        return model, values, fixed, []

    def structure(self, values: dict[str, np.ndarray]) -> DeepGP:
        return fidelity.structure(self.cfg["model"], values)

    def make_bound(self, model: DeepGP) -> Bound:
        return FidelityBound(model, self.cfg["inference"]["samples"])

    def predict(self, X: np.ndarray, samples: int, seed: int):
        level = X[:, -1]
        highest = len(self.model.layers) - 1
        if not np.isin(level, np.arange(highest + 1)).all():
            bad = level[~np.isin(level, np.arange(highest + 1))][0]
            raise UserError(f"level {bad:g} of a row to predict is none of 0 to {highest}; give one of these")
        return super().predict(X, samples, seed)
