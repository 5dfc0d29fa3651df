"""Linear models that a GP must beat: Bayesian linear regression and logistic regression.

Regression: y = [x, 1] w + noise, w ~ N(0, I / alpha), noise ~ N(0, 1 / beta), shared by all outputs. alpha
and beta maximise the log evidence; everything else is closed form in the eigenbasis of X^T X.

Classes (scikit-learn): multinomial (two classes: one vector of weights) with a penalty |W|^2 / (2 C) on all
but the intercepts. C maximises the mean log probability over the folds of a cross-validation within the
training rows, unless it is given.

"""

from __future__ import annotations

import math
import warnings

import numpy as np

from dgpbench.config.schema import COUNT, Field
from dgpbench.config.sections import option
from dgpbench.evaluate.predictive import Predictive
from dgpbench.models.baselines.sklearn_models import limited

CHUNK = 100_000  # rows per read: memory stays bounded however many rows there are


class BayesianLinear:
    """Evidence maximisation over log alpha and log beta by L-BFGS from alpha = beta = 1."""

    tasks = ("regression",)

    def __init__(self, cfg: dict):
        self.values: dict[str, np.ndarray] = {}

    def fit(self, split, run) -> None:
        gram, XtY, YtY = sufficient_statistics(split)
        n, outputs = split.n_train, XtY.shape[1]
        eigenvalues, U = np.linalg.eigh(gram)
        eigenvalues = np.maximum(eigenvalues, 0.0)
        projected = U.T @ XtY  # D + 1, P

        def negative(log_params):
            return -log_evidence(*np.exp(log_params), eigenvalues, projected, YtY, n, outputs)

        from scipy.optimize import minimize

        best = minimize(negative, np.zeros(2), method="L-BFGS-B", bounds=[(-20.0, 20.0)] * 2)
        alpha, beta = np.exp(best.x)
        precision = alpha + beta * eigenvalues
        self.values = {
            "weights": U @ (beta * projected / precision[:, None]),
            "covariance": (U / precision) @ U.T,
            "alpha": np.asarray(alpha),
            "beta": np.asarray(beta),
            "log_evidence": np.asarray(-best.fun),
        }

    def predict(self, X: np.ndarray, samples: int, seed: int) -> Predictive:
        F = _features(X)
        mean = F @ self.values["weights"]  # N, P
        var = np.sum((F @ self.values["covariance"]) * F, 1) + 1.0 / self.values["beta"]
        return Predictive(mean=mean[None], var=np.broadcast_to(var[:, None], mean.shape)[None].copy())

    def parameters(self) -> dict[str, np.ndarray]:
        return self.values

    def load_parameters(self, values: dict[str, np.ndarray]) -> None:
        self.values = values


def log_evidence(alpha, beta, eigenvalues, projected, YtY, n: int, outputs: int) -> float:
    """log p(Y | alpha, beta) with w integrated out; `projected` is U^T X^T Y, YtY the sum of squares of Y."""
    precision = alpha + beta * eigenvalues
    fit = beta * YtY - np.sum(beta**2 * projected**2 / precision[:, None])
    log_det = np.sum(np.log(precision)) - len(eigenvalues) * math.log(alpha) - n * math.log(beta)
    return float(-0.5 * (fit + outputs * (log_det + n * math.log(2.0 * math.pi))))


def _features(X: np.ndarray) -> np.ndarray:
    return np.concatenate([X, np.ones((len(X), 1))], 1)


def sufficient_statistics(split) -> tuple[np.ndarray, np.ndarray, float]:
    """X^T X, X^T Y (with a column of ones in X) and sum Y^2 over the train rows."""
    gram = XtY = YtY = 0.0
    for start in range(0, split.n_train, CHUNK):
        X, Y = split.take_train(np.arange(start, min(start + CHUNK, split.n_train)))
        F = _features(X)
        gram, XtY, YtY = gram + F.T @ F, XtY + F.T @ Y, YtY + float(np.sum(Y * Y))
    return gram, XtY, YtY


GRID = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4)
FOLDS = 5
ITERATIONS = 1000


class Logistic:
    """Weights of the classes among the training rows; a class that is not among them has a fixed share."""

    tasks = ("binary", "multiclass")

    def __init__(self, cfg: dict):
        self.penalty = option(cfg, "C", Field(float, null=True, above=0))
        self.search_rows = option(cfg, "search_rows", COUNT)
        self.threads = cfg["threads"]
        self.values: dict[str, np.ndarray] = {}

    def fit(self, split, run) -> dict:
        X, y = split.X_train, split.Y_train[:, 0].astype(int)
        with limited(self.threads, X.size):
            C, score = (self.penalty, None) if self.penalty else choose_penalty(X, y, self.search_rows)
            seen, weights, bias = fit_weights(X, y, C, run.note)
        self.values = {
            "weights": weights,
            "bias": bias,
            "seen": seen,
            "share": np.asarray(1.0 / (len(y) + split.n_classes)),  # of each class that is not seen
            "classes": np.asarray(split.n_classes),
        }
        return {"C": float(C), "cv_loglik": score}

    def predict(self, X: np.ndarray, samples: int, seed: int) -> Predictive:
        values, classes = self.values, int(self.values["classes"])
        probs = np.full((len(X), classes), float(values["share"]))
        rest = 1.0 - float(values["share"]) * (classes - len(values["seen"]))
        probs[:, values["seen"]] = rest * np.exp(log_softmax(X @ values["weights"] + values["bias"]))
        return Predictive(probs=probs)

    def parameters(self) -> dict[str, np.ndarray]:
        return self.values

    def load_parameters(self, values: dict[str, np.ndarray]) -> None:
        self.values = values


def fit_weights(X: np.ndarray, y: np.ndarray, C: float, note) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Classes among y, weights (D, classes) and intercepts; of two classes, the first has zeros."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model = LogisticRegression(C=C, max_iter=ITERATIONS).fit(X, y)
    if any(issubclass(w.category, ConvergenceWarning) for w in caught):
        note(f"logistic regression has not converged in {ITERATIONS} iterations at C={C:g}")
    weights, bias = model.coef_.T, model.intercept_
    if len(model.classes_) == 2:
        weights, bias = np.hstack([np.zeros_like(weights), weights]), np.concatenate([[0.0], bias])
    return model.classes_, weights, bias


def choose_penalty(X: np.ndarray, y: np.ndarray, rows: int) -> tuple[float, float]:
    """The C of the grid with the largest mean log probability of held-out rows, and that value.

    Five shuffled folds of at most `rows` random rows, the same whatever the run's seed. C is the variance of
    a Gaussian prior on the weights, so that it means the same however many rows there are. A row whose class
    the other folds lack is not scored.
    """
    order = np.random.RandomState(0).permutation(len(y))[:rows]
    folds = [fold for fold in np.array_split(order, min(FOLDS, len(order))) if len(fold)]
    scores = np.zeros(len(GRID))
    for fold in folds:
        train = np.setdiff1d(order, fold)
        held = fold[np.isin(y[fold], y[train])]
        if len(np.unique(y[train])) < 2 or not len(held):
            continue
        for i, C in enumerate(GRID):
            seen, weights, bias = fit_weights(X[train], y[train], C, lambda text: None)
            log_probs = log_softmax(X[held] @ weights + bias)
            scores[i] += log_probs[np.arange(len(held)), np.searchsorted(seen, y[held])].sum()
    return GRID[int(scores.argmax())], float(scores.max() / len(order))


def log_softmax(F: np.ndarray) -> np.ndarray:
    shifted = F - F.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
