"""Paired tests against enumeration, brute-force Monte Carlo and printed tables."""

import itertools

import numpy as np
import pytest
from report_units import units
from scipy.stats import friedmanchisquare, ttest_1samp

from dgpbench.errors import UserError
from dgpbench.papers import specs
from dgpbench.papers.paper_cells import Records
from dgpbench.papers.paper_table import build
from dgpbench.report.diagnostics import calibration, frontier_frame, pit_bars
from dgpbench.report.significance import (
    OVER_DATASETS,
    PRIOR_WEIGHT,
    ROPE,
    Resampled,
    critical_difference,
    holm,
    paired,
    rank_groups,
    signed_rank_posterior,
    wilcoxon,
)

DIFFERENCES = np.array([0.03, -0.01, 0.06, 0.02, 0.05])


def test_the_corrected_t_test_is_that_of_correlated_normal_differences():
    """With differences of variance s2 and correlation r = ratio / (1 + ratio), t is Student's t with n - 1.

    The distribution is simulated: the share of simulated |t| above ours is p.
    """
    n, ratio = len(DIFFERENCES), 1 / 9
    r = ratio / (1 + ratio)
    rng = np.random.default_rng(3)
    draws = np.sqrt(1 - r) * rng.standard_normal((200_000, n)) + np.sqrt(r) * rng.standard_normal(
        (200_000, 1)
    )
    t = draws.mean(1) / np.sqrt(draws.var(1, ddof=1) * (1 / n + ratio))
    ours = DIFFERENCES.mean() / np.sqrt(DIFFERENCES.var(ddof=1) * (1 / n + ratio))
    share = np.mean(np.abs(t) >= abs(ours))
    error = np.sqrt(share * (1 - share) / len(t))
    assert Resampled.of(DIFFERENCES, ratio).p_value() == pytest.approx(share, abs=4 * error)
    assert Resampled.of(DIFFERENCES, 0.0).p_value() == pytest.approx(ttest_1samp(DIFFERENCES, 0).pvalue)


def test_the_correlated_posterior_is_that_of_quadrature():
    """Benavoli et al. (2017): differences ~ N(mu 1, s2 ((1 - r) I + r 11')) with the prior 1 / s2."""
    ratio, rope = 0.3, 0.02
    n, r = len(DIFFERENCES), ratio / (1 + ratio)
    inverse = np.linalg.inv((1 - r) * np.eye(n) + r * np.ones((n, n)))
    mu = (np.arange(-3000, 3000) + 0.5) * 5e-4  # midpoints: the region ends between two of them
    log_s2 = np.linspace(-13, 3, 801)
    residual = DIFFERENCES - mu[:, None]
    quadratic = np.einsum("mi,ij,mj->m", residual, inverse, residual)
    log_posterior = -0.5 * n * log_s2 - 0.5 * quadratic[:, None] / np.exp(log_s2)  # uniform in log s2
    weight = np.exp(log_posterior - log_posterior.max()).sum(1)
    weight /= weight.sum()
    expected = weight[mu < -rope].sum(), weight[np.abs(mu) <= rope].sum(), weight[mu > rope].sum()
    found = Resampled.of(DIFFERENCES, ratio).posterior(rope)
    np.testing.assert_allclose(found, expected, atol=5e-4)
    assert sum(found) == pytest.approx(1)


def test_the_correlated_posterior_is_that_of_baycomp():
    baycomp = pytest.importorskip("baycomp")
    x = np.linspace(-1, 1, 10)
    gaps = np.random.default_rng(5).normal(0.05, 0.1, 10)
    found = Resampled.of(gaps, 1 / 9).posterior(0.01)  # ten folds: n_test / n_train = 1 / 9
    np.testing.assert_allclose(found, baycomp.two_on_single(x, x + gaps, rope=0.01), atol=1e-12)


def test_the_detectable_difference_is_found_as_often_as_promised():
    n, ratio, sd = 10, 1 / 9, 0.2
    r = ratio / (1 + ratio)
    rng = np.random.default_rng(11)
    # Differences whose mean has variance sd^2 (1/n + ratio) and whose spread is independent of it.
    shared = rng.standard_normal((20_000, 1))
    gaps = sd * np.sqrt(1 + ratio) * (np.sqrt(1 - r) * rng.standard_normal((20_000, n)) + np.sqrt(r) * shared)
    error = sd * np.sqrt(1 / n + ratio)
    shift = Resampled(0.0, error, n - 1).detectable(power=0.8)
    found = np.mean([Resampled.of(line + shift, ratio).p_value() < 0.05 for line in gaps[:4000]])
    assert found == pytest.approx(0.8, abs=4 * np.sqrt(0.16 / 4000))


def test_degenerate_differences():
    assert Resampled.of(np.array([0.1]), 0.1) is None
    assert Resampled.of(np.array([0.1, -np.inf]), 0.1) is None
    same = Resampled.of(np.full(4, 0.5), 0.1)
    assert same.p_value() == 0 and same.posterior() == (0.0, 0.0, 1.0) and same.detectable() == 0
    assert Resampled.of(np.zeros(4), 0.1).p_value() == 1


def test_holm_is_that_of_the_step_down_definition():
    p = [0.01, np.nan, 0.04, 0.03, 0.005]
    adjusted = holm(p)
    np.testing.assert_allclose(adjusted, [0.03, np.nan, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]).max() == 1 and holm([]).shape == (0,)
    for level in (0.01, 0.02, 0.035, 0.06, 0.1):  # rejections by Holm's own procedure
        rejected, left = set(), sorted((x, i) for i, x in enumerate(p) if x == x)
        while left and left[0][0] <= level / len(left):
            rejected.add(left.pop(0)[1])
        assert rejected == {i for i, x in enumerate(adjusted) if x <= level}


def test_wilcoxon_is_that_of_all_sign_patterns():
    differences = np.array([0.4, -0.1, 0.7, 0.25, -0.05, 0.9, 0.33])
    ranks = np.argsort(np.argsort(np.abs(differences))) + 1
    observed = ranks[differences > 0].sum()
    sums = np.array([np.dot(signs, ranks) for signs in itertools.product((0, 1), repeat=len(ranks))])
    expected = min(1.0, 2 * min((sums >= observed).mean(), (sums <= observed).mean()))
    assert wilcoxon(differences) == pytest.approx(expected)
    assert wilcoxon(np.zeros(4)) is None


@pytest.mark.parametrize("shift", [-0.03, 0.0, 0.008, 0.05])
def test_signed_rank_posterior_is_that_of_brute_force(shift):
    """Each theta by a double loop over pairs, for weights drawn one at a time from gamma variables."""
    rng = np.random.default_rng(7)
    differences = rng.normal(shift, 0.03, 9)
    z = np.concatenate([[0.0], differences])
    pairs = z[:, None] + z[None, :]
    left, right = pairs < -2 * ROPE, pairs > 2 * ROPE
    wins = np.zeros(3)
    count = 20_000
    for _ in range(count):
        w = np.concatenate([rng.gamma(PRIOR_WEIGHT, 1, 1), rng.exponential(1, len(differences))])
        w /= w.sum()
        theta = w @ left @ w, w @ ~(left | right) @ w, w @ right @ w
        wins[np.argmax(theta)] += 1
    found = signed_rank_posterior(differences)
    assert sum(found) == pytest.approx(1)
    error = np.sqrt(2 * 0.25 / count)  # of the difference of two shares
    np.testing.assert_allclose(found, wins / count, atol=4 * error)


def test_signed_rank_posterior_is_sure_where_it_should_be():
    assert signed_rank_posterior(np.full(20, 0.5))[2] > 0.999
    assert signed_rank_posterior(np.full(20, -0.5))[0] > 0.999
    assert signed_rank_posterior(np.zeros(20))[1] > 0.999
    mirrored = (
        signed_rank_posterior(np.array([0.5, 0.2, -0.1])),
        signed_rank_posterior(np.array([-0.5, -0.2, 0.1])),
    )
    assert mirrored[0][0] == pytest.approx(mirrored[1][2], abs=0.02)


def test_critical_difference_has_the_q_of_demsars_table():
    printed = {2: 1.960, 3: 2.343, 4: 2.569, 5: 2.728, 6: 2.850, 7: 2.949, 8: 3.031, 9: 3.102, 10: 3.164}
    for k, q in printed.items():
        assert critical_difference(k, 10) == pytest.approx(q * np.sqrt(k * (k + 1) / 60), abs=2e-3)


def sample_table():
    found = units("dsvi2017_sgp", "boston", [-2.0, -2.1, -2.2, -2.3], details={"pit_histogram": [0.1] * 10})
    found += units("dsvi2017_dgp2", "boston", [-1.5, -2.105, None, -2.5, -1.0])
    found += units("dsvi2017_sgp", "energy", [-1.0, -1.0])
    found += units("dsvi2017_dgp2", "energy", [-0.5, -0.4])
    return build(specs.load("S7"), Records(found))


def test_pairs_are_common_splits():
    frame = paired(sample_table()).set_index(["dataset", "model"])
    boston = frame.loc["boston", "DGP 2"]
    assert list(boston[["pairs", "win", "tie", "loss"]]) == [3, 1, 1, 1]  # splits 0, 1, 3
    assert boston["mean difference"] == pytest.approx((0.5 - 0.005 - 0.2) / 3)
    assert boston["p"] == Resampled.of(np.array([0.5, -0.005, -0.2]), 1 / 9).p_value()
    splits = frame[frame.index.get_level_values("dataset") != OVER_DATASETS]
    np.testing.assert_allclose(splits["p (Holm)"], holm(splits["p"]))
    everything = frame.loc[OVER_DATASETS, "DGP 2"]
    assert everything["pairs"] == 2 and everything["win"] == 2
    with pytest.raises(UserError, match="no column 'DGP2'; did you mean 'DGP 2'"):
        paired(sample_table(), "DGP2")
    turned = paired(sample_table(), "DGP 2").set_index(["dataset", "model"]).loc["boston", "SGP"]
    assert turned["win"] == 1 and turned["mean difference"] == pytest.approx(-boston["mean difference"])


def test_ranks_over_datasets():
    """1 = best, and no critical difference over two datasets; over five it is that of Nemenyi."""
    ranks, cd, p = rank_groups(sample_table())
    assert ranks["mean"].to_dict() == {"DGP 2": 1.0, "SGP": 2.0} and (cd, p) == (None, None)
    found = []
    values = {
        "boston": (1, 2, 3),
        "energy": (1, 3, 2),
        "power": (2, 1, 3),
        "kin8nm": (1, 2, 3),
        "naval": (1, 2, 2),
    }
    for dataset, levels in values.items():
        for name, level in zip(("linear", "sgp", "dgp2"), levels, strict=True):
            found += units(f"dsvi2017_{name}", dataset, [float(level), float(level)])
    ranks, cd, p = rank_groups(build(specs.load("S7"), Records(found)))
    expected = {"DGP 2": (1 + 2 + 1 + 1 + 1.5) / 5, "SGP": (2 + 1 + 3 + 2 + 1.5) / 5, "Linear": 14 / 5}
    assert ranks["mean"].to_dict() == pytest.approx(expected) and list(ranks.index) == list(expected)
    assert cd == pytest.approx(2.343 * np.sqrt(3 * 4 / 30), abs=2e-3)
    assert p == pytest.approx(friedmanchisquare(*np.array(list(values.values())).T).pvalue)


def test_ranks_are_of_means_over_common_splits():
    found = units("dsvi2017_sgp", "boston", [-1.0, -1.0, -9.0]) + units(
        "dsvi2017_dgp2", "boston", [-2.0, -2.0]
    )
    ranks = rank_groups(build(specs.load("S7"), Records(found)))[0]
    assert ranks["mean"].to_dict() == {"SGP": 1.0, "DGP 2": 2.0}  # all of its splits would give -3.67
    assert rank_groups(build(specs.load("S7"), Records([])))[1] is None


def test_frontier_marks_what_no_other_beats():
    found = []
    for name, value, seconds in (
        ("linear", -3.0, 1.0),
        ("sgp", -2.0, 10.0),
        ("dgp2", -2.5, 50.0),
        ("dgp3", -1.0, 90.0),
    ):
        found += units(f"dsvi2017_{name}", "boston", [value, value], training={"seconds": seconds})
    frame = frontier_frame(build(specs.load("S7"), Records(found))).set_index("model")
    assert frame.frontier.to_dict() == {"Linear": True, "SGP": True, "DGP 2": False, "DGP 3": True}
    assert frame.seconds["DGP 3"] == 90.0


def test_calibration_averages_what_the_records_hold():
    found = units(
        "dsvi2017_sgp",
        "boston",
        [0.9, 1.0],
        "test_coverage95",
        details={"pit_histogram": [0.2] + [0.0889] * 9},
    )
    data = calibration(build(specs.load("S7"), Records(found))).data.iloc[0]
    assert data["test_coverage95"] == pytest.approx(0.95) and np.isnan(data["test_crps"])
    assert data["pit_histogram"][0] == "█" and len(data["pit_histogram"]) == 10
    assert pit_bars([0.1, 0.0, 1.0]) == "▄ █"
