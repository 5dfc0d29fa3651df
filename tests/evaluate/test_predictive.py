"""Predictive: kinds and shapes, moments, density, draws, units."""

import numpy as np
import pytest
from scipy import stats

from dgpbench.evaluate.predictive import Predictive


def mixture(S=7, N=5, P=2, seed=0):
    rng = np.random.default_rng(seed)
    return Predictive(mean=rng.normal(size=(S, N, P)), var=rng.uniform(0.1, 2.0, (S, N, P)))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"mean": np.zeros((2, 3, 1))},
        {"mean": np.zeros((2, 3)), "var": np.ones((2, 3))},
        {"mean": np.zeros((2, 3, 1)), "var": np.ones((1, 3, 1))},
        {"draws": np.zeros((2, 3, 1)), "probs": np.ones((3, 1))},
        {"draws": np.zeros((0, 3, 1))},
        {"probs": np.ones(3)},
    ],
)
def test_wrong_kinds_and_shapes_are_refused(fields):
    with pytest.raises(ValueError, match="Predictive"):
        Predictive(**fields)


def test_kind_and_sizes():
    assert mixture().kind == "mixture" and mixture().num_components == 7 and mixture().num_points == 5
    assert Predictive(draws=np.zeros((4, 3, 1))).kind == "draws"
    probs = Predictive(probs=np.full((3, 2), 0.5))
    assert probs.kind == "probs" and probs.num_points == 3
    with pytest.raises(ValueError, match="class probabilities"):
        probs.mixture_mean()


def test_moments_against_law_of_total_variance():
    p = mixture()
    second = (p.var + p.mean**2).mean(0)
    np.testing.assert_allclose(p.mixture_mean(), p.mean.sum(0) / 7, rtol=1e-14)
    np.testing.assert_allclose(p.mixture_sd() ** 2, second - p.mixture_mean() ** 2, rtol=1e-12)
    d = Predictive(draws=p.mean)
    np.testing.assert_allclose(d.mixture_sd(), p.mean.std(0), rtol=1e-14)


def test_log_density_equals_brute_force():
    p = mixture()
    Y = np.random.default_rng(1).normal(size=(5, 2))
    for n in range(5):
        each = [stats.multivariate_normal(p.mean[s, n], np.diag(p.var[s, n])).pdf(Y[n]) for s in range(7)]
        assert p.log_density(Y)[n] == pytest.approx(np.log(np.mean(each)), abs=1e-12)


def test_log_density_does_not_underflow():
    p = Predictive(mean=np.array([[[0.0]], [[1.0]]]), var=np.full((2, 1, 1), 1e-4))
    expected = stats.norm(1, 1e-2).logpdf(50.0) - np.log(2)
    assert p.log_density(np.array([[50.0]]))[0] == pytest.approx(expected, rel=1e-12)
    with pytest.raises(ValueError, match="no exact density"):
        Predictive(draws=np.zeros((2, 1, 1))).log_density(np.zeros((1, 1)))


def test_rescale_is_a_change_of_units():
    p, Y = mixture(), np.random.default_rng(1).normal(size=(5, 2))
    shift, scale = np.array([3.0, -1.0]), np.array([2.0, 0.5])
    q = p.rescale(shift, scale)
    np.testing.assert_allclose(q.mixture_sd(), p.mixture_sd() * scale)
    np.testing.assert_allclose(q.log_density(Y * scale + shift), p.log_density(Y) - np.log(scale).sum())
    np.testing.assert_allclose(q.draw(20, 3), p.draw(20, 3) * scale + shift)


def test_draws_use_components_evenly_and_have_the_right_distribution():
    mean = np.array([-100.0, 0.0, 100.0]).reshape(3, 1, 1)
    draws = Predictive(mean=mean, var=np.full((3, 1, 1), 4.0)).draw(3000, seed=5)[:, 0, 0]
    for centre in (-100, 0, 100):
        near = draws[np.abs(draws - centre) < 50]
        assert len(near) == 1000
        assert stats.kstest(near, stats.norm(centre, 2).cdf).pvalue > 0.01
    few = Predictive(mean=np.arange(10.0).reshape(10, 1, 1), var=np.full((10, 1, 1), 1e-12)).draw(5, seed=0)
    np.testing.assert_allclose(few[:, 0, 0], [0, 2, 4, 6, 8], atol=1e-4)


def test_draws_depend_on_row_position_not_on_chunks():
    p = mixture(N=6)
    whole = p.draw(50, seed=9)
    tail = Predictive(mean=p.mean[:, 4:], var=p.var[:, 4:]).draw(50, seed=9, first_row=4)
    np.testing.assert_array_equal(whole[:, 4:], tail)
    assert not np.allclose(whole, p.draw(50, seed=10))
    z = (whole - p.mean[np.arange(50) * 7 // 50]) / np.sqrt(p.var[np.arange(50) * 7 // 50])
    correlation = np.corrcoef(z.transpose(1, 2, 0).reshape(12, 50))
    assert np.abs(correlation - np.eye(12)).max() < 0.6


def test_stored_draws_are_thinned():
    stored = np.arange(12.0).reshape(6, 2, 1)
    np.testing.assert_array_equal(Predictive(draws=stored).draw(3, seed=0), stored[[0, 2, 4]])
    with pytest.raises(ValueError, match="7 draws asked for, 6 stored"):
        Predictive(draws=stored).draw(7, seed=0)


def test_problem_names_what_is_wrong():
    bad = np.zeros((2, 3, 1))
    bad[1, 1] = np.nan
    assert "mean is not finite in 1 of 6" in Predictive(mean=bad, var=np.ones((2, 3, 1))).problem()
    zero = np.zeros((2, 3, 1))
    assert "variance is not positive in 6" in Predictive(mean=zero, var=zero).problem()
    assert mixture().problem() is None
