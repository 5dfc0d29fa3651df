"""Bayesian linear regression with exact evidence: the straight line that a GP must beat.

y = [x, 1] w + noise, w ~ N(0, I / alpha), noise ~ N(0, 1 / beta), shared by all outputs. alpha and beta
maximise the log evidence; everything else is closed form in the eigenbasis of X^T X.
"""

from __future__ import annotations

import math

import numpy as np

from dgpbench.evaluate.predictive import Predictive

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
