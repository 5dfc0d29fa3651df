"""Verdicts of --compare: Student's t for few splits, printed zeros, explanations."""

import math

import pytest
from report_units import units
from scipy import stats

from dgpbench.papers.cells import Cell, Records
from dgpbench.papers.compare import comparison, counted, explanations
from dgpbench.papers.published import Published
from dgpbench.papers.specs import load, with_variant
from dgpbench.papers.table import build
from dgpbench.papers.verdict import FEW, NEAR, agreement, counts, gap, mark, verdict
from dgpbench.report.rules import summarise


def printed(value, error, runs=20, confidence="clean"):
    return Published(value, error, error, confidence, "", "s", "t", runs)


def table_of(found):
    return build(load("S7"), Records(found))


def cell():
    return Cell(load("S7").places["boston", "SGP"])


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("values", [[1.0, 1.1], [1.0, 1.02], [1.0, 1.1, 1.3], [0.9, 1.0, 1.1, 1.2, 1.4]])
def test_the_bound_is_the_nearer_of_welchs_and_students(values, k):
    """SciPy's own tests from summary statistics put the bounds at the same places; none is below k errors."""
    ours, probability = summarise(values), 2 * stats.norm.sf(k)

    def p_value(value, equal):
        own = ours.error * math.sqrt(ours.n)
        print_ = value, 0.02 * math.sqrt(20), 20
        return stats.ttest_ind_from_stats(ours.mean, own, ours.n, *print_, equal_var=equal).pvalue

    bound = gap(ours, printed(0.0, 0.02))
    limits = []
    for equal, error, freedom in ((False, *bound[1:3]), (True, *bound.pooled)):
        limits.append(stats.t.isf(probability / 2, freedom) * error)
        assert p_value(ours.mean - limits[-1], equal) == pytest.approx(probability, rel=1e-6)
    limit = max(k * bound.error, min(limits))
    for shift, inside in ((0.999, True), (1.001, False)):
        for sign in (1, -1):
            assert gap(ours, printed(ours.mean + sign * limit * shift, 0.02)).within(k) == inside


def test_two_splits_do_not_make_agreement_of_a_gap_that_print_rules_out():
    """Table 5.1, yacht, LV-GP VI: 19 combined standard errors were within 3 by one degree of freedom."""
    two = summarise([2.008, 2.048])
    assert two.error == pytest.approx(0.02)
    assert agreement(cell(), two, printed(1.64, 0.0, runs=5)) == "open"
    assert agreement(cell(), two, printed(1.64, 0.0, runs=None)) == "within 3"  # print tells no spread


def test_equal_values_and_no_number_of_runs():
    same = gap(summarise([1.0, 1.0]), printed(1.1, 0.1, runs=None))
    assert (same.error, same.freedom, same.pooled) == (0.1, math.inf, None)
    assert same.within(2) and not gap(summarise([1.0, 1.0]), printed(1.4, 0.1, runs=None)).within(3)


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
    found = counts(zip([*kinds, "within 2"], [FEW, "", FEW, "", "", "", "", NEAR], strict=True))
    assert list(found.values()) == [6, 3, 1, 1, 4, 1, 2, 1]


def test_what_a_verdict_owes_to_an_allowance_is_said():
    """energy, SGP is printed as -1.29 (0.02) over 20 splits, whose spread is 0.09: three splits within 2
    errors, within Student's quantile only, or beyond what that spread allows; kin8nm, SGP as 0.97 (0.00),
    where 0.05 nat is agreement whatever the errors are."""
    for name, values, shown in (
        ("energy", [-1.28, -1.30, -1.33], "within 2"),
        ("energy", [-1.14, -1.21, -1.25], "within 2 (t)"),  # 2.4 standard errors
        ("energy", [-1.08, -1.15, -1.19], "within 3 (t)"),  # 4.0
        ("energy", [-0.55, -0.85, -1.15], "within 3"),  # 2.5, Welch's bound 4.5, the spread is not print's
        ("energy", [-0.60, -0.75, -0.95], "open"),  # 5.1, Welch's bound for 3 is 16
        ("energy", [-0.73, -0.74, -0.72], "open"),
        ("kin8nm", [1.000, 1.001, 1.002], "within 2 (0.05 nat)"),
        ("kin8nm", [0.970, 0.971, 0.972], "within 2"),
    ):
        table = table_of(units("dsvi2017_sgp", name, values))
        grid = comparison(table)
        (line,) = grid.lines
        assert line.entries[-1].text == shown
        why = mark(table, (name, "SGP"))
        assert shown.endswith(f" ({why})") if why else "(" not in shown
        assert any(note.startswith(f"({why}): ") for note in grid.notes) == bool(why)


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
    unsure = units("dsvi2017_sgp_shared", "energy", [-1.14, -1.21, -1.25])  # within 2 by few splits only
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
    assert [entry.text for entry in line.entries] == ["1", "0", "0", "0", "0", "1", "0", "0"]


def test_runs_that_two_tables_show_count_once_in_all():
    """The column GP of table 5.2 is that of table 5.1, whose energy, GP is printed as 1.71 (0.00)."""
    found = units("iwvi2019_gp", "energy", [1.70, 1.72], metric="test_loglik_kde_std")
    found += units("iwvi2019_gp_gp", "energy", [1.78, 1.78], metric="test_loglik_kde_std")
    grid = counted([build(load(name), Records(found)) for name in ("5.1", "5.2")])
    assert [[entry.text for entry in line.entries[:2]] for line in grid.lines] == [
        ["2", "1"],
        ["1", "1"],
        ["2", "1"],
    ]
    assert "all: cells that stand in two tables count once (1)" in grid.notes
