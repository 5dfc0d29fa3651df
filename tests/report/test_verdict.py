"""Verdicts of --compare: Student's t for few splits, printed zeros, explanations."""

import math

import pytest
from report_units import units
from scipy import stats

from dgpbench.report.cells import Cell, Records
from dgpbench.report.compare import comparison, counted
from dgpbench.report.published import Published
from dgpbench.report.rules import summarise
from dgpbench.report.specs import load
from dgpbench.report.table import build
from dgpbench.report.verdict import agreement, counts, gap, verdict


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
    found = counts(["within 2", "within 2", "within 3", "explained", "open", "no error", None])
    assert list(found.values()) == [5, 2, 3, 1, 2, 1]


def test_an_open_cell_is_explained_only_by_a_run_that_agrees():
    """energy, SGP is printed as -1.29 (0.02)."""
    ours = units("dsvi2017_sgp", "energy", [-0.73, -0.74, -0.72])
    at = ("energy", "SGP")
    assert verdict(table_of(ours), at) == "open"
    far = units("dsvi2017_sgp_shared", "energy", [-0.9, -0.91, -0.89])
    assert verdict(table_of(ours + far), at) == "open"
    near = units("dsvi2017_sgp_shared", "energy", [-1.28, -1.30, -1.33])
    table = table_of(ours + near)
    assert verdict(table, at) == "explained"
    shown = comparison(table)
    assert "energy, SGP: explained by experiment=dsvi2017_sgp_shared (one shared lengthscale)" in shown.notes
    (line,) = counted([table]).lines
    assert [entry.text for entry in line.entries] == ["1", "0", "0", "1", "0", "0"]
