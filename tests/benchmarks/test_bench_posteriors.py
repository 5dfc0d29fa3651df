"""Flops and table of the posteriors that couple layers."""

import pytest

from benchmarks import flops, posteriors
from benchmarks.cases import Case


def test_products_of_the_coupled_posteriors():
    """By hand for one hidden GP, M = 10, 100 rows: joint and star are the same, A^T R in both layers."""
    case = Case("small", batch=100, inputs=1, width=1, num_inducing=10, depth=2)
    M, B, D = 10, 100, 1
    kernels = 2 * M * (D + 2) * (B * (2 + 3) + M * 3 * 2)
    mean = 2 * 2 * M * B * 3
    whiten = 2 * (M**3 // 3 + 4 * M**3 + 3 * M * M * B)
    through = 2 * 6 * M * B * M
    own = 6 * M * M * B
    group = 6 * M * B
    assert posteriors.count("joint", case) == kernels + mean + whiten + through + own + group
    assert posteriors.count("star", case) == posteriors.count("joint", case)
    assert posteriors.count("dsvi", case) == flops.count(case, exact=True).total


def test_order_of_the_costs():
    """A joint Gaussian of five hidden GPs has three times the columns of stripes and arrow below."""
    cost = {name: posteriors.count(name) for name in posteriors.METHODS}
    assert cost["global_inducing"] < cost["dsvi"] < cost["star"] < cost["joint"]


def test_shares_of_a_step_and_of_what_rows_add(monkeypatch):
    """0.04 Gflop in 2 ms at a peak of 40 Gflop a second are half of it; 0.03 of it in 1.2 ms are 5/8."""
    counts = {posteriors.CASE: 40_000_000, posteriors.FEW: 10_000_000}
    monkeypatch.setattr(posteriors, "count", lambda method, case=posteriors.CASE: counts[case])
    row = posteriors._row("dsvi", 2.0, 0.8, 40e9)
    assert row["share"] == pytest.approx(0.5) and row["rows_share"] == pytest.approx(0.625)
    made = posteriors.table([row, {**row, "method": "star", "share": 0.3}])
    assert made.rows == [
        ["dsvi", "2.00", "0.040", "50%", "1.00", "0.80", "62%"],
        ["star", "2.00", "0.040", "30%", "0.60", "0.80", "62%"],
    ]
