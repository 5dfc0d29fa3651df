"""Quantiles and CRPS of mixtures from a grid: against root finding, all pairs and quadrature."""

import numpy as np
import pytest
from scipy import integrate, stats
from test_evaluation import PROTOCOL, make_split, predict_by_row
from test_scores import SHAPES

from dgpbench.evaluate import mixture
from dgpbench.evaluate.draws import shapiro_w_draws
from dgpbench.evaluate.evaluation import evaluate
from dgpbench.evaluate.mixture import LEVELS, crps_and_quantiles, mixture_quantiles
from dgpbench.evaluate.predictive import Predictive


def mixtures(m=40, S=30, spread=1.0, seed=0):
    rng = np.random.default_rng(seed)
    return spread * rng.normal(size=(m, S)), np.sqrt(rng.uniform(0.1, 0.5, (m, S)))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("spread", [0.0, 0.5, 2.0])
def test_grid_equals_root_finding_and_all_pairs(spread, weighted):
    mean, sd = mixtures(spread=spread)
    rng = np.random.default_rng(1)
    weights = rng.dirichlet(np.ones(30), size=40) if weighted else None
    difference, quantiles = mixture.grid_summaries(mean, sd, weights, LEVELS)
    assert np.isfinite(difference).all() and np.isfinite(quantiles).all(1).mean() > 0.9
    columns = None if weights is None else weights.T
    np.testing.assert_allclose(difference, mixture.difference_of_pairs(mean.T, sd.T, columns), atol=1e-10)
    known = np.isfinite(quantiles).all(1)
    expected = mixture_quantiles(mean, sd, weights)
    np.testing.assert_allclose(quantiles[known], expected[known], atol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_density_by_recurrence_equals_the_sum_of_normals(weighted):
    """Over several stretches of nodes, with components that are zero at some of their middles."""
    mean, sd = mixtures(m=3, S=7, spread=20.0)
    weights = np.random.default_rng(1).dirichlet(np.ones(7), size=3) if weighted else np.full((3, 7), 1 / 7)
    low, step, nodes = np.array([-60.0, -55.0, -70.0]), 0.28 * sd.min(1), 4 * mixture.STRETCH + 30
    height = weights / (np.sqrt(2 * np.pi) * sd)
    f = mixture._density_on_grid(mean, sd, height, low, step, nodes)
    x = low[:, None] + step[:, None] * np.arange(nodes)
    expected = (weights[:, None] * stats.norm(mean[:, None], sd[:, None]).pdf(x[:, :, None])).sum(2)
    assert (np.abs(x[:, :, None] - mean[:, None]) / sd[:, None]).max() > 80.0
    np.testing.assert_allclose(f, expected, rtol=1e-11, atol=1e-24)


def test_polynomial_between_nodes_is_integrated_exactly():
    at = np.arange(mixture.WIDTH) - (mixture.WIDTH // 2 - 1.0)
    c = np.random.default_rng(0).normal(size=10) / 10.0 ** np.arange(10)
    made = mixture._integrated() @ np.polynomial.polynomial.polyval(at, c)
    np.testing.assert_allclose(made, c / np.arange(1, 11), atol=1e-11)


def test_wide_mixtures_have_a_grid():
    """Up to MAX_CELLS cells: narrow components far apart, bridged by broad ones."""
    rng = np.random.default_rng(2)
    mean, sd = rng.uniform(-8, 8, (20, 25)), np.where(np.arange(25) < 3, 0.15, 1.5) * np.ones((20, 25))
    difference, quantiles = mixture.grid_summaries(mean, sd, None, LEVELS)
    assert np.isfinite(quantiles).all(1).mean() > 0.5
    known = np.isfinite(quantiles).all(1)
    np.testing.assert_allclose(quantiles[known], mixture_quantiles(mean, sd)[known], atol=1e-9)
    np.testing.assert_allclose(difference, mixture.difference_of_pairs(mean.T, sd.T), atol=1e-10)


def test_grid_of_one_gaussian_is_the_closed_form():
    mean, sd = np.array([[3.0, 3.0], [-1.0, -1.0]]), np.array([[2.0, 2.0], [0.01, 0.01]])
    difference, quantiles = mixture.grid_summaries(mean, sd, None, LEVELS)
    np.testing.assert_allclose(difference, sd[:, 0] / np.sqrt(np.pi), rtol=1e-9)
    expected = stats.norm(mean[:, :1], sd[:, :1]).ppf(LEVELS)
    np.testing.assert_allclose((quantiles - expected) / sd[:, :1], 0.0, atol=2e-9)


@pytest.mark.parametrize("shape", [name for name in SHAPES if name != "many"])
def test_crps_and_quantiles_of_hard_shapes(shape):
    """Also where the grid gives up: gaps, narrow components, sds over nine orders of magnitude."""
    mean, sd = SHAPES[shape](np.random.default_rng(0))
    y = mean.mean(1) + 0.3
    score, quantiles = crps_and_quantiles(mean.T, sd.T, y)
    pairs = mixture.crps_mixture(mean.T, sd.T, y)
    np.testing.assert_allclose(score, pairs, rtol=1e-9, atol=1e-9)
    levels = stats.norm(mean[:, :, None], sd[:, :, None]).cdf(quantiles[:, None, :]).mean(1)
    reached = np.abs(levels - LEVELS) < 1e-6
    exact = np.abs(quantiles - mixture_quantiles(mean, sd)) < 1e-8
    assert (reached | exact).all()


def test_a_level_in_a_gap_is_left_to_root_finding():
    mean, sd = np.array([[-3.0, 3.0]]), np.array([[0.2, 0.2]])
    difference, quantiles = mixture.grid_summaries(mean, sd, None, np.array([0.25, 0.5]))
    assert np.isnan(quantiles).any()
    F = lambda x: stats.norm(mean[0], 0.2).cdf(x).mean()  # noqa: E731
    expected = integrate.quad(lambda x: F(x) * (1 - F(x)), -5, 5, points=[-3, 3], limit=200)[0]
    assert difference[0] == pytest.approx(expected, abs=1e-8)


def test_a_mixture_does_not_depend_on_its_neighbours():
    mean, sd = mixtures(m=50)
    whole = mixture.grid_summaries(mean, sd, None, LEVELS)
    alone = mixture.grid_summaries(mean[7:8], sd[7:8], None, LEVELS)
    np.testing.assert_allclose(alone[0], whole[0][7:8], rtol=1e-13)
    np.testing.assert_allclose(alone[1], whole[1][7:8], rtol=1e-12)


@pytest.mark.parametrize("n", [200, 2000])
@pytest.mark.parametrize("kind", ["normal", "heavy", "bimodal", "one far", "few values"])
def test_shapiro_of_draws_in_any_order_equals_scipy(n, kind):
    rng = np.random.default_rng(n)
    x = {
        "normal": 1e3 + rng.normal(size=(4, n)),
        "heavy": rng.standard_t(2, size=(4, n)),
        "bimodal": rng.normal(size=(4, n)) * 1e-3 + rng.choice([-1, 1], (4, n)),
        "one far": np.concatenate([rng.normal(size=(4, n - 1)), np.full((4, 1), 1e4)], 1),
        "few values": rng.integers(0, 4, size=(4, n)).astype(float),
    }[kind]
    before = x.copy()
    expected = [stats.shapiro(row).statistic for row in x]
    np.testing.assert_allclose(
        shapiro_w_draws(x), expected, atol=1e-5 if kind in ("heavy", "one far") else 1e-6
    )
    np.testing.assert_array_equal(x, before)
    assert shapiro_w_draws(np.ones((1, 10)))[0] == 1.0


def test_threads_change_no_number():
    split = make_split(N=300)
    one, three = (evaluate(predict_by_row, split, PROTOCOL, 3, threads=threads) for threads in (1, 3))
    assert one.metrics == three.metrics
    for name, column in one.predictions.items():
        np.testing.assert_array_equal(three.predictions[name], column)


def test_progress_and_seconds():
    seen = []

    def slow(X, samples, seed):
        import time

        time.sleep(0.05)
        return predict_by_row(X, samples, seed)

    made = evaluate(
        slow, make_split(N=1500), PROTOCOL, 0, progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(0, 1500), (1000, 1500), (1500, 1500)]
    assert 0.1 <= made.predict_seconds < made.seconds


@pytest.mark.parametrize("S", [1, 5, 6, 20])
def test_draws_by_row_are_the_draws(S):
    rng = np.random.default_rng(0)
    p = Predictive(mean=rng.normal(size=(S, 5, 2)), var=rng.uniform(0.5, 1, (S, 5, 2)))
    np.testing.assert_array_equal(p.draw_rows(20, 3, np.arange(5)).transpose(1, 0, 2), p.draw(20, 3))
    noise = np.random.Generator(np.random.Philox(key=3, counter=4 << 64)).standard_normal((20, 2))
    which = np.arange(20) * S // 20
    np.testing.assert_array_equal(p.draw(20, 3)[:, 4], p.mean[which, 4] + np.sqrt(p.var)[which, 4] * noise)
