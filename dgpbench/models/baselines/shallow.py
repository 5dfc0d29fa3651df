"""Baselines of scikit-learn: trees, forests, boosting, support vectors, a small network.

Regression: a Gaussian around the estimator's prediction. Its variance is the mean square of residuals on rows
left out of the fit (five shuffled folds). Under `variance: compat` it is that of bayesian_benchmarks, the
variance of residuals on the training rows: 0 for an estimator that learns them by heart.

Classes: p(c | x) = (N p_c + q_c) / (N + 1), the estimator's p_c and one more observation with the smoothed
shares q_c = (n_c + 1) / (N + C) of the N training rows: no class has probability 0. Under `compat` p_c is
clipped to [1e-12, 1 - 1e-12] as that package does.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import numpy as np

from dgpbench.config.schema import Field
from dgpbench.config.sections import option
from dgpbench.config.suggest import did_you_mean
from dgpbench.errors import UserError
from dgpbench.evaluate.predictive import Predictive
from dgpbench.models.baselines.threads import limited

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
FLOOR = 1e-10  # of a variance, in standardised units
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
