"""Each score against scipy, quadrature or closed forms."""

import warnings

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from dgpbench.evaluate import draws, metrics, mixture
from dgpbench.evaluate.draws import kde_log_density, shapiro_w
from dgpbench.evaluate.mixture import LEVELS, mixture_quantiles


def mixture_cdf(mean, sd, x):
    return stats.norm(mean, sd).cdf(x).mean()


# Shapiro-Wilk --------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 4, 5, 6, 7, 11, 12, 50, 999, 2000, 4999])
@pytest.mark.parametrize("kind", ["normal", "exponential", "uniform", "bimodal", "offset"])
def test_shapiro_equals_scipy(n, kind):
    rng = np.random.default_rng(n)
    x = {
        "normal": rng.normal(size=(4, n)),
        "exponential": rng.exponential(size=(4, n)),
        "uniform": rng.uniform(size=(4, n)),
        "offset": 1e3 + rng.normal(size=(4, n)),
        "bimodal": rng.normal(size=(4, n)) * 0.1 + rng.choice([-1, 1], (4, n)),
    }[kind]
    expected = [stats.shapiro(row).statistic for row in x]
    np.testing.assert_allclose(shapiro_w(np.sort(x, axis=1)), expected, atol=1e-7)


def test_shapiro_of_constant_and_of_too_few():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert shapiro_w(np.ones((1, 10)))[0] == stats.shapiro(np.ones(10)).statistic == 1.0
    with pytest.raises(ValueError, match="at least 3"):
        shapiro_w(np.array([[0.0, 1.0]]))


# Kernel density ------------------------------------------------------------------


def test_kde_equals_scipy_with_the_same_bandwidth():
    rng = np.random.default_rng(0)
    draws, y = rng.gamma(2.0, size=(20, 500)), rng.gamma(2.0, size=20)
    for n in range(20):
        h = 1.06 * np.std(draws[n]) * 500 ** (-1 / 5)
        expected = stats.gaussian_kde(draws[n], bw_method=h / np.std(draws[n], ddof=1)).logpdf(y[n])[0]
        assert kde_log_density(draws[n : n + 1], y[n : n + 1])[0] == pytest.approx(expected, abs=1e-10)


def test_kde_bias_is_that_of_the_published_estimator():
    """At 3, 4, 5, 6, 8 sd from a Gaussian the 2000-draw estimate averages about -5.3 -10.8 -33 -69 -202."""
    draws = np.random.default_rng(0).normal(size=(300, 2000))
    for sd, expected, tol in ((3, -5.3, 0.1), (4, -10.8, 0.7), (5, -33, 3), (6, -69, 5), (8, -202, 12)):
        assert kde_log_density(draws, np.full(300, float(sd))).mean() == pytest.approx(expected, abs=tol)


# Mixture density and its Monte Carlo error ---------------------------------------


@pytest.mark.parametrize("shared", [True, False])
def test_mc_se_predicts_the_spread_over_repetitions(shared):
    """Inner samples shared by all points make errors add up, independent ones average out: both are seen."""
    rng = np.random.default_rng(0)
    S, N, repeats = 50, 40, 400
    Y = rng.normal(size=(N, 1))
    values, errors = [], []
    for _ in range(repeats):
        mean = 0.7 * rng.normal(size=(S, 1 if shared else N, 1)) * np.ones((1, N, 1))
        logp = mixture.component_logpdf(mean, np.full((S, N, 1), 0.5), Y)
        values.append(mixture.log_mean_exp(logp).mean())
        errors.append(mixture.loglik_mc_se(mixture.loglik_influence(logp), N))
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.15)


def test_mc_se_is_the_jackknife_to_first_order():
    rng = np.random.default_rng(3)
    mean, Y = rng.normal(size=(400, 6, 1)), rng.normal(size=(6, 1))
    logp = mixture.component_logpdf(mean, np.ones((400, 6, 1)), Y)
    leave_one = [mixture.log_mean_exp(np.delete(logp, s, 0)).mean() for s in range(400)]
    jackknife = np.sqrt(399 / 400 * ((leave_one - np.mean(leave_one)) ** 2).sum())
    assert mixture.loglik_mc_se(mixture.loglik_influence(logp), 6) == pytest.approx(jackknife, rel=0.01)


# CRPS ----------------------------------------------------------------------------


def test_crps_of_a_gaussian_is_the_closed_form():
    mean, sd, y = np.array([[0.0, 1.0, -2.0]]), np.array([[1.0, 0.5, 3.0]]), np.array([0.3, 4.0, -2.0])
    z = (y - mean[0]) / sd[0]
    expected = sd[0] * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    np.testing.assert_allclose(mixture.crps_mixture(mean, sd, y), expected, rtol=1e-13)


@pytest.mark.parametrize("block", [mixture.BLOCK, 10])
def test_crps_of_a_mixture_equals_the_integral(monkeypatch, block):
    monkeypatch.setattr(mixture, "BLOCK", block)
    rng = np.random.default_rng(0)
    mean, sd, y = 2 * rng.normal(size=(6, 5)), rng.uniform(0.2, 2.0, (6, 5)), rng.normal(size=5)
    for n, got in enumerate(mixture.crps_mixture(mean, sd, y)):

        def F(x, n=n):
            return mixture_cdf(mean[:, n], sd[:, n], x)

        below = integrate.quad(lambda x: F(x) ** 2, -30, y[n], limit=200)[0]
        above = integrate.quad(lambda x: (1 - F(x)) ** 2, y[n], 30, limit=200)[0]
        assert got == pytest.approx(below + above, abs=1e-7)


def test_crps_of_draws_equals_all_pairs():
    x = np.sort(np.random.default_rng(0).normal(size=(3, 40)), axis=1)
    y = np.array([0.0, 1.0, -3.0])
    for n in range(3):
        pairs = np.abs(x[n][:, None] - x[n]).sum() / (40 * 39)
        assert draws.crps_draws(x, y)[n] == pytest.approx(np.abs(x[n] - y[n]).mean() - pairs / 2, abs=1e-13)


# Quantiles -----------------------------------------------------------------------

SHAPES = {
    "smooth": lambda rng: (rng.normal(size=(5, 30)), rng.uniform(0.3, 2.0, (5, 30))),
    "separated": lambda rng: (rng.choice([-5.0, 5.0], (5, 30)), np.full((5, 30), 0.1)),
    "gaps": lambda rng: (100.0 * np.arange(30.0) * np.ones((5, 1)), np.full((5, 30), 1e-3)),
    "narrow": lambda rng: (rng.normal(size=(5, 30)), np.full((5, 30), 1e-3)),
    "wild scales": lambda rng: (rng.normal(size=(5, 30)), 10 ** rng.uniform(-6, 3, (5, 30))),
    "equal": lambda rng: (np.full((5, 30), 7.0), np.full((5, 30), 0.5)),
    "two": lambda rng: (rng.normal(size=(5, 2)), rng.uniform(0.3, 2.0, (5, 2))),
    "many": lambda rng: (rng.normal(size=(2, 3000)), rng.uniform(0.3, 2.0, (2, 3000))),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_quantiles_equal_brute_force_roots(shape):
    mean, sd = SHAPES[shape](np.random.default_rng(0))
    got = mixture_quantiles(mean, sd)
    assert got.shape == (len(mean), 99) and (np.diff(got) >= 0).all()
    for n in range(len(mean)):
        lo, hi = (mean[n] - 5 * sd[n]).min(), (mean[n] + 5 * sd[n]).max()
        for i in (0, 1, 24, 49, 50, 74, 97, 98):
            if abs(mixture_cdf(mean[n], sd[n], got[n, i]) - LEVELS[i]) < 1e-12:
                continue  # a root: inside a gap between components it is not unique
            root = optimize.brentq(
                lambda x, n=n, i=i: mixture_cdf(mean[n], sd[n], x) - LEVELS[i], lo, hi, xtol=1e-14, rtol=1e-14
            )
            assert got[n, i] == pytest.approx(root, abs=1e-8 * max(1, abs(root)) + 1e-6 * sd[n].min())


def test_quantiles_of_one_component_are_normal():
    np.testing.assert_allclose(
        mixture_quantiles(np.array([[2.0]]), np.array([[3.0]]))[0], stats.norm(2, 3).ppf(LEVELS), rtol=1e-12
    )


# Calibration ---------------------------------------------------------------------


def test_calibration_summaries():
    pit = np.random.default_rng(0).beta(2, 2, size=500)
    assert metrics.ks_distance(pit) == pytest.approx(stats.kstest(pit, "uniform").statistic, abs=1e-14)
    assert metrics.coverage(np.array([0.0, 0.02, 0.025, 0.5, 0.975, 0.99])) == 0.5
    assert metrics.pit_histogram(np.array([0.05, 0.05, 0.95, 1.0])) == [0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0.5]


def test_pit_of_draws_counts_ties_half():
    ordered = np.array([[1.0, 2.0, 2.0, 3.0]])
    pit = [draws.pit_draws(ordered, np.array([y]))[0] for y in (0.0, 2.0, 2.5, 9.0)]
    assert pit == [0, 0.5, 0.75, 1]


def test_pit_of_a_mixture_is_its_cdf():
    rng = np.random.default_rng(0)
    mean, sd, y = rng.normal(size=(4, 3)), rng.uniform(0.5, 1, (4, 3)), rng.normal(size=3)
    expected = [mixture_cdf(mean[:, n], sd[:, n], y[n]) for n in range(3)]
    np.testing.assert_allclose(mixture.cdf(mean, sd, y), expected, rtol=1e-13)
