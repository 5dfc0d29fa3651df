"""Verdicts of --compare: Student's t for few splits, printed zeros, explanations."""

import math

import pytest
from report_units import units
from scipy import stats

from dgpbench.report.cells import Cell, Records
from dgpbench.report.compare import comparison, counted, explanations
from dgpbench.report.published import Published
from dgpbench.report.rules import summarise
from dgpbench.report.specs import load, with_variant
from dgpbench.report.table import build
from dgpbench.report.verdict import agreement, by_few, counts, gap, verdict


def printed(value, error, runs=20, confidence="clean"):
    return Published(value, error, error, confidence, "", "s", "t", runs)


def table_of(found):
    return build(load("S7"), Records(found))


def cell():
    return Cell(load("S7").places["boston", "SGP"])


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("values", [[1.0, 1.1], [1.0, 1.1, 1.3], [0.9, 1.0, 1.1, 1.2, 1.4]])
def test_the_bound_is_welchs_t(values, k):
    """SciPy's own Welch test from summary statistics puts the bound at the same place."""
    ours = summarise(values)
    deviation = 0.02 * math.sqrt(20)
    probability = 2 * stats.norm.sf(k)
    for shift, inside in ((0.999, True), (1.001, False)):
        bound = gap(ours, printed(0.0, 0.02))
        limit = stats.t.isf(probability / 2, bound.freedom) * bound.error * shift
        value = ours.mean - limit
        assert gap(ours, printed(value, 0.02)).within(k) == inside
        theirs = stats.ttest_ind_from_stats(
            ours.mean, ours.error * math.sqrt(ours.n), ours.n, value, deviation, 20, equal_var=False
        )
        assert (theirs.pvalue > probability) == inside


def test_one_split_is_judged_by_the_printed_spread():
    one = gap(summarise([-2.0]), printed(-2.5, 0.05))
    assert one.error == pytest.approx(0.05 * math.sqrt(21)) and one.freedom == 19
    assert one.within(3) and not gap(summarise([-2.0]), printed(-2.5, 0.01)).within(3)
    assert gap(summarise([-2.0]), printed(-2.5, 0.05, runs=None)) is None


def test_what_is_judged_and_what_is_not():
    three = summarise([1.00, 1.02, 1.01])
    assert agreement(cell(), three, printed(1.05, 0.0)) == "within 2"  # 0.00 in print, 0.05 nat
    assert agreement(cell(), three, printed(1.50, 0.0)) == "open"
    assert agreement(cell(), three, printed(1.01, None)) == "no error"
    assert agreement(cell(), three, printed(1.01, 0.1, confidence="ocr-doubtful")) is None
    assert agreement(cell(), None, printed(1.01, 0.1)) is None
    kinds = ["within 2", "within 2", "within 3", "explained", "open", "no error", None]
    found = counts(zip(kinds, [True, False, True, False, False, False, False], strict=True))
    assert list(found.values()) == [5, 2, 1, 3, 1, 2, 1]


def test_few_splits_are_said():
    """energy, SGP is printed as -1.29 (0.02): three splits within 2 standard errors, or within Student's
    quantile of them only; kin8nm, SGP as 0.97 (0.00), where 0.05 nat is agreement whatever the errors are."""
    for values, verdict_shown in (
        ([-1.28, -1.30, -1.33], "within 2"),
        ([-0.55, -0.85, -1.15], "within 2 (t)"),  # 2.5 standard errors
        ([-0.60, -0.75, -0.95], "within 3 (t)"),  # 5.1
        ([-0.73, -0.74, -0.72], "open"),
    ):
        table = table_of(units("dsvi2017_sgp", "energy", values))
        (line,) = comparison(table).lines
        assert line.entries[-1].text == verdict_shown
        assert by_few(table, ("energy", "SGP")) == verdict_shown.endswith("(t)")
    near = table_of(units("dsvi2017_sgp", "kin8nm", [1.000, 1.001, 1.002]))
    assert verdict(near, ("kin8nm", "SGP")) == "within 2" and not by_few(near, ("kin8nm", "SGP"))


def test_a_variant_is_explained_by_another_or_by_the_table_itself():
    """boston, DGP 2 is printed as -2.47 (0.05); table 5.1 has energy, GP-GP as 1.85 (0.00)."""
    quick = units("dsvi2017_dgp2_fast", "boston", [-2.20, -2.19, -2.21])
    near = units("dsvi2017_dgp2_fast_shared", "boston", [-2.40, -2.45, -2.50])
    table = build(with_variant(load("S7"), "fast"), Records(quick + near))
    assert verdict(table, ("boston", "DGP 2")) == "explained"
    assert explanations(table) == [
        "boston, DGP 2: explained by experiment=dsvi2017_dgp2_fast_shared (one shared lengthscale), "
        "3/20 splits: -2.45 (0.03)"
    ]
    short = units("iwvi2019_gp_gp_10k", "energy", [1.78, 1.78], metric="test_loglik_kde_std")
    whole = units("iwvi2019_gp_gp", "energy", [1.84], metric="test_loglik_kde_std")
    table = build(with_variant(load("5.1"), "10k"), Records(short + whole))
    assert verdict(table, ("energy", "GP-GP")) == "explained"
    assert not build(load("5.1"), Records(short + whole)).explaining


def test_an_open_cell_is_explained_only_by_a_run_that_agrees():
    """energy, SGP is printed as -1.29 (0.02)."""
    ours = units("dsvi2017_sgp", "energy", [-0.73, -0.74, -0.72])
    at = ("energy", "SGP")
    assert verdict(table_of(ours), at) == "open"
    far = units("dsvi2017_sgp_shared", "energy", [-0.9, -0.91, -0.89])
    assert verdict(table_of(ours + far), at) == "open"
    unsure = units("dsvi2017_sgp_shared", "energy", [-0.55, -0.85, -1.15])  # within 2 by few splits only
    assert verdict(table_of(ours + unsure), at) == "open"
    near = units("dsvi2017_sgp_shared", "energy", [-1.28, -1.30, -1.33])
    table = table_of(ours + near)
    assert verdict(table, at) == "explained"
    shown = comparison(table)
    (why,) = explanations(table)
    assert why == (
        "energy, SGP: explained by experiment=dsvi2017_sgp_shared (one shared lengthscale), "
        "3/20 splits: -1.30 (0.01)"
    )
    assert why in shown.notes
    (line,) = counted([table]).lines
    assert [entry.text for entry in line.entries] == ["1", "0", "0", "0", "1", "0", "0"]
