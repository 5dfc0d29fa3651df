"""Scores of images: known densities, their Monte Carlo error, mean images, agreement with stored rows."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm

from dgpbench.errors import Diverged, UserError
from dgpbench.evaluate.evaluation import evaluate
from dgpbench.evaluate.predictive import Predictive
from dgpbench.store.verify import disagreements

PROTOCOL = {"test_samples": 6, "draws": 10, "max_test": None}
MEANS = np.array([[0.2, 0.7, 0.1], [0.9, 0.4, 0.3]])  # of each label


def _split(n=7, y_std=(1.0, 1.0, 1.0)):
    rng = np.random.RandomState(0)
    labels = rng.randint(0, 2, 2 * n)
    X, Y = np.eye(2)[labels], MEANS[labels] + 0.1 * rng.randn(2 * n, 3)
    return SimpleNamespace(
        task="regression", image=(1, 3), n_train=n, X_train=X[:n], Y_train=Y[:n], X_test=X[n:], Y_test=Y[n:],
        rows_test=np.arange(n, 2 * n), y_std=np.array(y_std), y_mean=np.zeros(3),
    )  # fmt: skip


def _predict(X, samples, seed):
    mean = (X @ MEANS)[None].repeat(samples, 0)
    return Predictive(mean=mean, var=np.full(mean.shape, 0.01))


def _exact(X, Y):
    return norm.logpdf(Y, X @ MEANS, 0.1).sum(1)


def test_metrics_of_a_model_that_is_known():
    split = _split()
    found = evaluate(_predict, split, PROTOCOL, 0)
    exact, train = _exact(split.X_test, split.Y_test), _exact(split.X_train, split.Y_train)
    m = found.metrics
    assert m["test_loglik"] == m["test_loglik_std"] == pytest.approx(exact.mean())
    assert m["test_loglik_per_pixel"] == pytest.approx(exact.mean() / 3)
    assert m["train_loglik"] == pytest.approx(train.mean())
    assert m["test_rmse"] == pytest.approx(np.sqrt(np.mean((split.Y_test - split.X_test @ MEANS) ** 2)))
    assert m["test_loglik_mc_se"] == pytest.approx(0.0, abs=1e-12)  # all samples are alike
    np.testing.assert_allclose(found.predictions["log_density"], exact)
    assert found.details["effective_samples"]["median"] == pytest.approx(6.0)
    assert found.draws is None and not list(disagreements(m, found.predictions))


def test_original_units():
    split, scaled = _split(), _split(y_std=(2.0, 3.0, 0.5))
    plain, other = (evaluate(_predict, s, PROTOCOL, 0).metrics for s in (split, scaled))
    assert other["test_loglik"] == pytest.approx(plain["test_loglik"] - np.log(3.0))
    assert other["test_loglik_std"] == plain["test_loglik_std"]
    error = (split.X_test @ MEANS - split.Y_test) * scaled.y_std
    assert other["test_rmse"] == pytest.approx(np.sqrt(np.mean(error**2)))


def test_a_density_of_the_models_own_and_its_error():
    """Terms exact + noise: their log-mean-exp, and an error that is that of repeated evaluations."""
    split = _split(n=40)

    def density(X, Y, samples, seed):
        rng = np.random.RandomState(seed)
        return _exact(X, Y) + np.log(rng.exponential(size=(samples, len(X))))

    runs = [evaluate(_predict, split, PROTOCOL | {"test_samples": 200}, seed, density) for seed in range(20)]
    values = [run.metrics["test_loglik"] for run in runs]
    stated = np.mean([run.metrics["test_loglik_mc_se"] for run in runs])
    assert np.mean(values) == pytest.approx(_exact(split.X_test, split.Y_test).mean(), abs=4 * stated)
    assert 0.5 < np.std(values, ddof=1) / stated < 2.0
    assert 80 < runs[0].details["effective_samples"]["median"] < 130  # half of exponential weights


def test_exact_answers_have_no_error():
    split = _split()
    one = evaluate(_predict, split, PROTOCOL, 0, lambda X, Y, samples, seed: _exact(X, Y)[None])
    assert one.metrics["test_loglik_mc_se"] == 0.0
    none = evaluate(_predict, split, PROTOCOL, 0, lambda *given: None)  # the mixture counts
    assert none.metrics["test_loglik"] == pytest.approx(one.metrics["test_loglik"])


def test_fewer_images_and_none():
    split = _split()
    part = evaluate(_predict, split, PROTOCOL | {"max_test": 3}, 0)
    assert len(part.predictions["row"]) == 3
    split.X_test = split.X_test[:0]
    with pytest.raises(UserError, match="no test images"):
        evaluate(_predict, split, PROTOCOL, 0)


def test_what_cannot_be_scored():
    split = _split()
    with pytest.raises(UserError, match="draws, which give no density"):
        evaluate(lambda X, S, seed: Predictive(draws=np.zeros((S, len(X), 3))), split, PROTOCOL, 0)
    with pytest.raises(Diverged, match="not finite"):
        evaluate(_predict, split, PROTOCOL, 0, lambda X, Y, S, seed: np.full((S, len(X)), np.nan))
