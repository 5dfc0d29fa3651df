"""Paired tests against enumeration, brute-force Monte Carlo and printed tables."""

import itertools

import numpy as np
import pytest
from report_units import units
from scipy.stats import friedmanchisquare

from dgpbench.errors import UserError
from dgpbench.papers import specs
from dgpbench.papers.cells import Records
from dgpbench.papers.table import build
from dgpbench.report.calibration import calibration, pit_bars
from dgpbench.report.frontier import frontier_frame
from dgpbench.report.significance import (
    OVER_DATASETS,
    PRIOR_WEIGHT,
    ROPE,
    critical_difference,
    paired,
    rank_groups,
    signed_rank_posterior,
    wilcoxon,
)


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
