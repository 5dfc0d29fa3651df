"""Baselines of scikit-learn: nearest neighbours, trees, forests, boosting, support vectors, a small network.

Nearest neighbours, classes: p(c | x) = (k_c + q_c) / (k + 1), where k_c of the k neighbours have class c and
q_c = (n_c + 1) / (N + C) is the smoothed share of c among the training rows: no class has probability 0. k
maximises the leave-one-out log-likelihood of the training rows, unless it is given. Regression: the mean of
the neighbours' y; the variance of each output is the mean square of leave-one-out residuals, and k minimises
the sum of their logarithms, which is the same criterion.

Other estimators, regression: a Gaussian around the estimator's prediction. Its variance is the mean square of
residuals on rows held out from the fit (five shuffled folds). Under `variance: compat` it is the variance of
residuals on the training rows, as in bayesian_benchmarks: 0 for an estimator that memorises them. Classes:
p(c | x) = (N p_c + q_c) / (N + 1), the estimator's p_c and one more observation with the smoothed shares q_c.
Under `compat` p_c is clipped to [1e-12, 1 - 1e-12], as that package does.

"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from dgpbench.config.schema import COUNT, COUNT_OR_NULL, Field
from dgpbench.config.sections import option
from dgpbench.config.suggest import did_you_mean
from dgpbench.errors import UserError
from dgpbench.evaluate.predictive import Predictive

SMALL = 1_000_000  # numbers


@contextmanager
def limited(threads: int | None, numbers: int) -> Iterator[None]:
    """Inside, BLAS and OpenMP take `threads` (None: all cores), or one for a small array."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1 if numbers < SMALL else threads):
        yield


GRID = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 70, 100)  # candidate numbers of neighbours
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


# Module and class of scikit-learn for regression and for classes, with what makes probabilities possible.
ESTIMATORS: dict[str, tuple[str, str, str, dict]] = {
    "random_forest": ("ensemble", "RandomForestRegressor", "RandomForestClassifier", {}),
    "gradient_boosting": ("ensemble", "GradientBoostingRegressor", "GradientBoostingClassifier", {}),
    "adaboost": ("ensemble", "AdaBoostRegressor", "AdaBoostClassifier", {}),
    "decision_tree": ("tree", "DecisionTreeRegressor", "DecisionTreeClassifier", {}),
    "svm": ("svm", "SVR", "SVC", {"probability": True}),
    "mlp": ("neural_network", "MLPRegressor", "MLPClassifier", {}),
}
FOLDS = 5
CLIP = 1e-12


class Shallow:
    """One estimator per output. The training rows are the parameters: a loaded model is fitted again, to the
    same numbers, because its seed is kept too."""

    keeps_rows = True

    def __init__(self, cfg: dict):
        self.name = option(cfg, "estimator", Field(str, choices=tuple(ESTIMATORS)))
        self.options = option(cfg, "options", Field(dict))
        self.compat = option(cfg, "variance", Field(str, choices=("out_of_fold", "compat"))) == "compat"
        self.threads = cfg["threads"]
        self.values: dict[str, np.ndarray] = {}
        self._estimators: list[Any] = []

    def fit(self, split, run) -> dict:
        X, Y = split.X_train, split.Y_train
        self._note = run.note
        self.values = {"X": X, "Y": Y, "seed": np.asarray(run.seed), "classes": np.asarray(split.n_classes)}
        self._estimators = self._fitted()
        if split.n_classes:
            return {}
        self.values["variance"] = np.maximum(self._variances(), FLOOR)
        return {"residual_sd": np.sqrt(self.values["variance"]).tolist()}

    def predict(self, X: np.ndarray, samples: int, seed: int) -> Predictive:
        with limited(self.threads, X.size):
            if int(self.values["classes"]):
                return Predictive(probs=self._probabilities(X))
            mean = np.stack([one.predict(X) for one in self._estimators], axis=1)[None]
        return Predictive(mean=mean, var=np.broadcast_to(self.values["variance"], mean.shape))

    def parameters(self) -> dict[str, np.ndarray]:
        return self.values

    def load_parameters(self, values: dict[str, np.ndarray]) -> None:
        self.values, self._note = values, lambda text: None
        self._estimators = self._fitted()

    def _new(self, n_classes: int):
        """An estimator that is not fitted yet."""
        module, regressor, classifier, needed = ESTIMATORS[self.name]
        kind = getattr(import_module(f"sklearn.{module}"), classifier if n_classes else regressor)
        known = kind().get_params()
        for name in self.options:
            if name not in known:
                raise UserError(
                    f"model.options.{name} is no option of {self.name}{did_you_mean(name, known)}"
                )
        seeded = {"random_state": int(self.values["seed"])} if "random_state" in known else {}
        return kind(**(needed if n_classes else {}), **seeded | self.options)

    def _fitted(self) -> list[Any]:
        """One estimator per output, fitted to the training rows."""
        X, Y, classes = self.values["X"], self.values["Y"], int(self.values["classes"])
        targets = [Y[:, 0].astype(int)] if classes else list(Y.T)
        with limited(self.threads, X.size):
            return [self._fit_one(X, y, classes) for y in targets]

    def _fit_one(self, X: np.ndarray, y: np.ndarray, classes: int):
        from sklearn.exceptions import ConvergenceWarning

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            try:
                fitted = self._new(classes).fit(X, y)
            except (ValueError, TypeError) as error:  # scikit-learn checks values of options when it fits
                if not self.options:
                    raise
                text = " ".join(str(error).split())
                raise UserError(f"model.options is not allowed by scikit-learn: {text}") from None
        if any(issubclass(warning.category, ConvergenceWarning) for warning in caught):
            self._note(f"{self.name} has not converged; raise model.options.max_iter")
        return fitted

    def _variances(self) -> np.ndarray:
        """The predictive variance of each output (P,)."""
        X, Y = self.values["X"], self.values["Y"]
        with limited(self.threads, X.size):
            if self.compat:
                fitted = np.stack([one.predict(X) for one in self._estimators], axis=1)
                return (np.std(fitted - Y, axis=0) + 1e-6) ** 2
            order = np.random.RandomState(int(self.values["seed"])).permutation(len(X))
            residuals = np.zeros_like(Y)
            for fold in np.array_split(order, min(FOLDS, len(X))):
                rest = np.setdiff1d(order, fold)
                for p in range(Y.shape[1]):
                    one = self._fit_one(X[rest], Y[rest, p], 0)
                    residuals[fold, p] = Y[fold, p] - one.predict(X[fold])
        return np.mean(residuals**2, axis=0)

    def _probabilities(self, X: np.ndarray) -> np.ndarray:
        """Class probabilities (N, C); a class that is not among the training rows has its small share."""
        (one,), classes = self._estimators, int(self.values["classes"])
        probs = np.zeros((len(X), classes))
        probs[:, one.classes_] = one.predict_proba(X)
        if self.compat:
            probs = np.clip(probs, CLIP, 1.0 - CLIP)
            return probs / probs.sum(1, keepdims=True)
        n = len(self.values["Y"])
        counts = np.bincount(self.values["Y"][:, 0].astype(int), minlength=classes)
        return (n * probs + (counts + 1.0) / (n + classes)) / (n + 1.0)
