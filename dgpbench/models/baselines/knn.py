"""k nearest neighbours (scikit-learn's search) with smoothed class shares, or a Gaussian for regression.

Classes: p(c | x) = (k_c + q_c) / (k + 1), where k_c of the k neighbours have class c and
q_c = (n_c + 1) / (N + C) is the smoothed share of c among the training rows: no class has probability 0. k
maximises the leave-one-out log-likelihood of the training rows, unless it is given.

Regression: the mean of the neighbours' y; the variance of each output is the mean square of leave-one-out
residuals, and k makes the sum of their logarithms smallest, which is the same criterion.
"""

from __future__ import annotations

import numpy as np

from dgpbench.config.schema import COUNT, COUNT_OR_NULL
from dgpbench.config.sections import option
from dgpbench.errors import UserError
from dgpbench.evaluate.predictive import Predictive
from dgpbench.models.baselines.threads import limited

GRID = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 70, 100)
FLOOR = 1e-10  # of a variance, in standardised units


class NearestNeighbours:
    """Euclidean distance in the scaled inputs. The training rows are the parameters, in float32."""

    keeps_rows = True

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
        if split.task == "regression":
            return self._fit_regression(X, split.Y_train)
        counts = np.bincount(y, minlength=split.n_classes)
        prior = (counts + 1.0) / (len(y) + split.n_classes)
        self.load_parameters({"X": X, "y": y, "prior": prior, "k": np.asarray(self.k or 1)})
        facts: dict = {"k": self.k, "loo_loglik": None}
        if not self.k:
            facts = self._choose()
            self.values["k"] = np.asarray(facts["k"])
        return facts

    def _fit_regression(self, X: np.ndarray, Y: np.ndarray) -> dict:
        self.load_parameters({"X": X, "Y": Y})
        grid = [self.k] if self.k else [k for k in GRID if k < len(X)]
        if grid[-1] >= len(X):
            raise UserError(f"model.k={self.k} leaves no other of the {len(X)} training rows; lower it")
        rows, others = self._others(grid[-1])
        squares = [np.mean((Y[rows] - Y[others[:, :k]].mean(1)) ** 2, axis=0) for k in grid]  # P each
        squares = np.maximum(squares, FLOOR)
        best = int(np.log(squares).sum(1).argmin())
        self.values |= {"k": np.asarray(grid[best]), "variance": squares[best]}
        terms = -0.5 * (np.log(2.0 * np.pi * squares[best]) + 1.0)
        return {"k": grid[best], "loo_loglik": float(terms.sum())}

    def _others(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """At most search_rows random training rows, and the k rows nearest to each but itself."""
        rows = np.random.RandomState(0).permutation(len(self.values["X"]))[: self.search_rows]
        found = self._neighbours(self.values["X"][rows], k + 1)  # each row is its own neighbour
        pairs = zip(found, rows, strict=True)
        return rows, np.array([near[near != row][:k] for near, row in pairs])

    def _choose(self) -> dict:
        """The best k of the grid and the leave-one-out log-likelihood, over at most search_rows rows."""
        y, grid = self.values["y"], [k for k in GRID if k < len(self.values["y"])]
        rows, others = self._others(grid[-1])
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
        near = self._neighbours(X.astype(np.float32), int(self.values["k"]))
        if "Y" not in self.values:
            return Predictive(probs=self._shares(near))
        mean = self.values["Y"][near].mean(1)[None]
        return Predictive(mean=mean, var=np.broadcast_to(self.values["variance"], mean.shape))

    def parameters(self) -> dict[str, np.ndarray]:
        return self.values

    def load_parameters(self, values: dict[str, np.ndarray]) -> None:
        self.values, self._index = values, None
