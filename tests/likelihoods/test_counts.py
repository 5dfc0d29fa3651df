"""Poisson counts in bins: expectations, the limit of small bins, the scores of counts."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from dgpbench.evaluate.metrics import deviance
from dgpbench.evaluate.predictive import Predictive
from dgpbench.evaluate.scorers import CountScorer
from dgpbench.gp.likelihoods import in_gpflow
from dgpbench.gp.likelihoods.distributions import Poisson

RNG = np.random.RandomState(0)


def test_expectation_with_a_bin_size_is_gpflows():
    mean, var, Y = RNG.randn(1, 7), RNG.uniform(0.1, 1, (1, 7)), RNG.poisson(2.0, (1, 7)).astype(float)
    ours = Poisson(0.37).variational_expectations({}, *map(tf.constant, (mean, var, Y)))
    theirs = gpflow.likelihoods.Poisson(binsize=0.37).variational_expectations(
        np.zeros((7, 1)), mean.T, var.T, Y.T
    )
    closed = Y * (mean + np.log(0.37)) - 0.37 * np.exp(mean + var / 2) + stats.poisson.logpmf(Y, 1.0) + 1.0
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    np.testing.assert_allclose(ours, closed[0], rtol=1e-10)
    assert float(in_gpflow(Poisson(0.37), {}).binsize) == 0.37


def test_density_and_draws_have_the_rate_of_the_bin():
    mean, tiny, Y = np.full((1, 5), 0.4), np.full((1, 5), 1e-9), np.arange(5.0)[None]
    ours = Poisson(2.5).log_density({}, *map(tf.constant, (mean, tiny, Y)))
    np.testing.assert_allclose(ours, stats.poisson.logpmf(Y[0], 2.5 * np.exp(0.4)), rtol=1e-6)
    draws = Poisson(2.5).draw({}, np.full(20_000, 0.4), np.random.default_rng(0))
    assert draws.mean() == pytest.approx(2.5 * np.exp(0.4), rel=0.02)


def test_the_continuous_cox_bound_is_the_limit_of_the_binned_one():
    """Data part of (3.45) for a rate exp(f): events summed over E f(x) - integral of exp(m + v / 2), which
    the bins approach with error of order b^2 once their own constants are taken off."""
    events = np.sort(RNG.uniform(0, 1, 9))
    m, v = (lambda x: np.sin(5 * x) + 1), (lambda x: 0.3 + 0.2 * x)
    x, weight = np.polynomial.legendre.leggauss(60)
    x, weight = 0.5 * (x + 1), 0.5 * weight
    continuous = m(events).sum() - weight @ np.exp(m(x) + v(x) / 2)
    errors = []
    for bins in (50, 100, 200, 2000):
        edges = np.linspace(0, 1, bins + 1)
        Y, middle, b = (
            np.histogram(events, edges)[0][None].astype(float),
            0.5 * (edges[1:] + edges[:-1])[None],
            1 / bins,
        )
        binned = tf.reduce_sum(
            Poisson(b).variational_expectations({}, *map(tf.constant, (m(middle), v(middle), Y)))
        )
        constant = Y.sum() * np.log(b) + (stats.poisson.logpmf(Y, 1.0) + 1.0).sum()
        errors.append(abs(float(binned) - constant - continuous))
    assert errors[-1] < 5e-3 and errors[-1] < 0.2 * errors[0]


class _Split:
    task = "counts"
    y_mean, y_std, x_mean, x_std, log_density = np.zeros(1), np.ones(1), np.array([3.0]), np.ones(1), None


def test_scores_of_counts():
    """Mean, deviance, coverage and the rate's band from draws whose rates are known."""
    rates = (
        np.exp(0.3 * np.random.default_rng(1).standard_normal((4000, 6, 1))) * np.arange(1.0, 7.0)[:, None]
    )
    draws = np.random.default_rng(2).poisson(rates).astype(float)
    Y = np.array([[1.0, 3.0, 2.0, 4.0, 0.0, 30.0]]).T
    terms = stats.poisson.logpmf(Y[None, :, 0], rates[..., 0])
    scorer = CountScorer(_Split, {"draws": 2000, "test_samples": 4000, "kde_rows": None}, 0, 6)
    scorer.add(Predictive(draws=draws, rates=rates), Y, 0, terms)
    metrics, _, table, _ = scorer.finish(np.arange(6.0)[:, None], Y, np.arange(6), ())
    assert metrics["test_loglik"] == pytest.approx(np.log(np.exp(terms).mean(0)).mean(), rel=1e-9)
    mean = draws.mean(0)
    own = [
        2 * (y * np.log(y / m) - y + m) if y else 2 * m for y, m in zip(Y.ravel(), mean.ravel(), strict=True)
    ]
    assert metrics["test_deviance"] == pytest.approx(np.mean(own)) == pytest.approx(deviance(mean, Y))
    assert metrics["test_coverage95"] == pytest.approx(4 / 6) and metrics["shapiro_w_median"] is None
    np.testing.assert_allclose(table["rate_q95"], np.quantile(rates[..., 0], 0.95, axis=0))
    np.testing.assert_allclose(table["x_0"], np.arange(6.0) + 3.0)
