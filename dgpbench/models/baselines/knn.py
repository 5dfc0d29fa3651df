"""k nearest neighbours (scikit-learn's search) with smoothed class shares.

p(c | x) = (k_c + q_c) / (k + 1), where k_c of the k neighbours have class c and q_c = (n_c + 1) / (N + C) is
the smoothed share of c among the training rows: no class has probability 0. k maximises the leave-one-out
log-likelihood of the training rows, unless it is given.
"""

from __future__ import annotations

import numpy as np

from dgpbench.config.schema import COUNT, COUNT_OR_NULL
from dgpbench.errors import UserError
from dgpbench.evaluate.predictive import Predictive
from dgpbench.models.baselines.options import option
from dgpbench.models.baselines.threads import limited

GRID = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 70, 100)


class NearestNeighbours:
    """Euclidean distance in the scaled inputs. The training rows are the parameters, in float32."""

    tasks = ("binary", "multiclass")

    def __init__(self, cfg: dict):
        self.k = option(cfg, "k", COUNT_OR_NULL)
        self.search_rows = option(cfg, "search_rows", COUNT)
        self.threads = cfg["threads"]
        self.values: dict[str, np.ndarray] = {}
        self._index = None

    def fit(self, split, run) -> dict:
        X, y = split.X_train.astype(np.float32), split.Y_train[:, 0].astype(np.int32)
        if self.k and self.k > len(y):
            raise UserError(f"model.k={self.k} is more than the {len(y)} training rows; lower it")
        counts = np.bincount(y, minlength=split.n_classes)
        prior = (counts + 1.0) / (len(y) + split.n_classes)
        self.load_parameters({"X": X, "y": y, "prior": prior, "k": np.asarray(self.k or 1)})
        facts: dict = {"k": self.k, "loo_loglik": None}
        if not self.k:
            facts = self._choose()
            self.values["k"] = np.asarray(facts["k"])
        return facts

    def _choose(self) -> dict:
        """The best k of the grid and the leave-one-out log-likelihood, over at most search_rows rows."""
        y, grid = self.values["y"], [k for k in GRID if k < len(self.values["y"])]
        rows = np.random.RandomState(0).permutation(len(y))[: self.search_rows]
        found = self._neighbours(self.values["X"][rows], grid[-1] + 1)  # each row is its own neighbour
        others = np.array([near[near != row][: grid[-1]] for near, row in zip(found, rows, strict=True)])
        scores = []
        for k in grid:
            probs = self._shares(others[:, :k])
            scores.append(float(np.log(probs[np.arange(len(rows)), y[rows]]).mean()))
        best = int(np.argmax(scores))
        return {"k": grid[best], "loo_loglik": scores[best]}

    def _neighbours(self, X: np.ndarray, k: int) -> np.ndarray:
        """Training rows (N, k) nearest to X, the nearest first."""
        if self._index is None:
            from sklearn.neighbors import NearestNeighbors

            self._index = NearestNeighbors().fit(self.values["X"])
        with limited(self.threads, self.values["X"].size):
            return self._index.kneighbors(X, k, return_distance=False)

    def _shares(self, near: np.ndarray) -> np.ndarray:
        """Smoothed class shares (N, C) of neighbours (N, k)."""
        prior = self.values["prior"]
        votes = (self.values["y"][near][:, :, None] == np.arange(len(prior))).sum(1)
        return (votes + prior) / (near.shape[1] + 1.0)

    def predict(self, X: np.ndarray, samples: int, seed: int) -> Predictive:
        return Predictive(probs=self._shares(self._neighbours(X.astype(np.float32), int(self.values["k"]))))

    def parameters(self) -> dict[str, np.ndarray]:
        return self.values

    def load_parameters(self, values: dict[str, np.ndarray]) -> None:
        self.values, self._index = values, None
