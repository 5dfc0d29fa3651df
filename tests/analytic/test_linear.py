"""Bayesian linear regression against brute force: the evidence as one multivariate normal density."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from dgpbench.data.split import Split
from dgpbench.models.baselines import linear_models
from dgpbench.models.baselines.linear_models import BayesianLinear, log_evidence, sufficient_statistics


def _split(N=40, D=3, P=2):
    rng = np.random.RandomState(0)
    X = rng.randn(N, D)
    return Split.from_arrays(X, X @ rng.randn(D, P) + 0.5 + 0.3 * rng.randn(N, P))


def _brute_force(split, alpha, beta):
    F = np.concatenate([split.X_train, np.ones((split.n_train, 1))], 1)
    cov = F @ F.T / alpha + np.eye(split.n_train) / beta
    return sum(multivariate_normal.logpdf(y, np.zeros(split.n_train), cov) for y in split.Y_train.T)


@pytest.mark.parametrize("alpha, beta", [(1.0, 1.0), (0.1, 7.0), (30.0, 0.4)])
def test_evidence_equals_the_joint_density(alpha, beta):
    split = _split()
    gram, XtY, YtY = sufficient_statistics(split)
    w, U = np.linalg.eigh(gram)
    ours = log_evidence(alpha, beta, w, U.T @ XtY, YtY, split.n_train, 2)
    assert ours == pytest.approx(_brute_force(split, alpha, beta), rel=1e-10)


def test_fit_maximises_the_evidence_and_predicts_the_posterior():
    split = _split()
    model = BayesianLinear({})
    model.fit(split, None)
    alpha, beta = float(model.values["alpha"]), float(model.values["beta"])
    best = _brute_force(split, alpha, beta)
    assert float(model.values["log_evidence"]) == pytest.approx(best, rel=1e-9)
    for factor in (0.9, 1.1):
        assert _brute_force(split, alpha * factor, beta) < best
        assert _brute_force(split, alpha, beta * factor) < best

    Xs = np.random.RandomState(1).randn(5, 3)
    F = np.concatenate([split.X_train, np.ones((40, 1))], 1)
    Fs = np.concatenate([Xs, np.ones((5, 1))], 1)
    A = alpha * np.eye(4) + beta * F.T @ F
    predictive = model.predict(Xs, 100, 0)
    np.testing.assert_allclose(
        predictive.mean[0], Fs @ np.linalg.solve(A, beta * F.T @ split.Y_train), rtol=1e-9
    )
    variance = np.einsum("nd,de,ne->n", Fs, np.linalg.inv(A), Fs) + 1 / beta
    np.testing.assert_allclose(predictive.var[0, :, 0], variance, rtol=1e-9)
    np.testing.assert_allclose(predictive.var[0, :, 1], variance, rtol=1e-9)


def test_chunks_do_not_matter(monkeypatch):
    split = _split()
    whole = sufficient_statistics(split)
    monkeypatch.setattr(linear_models, "CHUNK", 7)
    for a, b in zip(whole, sufficient_statistics(split), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
