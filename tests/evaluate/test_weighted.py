"""Mixtures with weights: every score against brute force; equal weights give what no weights give."""

import numpy as np
import pytest
from scipy import integrate, optimize, stats
from test_evaluation import PROTOCOL, make_split, predict_by_row
from test_scores import SHAPES

from dgpbench.errors import Diverged
from dgpbench.evaluate import mixture
from dgpbench.evaluate.evaluation import evaluate
from dgpbench.evaluate.mixture import LEVELS, mixture_quantiles
from dgpbench.evaluate.predictive import Predictive


def weighted(S=6, N=5, P=2, seed=0):
    rng = np.random.default_rng(seed)
    log_weights = np.log(rng.dirichlet(np.full(S, 0.5), size=N)).T
    return Predictive(
        mean=2 * rng.normal(size=(S, N, P)), var=rng.uniform(0.1, 2.0, (S, N, P)), log_weights=log_weights
    )


def cdf(p, n, k, x):
    return p.weights[:, n] @ stats.norm(p.mean[:, n, k], np.sqrt(p.var[:, n, k])).cdf(x)


@pytest.mark.parametrize("shape", [(5, 6), (6, 5, 1), (0, 5)])
def test_weights_of_another_shape_are_refused(shape):
    p = weighted()
    with pytest.raises(ValueError, match="Predictive: log_weights"):
        Predictive(mean=p.mean, var=p.var, log_weights=np.zeros(shape))
    with pytest.raises(ValueError, match="Predictive takes"):
        Predictive(draws=p.mean, log_weights=p.log_weights)


def test_weights_must_sum_to_one_and_may_be_zero():
    p = weighted()
    assert p.problem() is None
    half = p.log_weights.copy()
    half[:, 2] -= np.log(2)
    half[0, 3] = np.nan
    bad = Predictive(mean=p.mean, var=p.var, log_weights=half)
    assert bad.problem() == "predictive weights do not sum to one at 2 of 5 points"
    with np.errstate(divide="ignore"):
        one = np.log(np.eye(6)[:, [4] * 5])
    only = Predictive(mean=p.mean, var=p.var, log_weights=one)
    alone = Predictive(mean=p.mean[4:5], var=p.var[4:5])
    Y = np.ones((5, 2))
    assert only.problem() is None
    np.testing.assert_allclose(only.log_density(Y), alone.log_density(Y), rtol=1e-14)
    np.testing.assert_allclose(only.draw(30, 1), alone.draw(30, 1), rtol=1e-14)


def test_moments_and_density_by_integration():
    p, Y = weighted(), np.random.default_rng(1).normal(size=(5, 2))
    x = np.linspace(-25, 25, 5001)
    for n in range(5):
        each = [stats.multivariate_normal(p.mean[s, n], np.diag(p.var[s, n])).pdf(Y[n]) for s in range(6)]
        assert p.log_density(Y)[n] == pytest.approx(np.log(p.weights[:, n] @ each), abs=1e-12)
        for k in range(2):
            components = stats.norm(p.mean[:, n, k, None], np.sqrt(p.var[:, n, k, None]))
            density = p.weights[:, n] @ components.pdf(x)
            mean = (x * density).sum() * (x[1] - x[0])
            assert p.mixture_mean()[n, k] == pytest.approx(mean, abs=1e-9)
            var = ((x - mean) ** 2 * density).sum() * (x[1] - x[0])
            assert p.mixture_sd()[n, k] == pytest.approx(np.sqrt(var), abs=1e-9)


def test_a_weight_below_the_smallest_number_still_counts_far_away():
    log_weights = np.array([[0.0], [-900.0]])
    p = Predictive(mean=np.array([[[0.0]], [[100.0]]]), var=np.ones((2, 1, 1)), log_weights=log_weights)
    assert p.log_density(np.array([[100.0]]))[0] == pytest.approx(stats.norm.logpdf(0) - 900.0, rel=1e-14)


def test_cdf_crps_and_quantiles_by_brute_force():
    p, y = weighted(P=1), np.random.default_rng(1).normal(size=5)
    mean, sd = p.mean[:, :, 0], np.sqrt(p.var[:, :, 0])
    pit = mixture.cdf(mean, sd, y, p.weights)
    score = mixture.crps_mixture(mean, sd, y, p.weights)
    quantiles = mixture_quantiles(mean.T, sd.T, p.weights.T)
    assert (np.diff(quantiles) > 0).all()
    for n in range(5):

        def F(x, n=n):
            return cdf(p, n, 0, x)

        assert pit[n] == pytest.approx(F(y[n]), abs=1e-14)
        below = integrate.quad(lambda x: F(x) ** 2, -30, y[n], limit=300)[0]
        above = integrate.quad(lambda x: (1 - F(x)) ** 2, y[n], 30, limit=300)[0]
        assert score[n] == pytest.approx(below + above, abs=1e-7)
        for i in (0, 10, 49, 80, 98):
            root = optimize.brentq(lambda x, i=i: F(x) - LEVELS[i], -30, 30, xtol=1e-14)
            assert quantiles[n, i] == pytest.approx(root, abs=1e-7)


@pytest.mark.parametrize("shape", SHAPES)
def test_quantiles_of_hard_shapes_equal_brute_force_roots(shape):
    """Weights from even to almost none, some of them zero."""
    rng = np.random.default_rng(1)
    mean, sd = SHAPES[shape](np.random.default_rng(0))
    weights = rng.dirichlet(np.full(mean.shape[1], 0.1), size=len(mean))
    weights[0, 0] = 0.0
    weights /= weights.sum(1, keepdims=True)
    got = mixture_quantiles(mean, sd, weights)
    assert (np.diff(got) >= 0).all()
    for n in range(len(mean)):

        def F(x, n=n):
            return weights[n] @ stats.norm(mean[n], sd[n]).cdf(x)

        lo, hi = (mean[n] - 5 * sd[n]).min(), (mean[n] + 5 * sd[n]).max()
        for i in (0, 1, 24, 49, 74, 98):
            if abs(F(got[n, i]) - LEVELS[i]) > 1e-12:  # else a root, not unique between components
                root = optimize.brentq(lambda x, i=i, F=F: F(x) - LEVELS[i], lo, hi, xtol=1e-14, rtol=1e-14)
                assert got[n, i] == pytest.approx(root, abs=1e-8 * max(1, abs(root)) + 1e-6 * sd[n].min())


@pytest.mark.parametrize("block", [mixture.BLOCK, 10])
def test_equal_weights_equal_no_weights(monkeypatch, block):
    monkeypatch.setattr(mixture, "BLOCK", block)
    plain, Y = weighted(S=8), np.random.default_rng(1).normal(size=(5, 2))
    plain = Predictive(mean=plain.mean, var=plain.var)
    even = Predictive(mean=plain.mean, var=plain.var, log_weights=np.full((8, 5), -np.log(8)))
    np.testing.assert_allclose(even.mixture_mean(), plain.mixture_mean(), rtol=1e-13)
    np.testing.assert_allclose(even.mixture_sd(), plain.mixture_sd(), rtol=1e-13)
    np.testing.assert_allclose(even.log_density(Y), plain.log_density(Y), rtol=1e-13)
    np.testing.assert_array_equal(even.draw(80, 3), plain.draw(80, 3))
    mean, sd, y = plain.mean[..., 0], np.sqrt(plain.var[..., 0]), Y[:, 0]
    w = even.weights
    np.testing.assert_allclose(
        mixture.crps_mixture(mean, sd, y, w), mixture.crps_mixture(mean, sd, y), rtol=1e-12
    )
    even_quantiles, quantiles = mixture_quantiles(mean.T, sd.T, w.T), mixture_quantiles(mean.T, sd.T)
    np.testing.assert_allclose(even_quantiles, quantiles, atol=1e-9)


def test_draws_take_their_share_and_do_not_depend_on_chunks():
    weights = np.array([[0.5, 0.002], [0.2504, 0.008], [0.2496, 0.99]])
    mean = np.broadcast_to(np.array([-100.0, 0.0, 100.0])[:, None, None], (3, 2, 1))
    p = Predictive(mean=mean, var=np.full((3, 2, 1), 4.0), log_weights=np.log(weights))
    draws = p.draw(1000, seed=5)[:, :, 0]
    for n in range(2):
        for s, centre in enumerate((-100, 0, 100)):
            near = draws[np.abs(draws[:, n] - centre) < 50, n]
            assert abs(len(near) - 1000 * weights[s, n]) < 1
            if len(near) > 200:
                assert stats.kstest(near, stats.norm(centre, 2).cdf).pvalue > 0.01
    tail = Predictive(mean=p.mean[:, 1:], var=p.var[:, 1:], log_weights=p.log_weights[:, 1:])
    np.testing.assert_array_equal(p.draw(50, 9)[:, 1:], tail.draw(50, 9, first_row=1))


def test_a_small_weight_is_drawn_as_often_as_it_should():
    """The uniform offset of each point makes the share of a component right on average, however small."""
    N = 4000
    mean = np.array([0.0, 100.0])[:, None, None] * np.ones((1, N, 1))
    log_weights = np.log(np.array([[0.99], [0.01]])) * np.ones((1, N))
    p = Predictive(mean=mean, var=np.ones((2, N, 1)), log_weights=log_weights)
    share = (p.draw(5, seed=1) > 50).mean()
    assert share == pytest.approx(0.01, abs=4 * np.sqrt(0.05 * 0.95 / N) / 5)


def test_rescale_keeps_the_weights():
    p, Y = weighted(), np.random.default_rng(1).normal(size=(5, 2))
    shift, scale = np.array([3.0, -1.0]), np.array([2.0, 0.5])
    q = p.rescale(shift, scale)
    np.testing.assert_allclose(q.log_density(Y * scale + shift), p.log_density(Y) - np.log(scale).sum())
    np.testing.assert_allclose(q.draw(20, 3), p.draw(20, 3) * scale + shift)


def weighted_by_row(X, samples, seed, P=1):
    p = predict_by_row(X, 4, seed, P)
    logits = np.stack([X[:, 0], -X[:, 0], X[:, 1], np.zeros(len(X))])
    return Predictive(mean=p.mean, var=p.var, log_weights=logits - np.log(np.exp(logits).sum(0)))


@pytest.mark.parametrize("P", [1, 2])
def test_metrics_and_tables(P):
    split = make_split(P=P, N=150)
    result = evaluate(lambda X, s, seed: weighted_by_row(X, s, seed, P), split, PROTOCOL, seed=3)
    p, Y, m = weighted_by_row(split.X_test, 4, 0, P), split.Y_test, result.metrics
    density = (p.weights * stats.norm(p.mean, np.sqrt(p.var)).pdf(Y).prod(-1)).sum(0)
    assert m["test_loglik_std"] == pytest.approx(np.log(density).mean(), abs=1e-12)
    assert m["test_loglik_mc_se"] == 0.0
    mean = (p.weights[:, :, None] * p.mean).sum(0)
    assert m["test_rmse_std"] == pytest.approx(np.sqrt(((mean - Y) ** 2).mean()), abs=1e-12)
    pit = np.array([[cdf(p, n, k, Y[n, k]) for k in range(P)] for n in range(150)])
    np.testing.assert_allclose(result.predictions["pit"], pit.ravel(), atol=1e-13)
    q = p.rescale(split.y_mean, split.y_std)
    for n, k in ((0, 0), (77, P - 1), (149, 0)):
        level = cdf(q, n, k, float(result.predictions["q37"][n * P + k]))
        assert level == pytest.approx(0.37, abs=1e-6)


def test_one_weighted_component_is_exact_even_when_one_sample_was_asked_for():
    def predict(X, samples, seed):
        one = np.ones((1, len(X), 1))
        return Predictive(mean=0 * one, var=one, log_weights=np.zeros((1, len(X))))

    m = evaluate(predict, make_split(), PROTOCOL | {"test_samples": 1}, 0).metrics
    assert m["test_loglik_mc_se"] == 0.0


def test_wrong_weights_end_the_evaluation():
    def predict(X, samples, seed):
        p = weighted_by_row(X, samples, seed)
        return Predictive(mean=p.mean, var=p.var, log_weights=p.log_weights + 0.1)

    with pytest.raises(Diverged, match="weights do not sum to one at 60 of 60 points"):
        evaluate(predict, make_split(), PROTOCOL, 0)
