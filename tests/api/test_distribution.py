"""Distribution against SciPy: mixtures of equal and unequal weights, one output and several, and draws."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import logsumexp
from scipy.stats import kstest, norm

import dgpbench
from dgpbench.api.distribution import Distribution
from dgpbench.evaluate.predictive import Predictive

S, N = 7, 5


def mixture(outputs: int, weighted: bool, seed: int = 0):
    rng = np.random.RandomState(seed)
    mean, var = 3 * rng.randn(S, N, outputs), rng.gamma(2.0, size=(S, N, outputs))
    weights = rng.dirichlet(np.ones(S), N).T if weighted else np.full((S, N), 1 / S)
    return mean, np.sqrt(var), weights, Predictive(mean, var, np.log(weights) if weighted else None)


def split(part: Predictive, at: int) -> tuple[Predictive, Predictive]:
    """Two chunks, as the predictions of many rows have them."""
    arrays = {name: getattr(part, name) for name in Predictive.FIELDS if getattr(part, name) is not None}
    return tuple(
        Predictive(**{n: a[:, rows] for n, a in arrays.items()}) for rows in (slice(at), slice(at, N))
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_mixtures_are_those_of_scipy(weighted):
    mean, sd, weights, part = mixture(1, weighted)
    dist = Distribution(split(part, 2))
    y = np.linspace(-4, 4, N)
    parts = norm(mean[:, :, 0], sd[:, :, 0])
    np.testing.assert_allclose(dist.log_prob(y), logsumexp(parts.logpdf(y), axis=0, b=weights), rtol=1e-12)
    np.testing.assert_allclose(dist.cdf(y), (weights * parts.cdf(y)).sum(0), rtol=1e-12)
    first = (weights * mean[:, :, 0]).sum(0)
    second = (weights * (sd[:, :, 0] ** 2 + mean[:, :, 0] ** 2)).sum(0)
    np.testing.assert_allclose(dist.mean(), first, rtol=1e-12)
    np.testing.assert_allclose(dist.std(), np.sqrt(second - first**2), rtol=1e-12)
    for level in (0.001, 0.3, 0.99):
        roots = [
            brentq(lambda q, i=i, p=level: weights[:, i] @ parts.cdf(q)[:, i] - p, -60, 60, xtol=1e-12)
            for i in range(N)
        ]
        np.testing.assert_allclose(dist.quantile(level), roots, rtol=1e-7, atol=1e-7)
    assert dist.quantile((0.1, 0.9)).shape == (N, 2) and dist.quantile([0.5]).shape == (N, 1)
    area = quad(lambda v: np.exp(dist.log_prob(v))[3], -40, 40, limit=200)[0]
    assert area == pytest.approx(1, abs=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
def test_samples_follow_the_mixture(weighted):
    mean, _, weights, part = mixture(1, weighted)
    dist = Distribution(split(part, 2))
    draws = dist.sample(4000, seed=1)
    assert draws.shape == (4000, N)
    for i in range(N):
        one = Distribution(
            (
                Predictive(
                    *(a[:, i : i + 1] for a in (part.mean, part.var)),
                    None if not weighted else part.log_weights[:, i : i + 1],
                ),
            )
        )
        assert kstest(draws[:, i], lambda v, one=one: np.concatenate([one.cdf(x) for x in v])).pvalue > 1e-3
    np.testing.assert_array_equal(dist.sample(3, seed=2), dist.sample(3, seed=2))
    assert not np.array_equal(dist.sample(3), dist.sample(3))
    # one draw is of any component, not always of the first
    single = np.concatenate([dist.sample(1, seed=s) for s in range(2000)])
    np.testing.assert_allclose(single.mean(0), dist.mean(), atol=5 * dist.std().max() / np.sqrt(2000))


def test_several_outputs_are_scored_jointly_and_quantiles_are_of_each():
    mean, sd, weights, part = mixture(2, True)
    dist = Distribution(split(part, 3), flat=False)
    Y = np.random.RandomState(3).randn(N, 2)
    joint = norm(mean, sd).logpdf(Y).sum(-1)
    np.testing.assert_allclose(dist.log_prob(Y), logsumexp(joint, axis=0, b=weights), rtol=1e-12)
    np.testing.assert_allclose(dist.cdf(Y), (weights[:, :, None] * norm(mean, sd).cdf(Y)).sum(0), rtol=1e-12)
    q = dist.quantile((0.2, 0.7))
    assert q.shape == (N, 2, 2) and dist.sample(4, 0).shape == (4, N, 2)
    np.testing.assert_allclose(dist.cdf(q[..., 1]), 0.7, atol=1e-8)


def test_draws_have_their_own_moments_and_no_density():
    draws = np.random.RandomState(0).poisson(4.0, size=(600, N, 1)).astype(float)
    dist = Distribution((Predictive(draws=draws),))
    np.testing.assert_allclose(dist.mean(), draws[:, :, 0].mean(0))
    np.testing.assert_allclose(dist.cdf(3.0), (draws[:, :, 0] <= 3).mean(0))
    assert set(np.unique(dist.sample(50, 0))) <= set(np.unique(draws))
    with pytest.raises(dgpbench.UserError, match="only draws samples of y"):
        dist.log_prob(3.0)


def test_bad_values_are_one_line():
    dist = Distribution((mixture(1, False)[3],))
    with pytest.raises(dgpbench.UserError, match=r"y has shape \(3,\); expected \(5,\)"):
        dist.cdf(np.zeros(3))
    for level in (0, 1, 1.5, np.nan):
        with pytest.raises(dgpbench.UserError, match="levels lie between 0 and 1"):
            dist.quantile(level)
    with pytest.raises(dgpbench.UserError, match="at least one sample"):
        dist.sample(0)


def test_a_deep_gp_is_the_mixture_of_its_run(tmp_path, monkeypatch):
    """Not the Gaussian of the same mean and variance; and its density is the one that runs are scored by."""
    monkeypatch.chdir(tmp_path)
    run = dgpbench.run(
        "model=dgp2", "dataset=step", "budget.steps=3", "model.num_inducing=5", "engine.xla=false"
    )
    from dgpbench.data import load_split

    split = load_split(run.config)
    X, y = np.asarray(split.X)[split.rows_test], np.asarray(split.Y)[split.rows_test, 0]
    dist = dgpbench.load(run).predict_dist(X)
    assert repr(dist) == f"<Distribution at {len(X)} inputs: mixture of 100 Gaussians>"
    assert dist.log_prob(y).mean() == pytest.approx(run.metrics["test_loglik"], rel=1e-9)
    assert abs(norm(dist.mean(), dist.std()).logpdf(y) - dist.log_prob(y)).max() > 1e-6
    assert np.sqrt(np.mean((dist.mean() - y) ** 2)) == pytest.approx(run.metrics["test_rmse"])
    found = dgpbench.load(run).predict(X, (0.1,))
    np.testing.assert_allclose(dist.quantile(0.1), found.quantiles[:, 0], rtol=1e-6)
    with pytest.raises(dgpbench.UserError, match="X has no rows"):
        dgpbench.load(run).predict_dist(X[:0])
