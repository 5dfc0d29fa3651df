"""The arithmetic between raw times and verdicts, by hand."""

import math
from dataclasses import replace

import pytest
from bench_sample import cell, stored

from benchmarks import flops, ratios
from benchmarks.cases import CASES, Case


def test_flop_counts_by_hand():
    """M = 3, widths 2 -> 4 -> 1: every product written out."""
    for B in (2, 500):  # few columns, many columns
        case = Case("t", batch=B, inputs=2, width=4, num_inducing=3, depth=2)
        M = 3
        distances = 2 * M * 4 * B * 2 + 2 * M * 6 * B * 3  # layer 0: forward and dZ; layer 1: dH too
        means = 3 * (2 * 4 * M * B + 2 * 1 * M * B)
        forms = 2 * (2 * 4 * M * M * B + 2 * 1 * M * M * B)
        gram = 3 * (2 * M * 4 * M + 2 * M * 6 * M)
        inverse = 2 * (M**3 // 3 + M**3 + 4 * M**3)
        squares = 6 * 4 * M**3 + 6 * 1 * M**3
        batch, square = distances + means + forms, gram + inverse + squares
        whitening = 4 * M * M * B  # of one layer
        halving = [2 * P * M**3 for P in (4, 1)]
        folding = [2 * products * M**3 + 4 * P * M * M for P, products in ((4, 10), (1, 4))]
        if B == 2:
            expected = flops.Flops(batch + 2 * whitening, square)
            assert flops.count(case, exact=False) == flops.count(case, exact=True) == expected
        else:
            # half of the whitening of each layer
            many = flops.Flops(batch + whitening, square + sum(halving))
            assert flops.count(case, exact=False) == many
            assert flops.count(case, exact=True) == flops.Flops(batch, square + sum(folding))
        assert all((whitening > extra) == (B == 500) for extra in folding)


def test_importance_samples_and_natural_gradients_are_counted():
    """LV-GP-GP: what K samples add to five times the columns, and the last layer's natural step."""
    vi = Case("t", batch=50, inputs=2, width=3, num_inducing=4, depth=2, latent=1)
    K, M, P, B = 5, 4, 3, 50
    iwvi, wide = replace(vi, importance=K), replace(vi, batch=K * B)
    extra = flops.count(iwvi, exact=False).batch - flops.count(wide, exact=False).batch
    assert extra == 3 * 2 * B * (K * P * K * M)  # K P by K by M for a point, and back
    plain = Case("t", batch=B, inputs=3, width=3, num_inducing=4, depth=2)
    natural = flops.count(vi, exact=False).square - flops.count(plain, exact=False).square
    assert natural == (4 * M**3 + M**3 // 3) - 2 * M**3


def test_layers_of_their_own_need_their_kernels_for_each_output():
    """Beside the shared layer: P kernels, P Choleskys with their gradients, P times A = L^-1 K."""
    shared = Case("t", batch=500, inputs=3, width=4, num_inducing=5, depth=2)
    B, M, P, D = 500, 5, 4, 3
    own, plain = (flops.count(case, exact=False) for case in (replace(shared, own=True), shared))
    more_kernels = (P - 1) * 2 * M * (D + 2)
    assert own.batch - plain.batch == more_kernels * B * 2 + (P - 1) * 2 * M * M * B
    assert own.square - plain.square == more_kernels * M * 3 + (P - 1) * (M**3 // 3 + 5 * M**3)


def test_flops_of_the_paper_case_are_dominated_by_six_M_squared_B_per_layer():
    work = flops.count(CASES["a-dgp2"], exact=False)
    assert work.batch == pytest.approx(2 * 6 * 100**2 * 10_000, rel=0.1)
    assert work.square < 0.03 * work.batch


def test_limit_takes_each_part_at_its_own_precision():
    work, peak = flops.Flops(batch=1200, square=60), {"float64": 60.0, "float32": 120.0}
    assert flops.limit_seconds(work, "float64", peak) == 1200 / 60 + 60 / 60
    assert flops.limit_seconds(work, "mixed", peak) == 1200 / 120 + 60 / 60
    assert flops.limit_seconds(work, "float32", peak) == 1200 / 120 + 60 / 120


def test_only_our_float64_is_held_to_the_products_of_quad():
    assert flops.exact("dgpbench", "float64")
    assert not flops.exact("dgpbench", "mixed") and not flops.exact("gpflux", "float64")


def test_ratio_is_of_medians_and_nan_without_both():
    cells = {
        ("c", "ours"): cell("c", "ours", [1.0, 2.0, 9.0]),
        ("c", "peer"): cell("c", "peer", [5.0, 6.0, 7.0]),
        ("c", "bad"): cell("c", "bad", [5.0], "nan"),
    }
    assert ratios.ratio(cells, "c", "ours", "peer") == 3.0
    assert math.isnan(ratios.ratio(cells, "c", "ours", "bad"))
    assert math.isnan(ratios.ratio(cells, "c", "ours", "absent"))


def test_geometric_mean():
    assert ratios.geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert ratios.geometric_mean([]) is None


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ({"x": 2.0, "y": 2.0}, "met"),
        ({"x": 1.8, "y": 2.3}, "met"),  # the worst may be 0.9 of the target
        ({"x": 1.7, "y": 3.0}, "not met"),  # mean above, one cell too low
        ({"x": 1.9, "y": 2.0}, "not met"),  # mean below
        ({"x": 2.5}, "incomplete (1 of 2 cells, met there)"),
        ({}, "not measured"),
    ],
)
def test_verdicts(found, verdict):
    assert ratios.Summary("o", "p", "c", 2.0, found, 2).verdict == verdict


def test_summaries_of_a_stored_measurement():
    found = {(s.ours, s.peer, s.column): s for s in ratios.summaries(stored())}
    s = found["dgpbench-float64", "gpflux-float64", "(a) M=100"]
    assert (s.mean, s.target, s.verdict) == (pytest.approx(2.0), 2.2, "not met")
    assert found["dgpbench-float64", "gpflux-float64", "(b) M=100"].verdict == "met"
    assert found["dgpbench-mixed", "gpytorch-float32", "a SGP500"].mean == pytest.approx(2.4)
    half = found["dgpbench-mixed", "gpflux-float32", "(a) M=100"]
    assert (list(half.ratios), half.verdict) == (["a-sgp"], "no target")


def test_targets_of_columns_with_nothing_run_are_left_out():
    results = stored()
    results["cases"] = {"b-sgp": results["cases"]["b-sgp"]}
    results["cells"] = [c for c in results["cells"] if c["case"] == "b-sgp"]
    assert {s.column for s in ratios.summaries(results)} == {"(b) M=100"}
    lines = ratios.summary_lines(results)
    assert lines[0] == (
        "dgpbench-float64 against gpflux-float64, (b) M=100: 2.00x (worst b-sgp 2.00x), "
        "target 1.6x: incomplete (1 of 5 cells, met there)"
    )


def test_rate_and_share():
    results = stored()
    one = ratios.cells_of(results)["b-sgp", "dgpbench-mixed"]
    work = flops.count(CASES["b-sgp"], exact=False)
    rate, share = ratios.rate_and_share(results, one)
    assert rate == pytest.approx(work.total / 5e-3 / 1e9)
    assert share == pytest.approx((work.batch / 120e9 + work.square / 60e9) / 5e-3)  # the better medians
    results["peak_gflops"] = {"a-sgp": results["peak_gflops"]["b-sgp"]}
    assert math.isnan(ratios.rate_and_share(results, one)[1])  # no products in turns with this case
