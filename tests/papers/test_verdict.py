"""Verdicts of --compare: equivalence, runs that would decide, few runs, explanations."""

import math
from dataclasses import replace

import pytest
from report_units import units
from scipy import stats

from dgpbench.errors import UserError
from dgpbench.papers.paper_cells import Records
from dgpbench.papers.paper_table import build
from dgpbench.papers.published import Published
from dgpbench.papers.specs import load, parse, with_variant
from dgpbench.papers.verdict import STUDENT, Verdict, Z, counts, judge, margin_of, verdict
from dgpbench.papers.views import comparison, counted, explanations
from dgpbench.report.rules import Summary, summarise


def printed(value, error, runs=20, confidence="clean"):
    return Published(value, error, error, confidence, "", "s", "t", runs)


def table_of(found):
    return build(load("S7"), Records(found))


def kind(ours, found, margin=0.1):
    return judge(ours, found, margin).kind


def test_quantiles_are_those_of_scipy():
    assert pytest.approx(stats.norm.ppf(0.95), abs=5e-4) == Z
    assert STUDENT == pytest.approx(stats.t.ppf(0.95, range(1, 31)), abs=5e-4)


def test_a_cell_is_equivalent_up_to_the_margin_and_no_further():
    """|-2.40 - -2.45| + 1.645 sqrt(0.018^2 + 0.024^2) = 0.05 + 1.645 * 0.03 = 0.09935."""
    ours, found = Summary(-2.40, 0.018, 20), printed(-2.45, 0.024)
    result = judge(ours, found, 0.1)
    assert result.furthest == pytest.approx(0.09935) and result.kind == "equivalent" and not result.is_close
    assert kind(ours, found, 0.0993) == "undecided"
    assert judge(Summary(-2.45, 0.018, 20), found, 0.1).is_close  # 0.04935 is within 0.05
    assert not judge(Summary(-2.4490, 0.018, 20), found, 0.1).is_close  # 0.05035 is not
    for sign in (1, -1):  # 0.2 - 0.04935 = 0.15065 lies beyond the margin
        assert kind(Summary(-2.45 + sign * 0.2, 0.018, 20), found) == "different"
        assert kind(Summary(-2.45 + sign * 0.2, 0.018, 20), found, 0.151) == "undecided"
    assert kind(Summary(-2.25, 0.018, 20), found, 0.15) == "different"


def test_equivalence_is_two_one_sided_tests():
    """For normal means both tests reject at 5 % exactly where the interval lies within the margin."""
    for shift, own, their in (
        (0.02, 0.03, 0.02),
        (0.06, 0.02, 0.015),
        (-0.05, 0.03, 0.01),
        (0.0, 0.06, 0.02),
    ):
        error = math.hypot(own, their)
        p = max(stats.norm.sf((shift + 0.1) / error), stats.norm.cdf((shift - 0.1) / error))
        assert (kind(Summary(shift, own, 20), printed(0.0, their)) == "equivalent") == (p < 0.05)


def test_fewer_runs_than_print_are_undecided_unless_already_different():
    ours, found = Summary(1.0, 0.001, 19), printed(1.0, 0.01)
    assert judge(ours, found, 0.1) == Verdict(
        "undecided", 0.1, pytest.approx(1.645 * math.hypot(0.001, 0.01)), 20
    )
    assert kind(ours._replace(n=20), found) == "equivalent"
    assert kind(ours, printed(1.5, 0.01)) == "different"
    assert judge(ours, printed(1.0, 0.01, runs=None), 0.1, expected=5).kind == "equivalent"
    assert judge(ours, printed(1.0, 0.01, runs=None), 0.1, expected=50).runs == 50


@pytest.mark.parametrize("values", [[1.0, 1.1], [0.9, 1.0, 1.1], [0.8, 0.95, 1.0, 1.2]])
def test_few_runs_differ_by_welchs_quantile(values):
    """SciPy's Welch test against the margin's end rejects one-sidedly at 5 % from the same gap on, up to the
    rounding down of the degrees of freedom."""
    ours, found = summarise(values), 0.001
    n, sd = ours.n, ours.error * math.sqrt(ours.n)

    def p_value(gap):
        test = stats.ttest_ind_from_stats(gap - 0.1, sd, n, 0.0, found * math.sqrt(20), 20, equal_var=False)
        return test.pvalue / 2

    smallest = next(
        g / 1000 for g in range(100, 3000) if kind(ours, printed(ours.mean + g / 1000, found)) == "different"
    )
    assert p_value(smallest) < 0.05 < p_value(smallest - 0.002)


def test_splits_that_agree_by_chance_have_the_spread_of_print():
    """Two equal values have no spread of their own; print's runs vary by 0.05 sqrt(20) = 0.22."""
    assert kind(summarise([1.0, 1.0]), printed(0.7, 0.05)) == "undecided"
    assert kind(summarise([1.0, 1.0]), printed(0.4, 0.05)) == "different"
    assert kind(summarise([1.0]), printed(0.51, 0.05)) == "undecided"  # 0.49 - 1.725 * 0.229 = 0.095
    assert kind(summarise([1.0]), printed(0.5, 0.05)) == "different"  # 0.105
    assert judge(summarise([1.0]), printed(1.0, 0.05, runs=None), 0.1).kind == "undecided"


def test_the_number_of_runs_that_would_decide():
    """Mean and deviation as they are, the first number of runs at which the interval is on one side."""
    for mean, sd, their, n, margin in (
        (0.03, 0.4, 0.01, 20, 0.1),
        (0.17, 0.4, 0.02, 20, 0.1),
        (0.0, 0.9, 0.0, 30, 0.2),
    ):
        found = printed(0.0, their)
        runs = judge(Summary(mean, sd / math.sqrt(n), n), found, margin).runs
        assert runs > n
        assert kind(Summary(mean, sd / math.sqrt(runs), runs), found, margin) in ("equivalent", "different")
        assert kind(Summary(mean, sd / math.sqrt(runs - 1), runs - 1), found, margin) == "undecided"
    assert (
        judge(Summary(0.05, 0.02, 20), printed(0.0, 0.05), 0.1).runs is None
    )  # print alone: 1.645 * 0.05 > 0.05
    assert judge(Summary(0.1, 0.02, 20), printed(0.0, 0.01), 0.1).text == "undecided (print too uncertain)"
    assert judge(Summary(0.03, 0.05, 20), printed(0.0, 0.01), 0.1).text == "undecided (30 runs)"


def test_margins_are_nats_points_or_a_share_of_the_printed_value():
    at = load("S7").places["boston", "SGP"]
    assert margin_of(at, -2.5) == 0.1
    assert margin_of(load("S8").places["boston", "SGP"], 3.0) == pytest.approx(0.3)
    assert margin_of(load("matthews4.3").places["ringnorm", "KLSp M=30%"], 0.3) == 0.1
    percent = next(iter(load("2.4-mnist").places.values()))
    assert margin_of(percent, 98.0) == pytest.approx(1.0)  # one percentage point


def test_rmse_and_log_likelihood_have_the_same_margin():
    """Of calibrated Gaussian predictions, 10 % of the RMSE are 0.1 nat up to the second order."""
    sd = 3.0

    def loglik(rmse):
        return -0.5 * math.log(2 * math.pi * rmse**2) - 0.5

    assert abs(loglik(1.1 * sd) - loglik(sd)) == pytest.approx(0.1, rel=0.06)


def test_what_is_judged_and_what_is_not():
    three = summarise([1.00, 1.02, 1.01])
    assert kind(three, printed(1.01, None)) == "no error"
    assert kind(three, printed(math.inf, 0.1)) == "no error"
    assert kind(summarise([1.0, 1.02, 1.01] * 7), printed(1.05, 0.0)) == "equivalent"  # 0.00 is below 0.005
    found = counts(
        [
            *(Verdict(k, 0.1, 0.08) for k in ("equivalent", "different", "undecided", "explained")),
            None,
            Verdict("equivalent", 0.1, 0.04),
            Verdict("no error"),
            Verdict("community"),
        ]
    )
    assert list(found.values()) == [5, 2, 1, 1, 1, 1, 1]


def test_cells_of_a_table_recomputed_manually():
    """energy, SGP is printed as -1.29 (0.02) over 20 splits."""
    twenty = [-1.30 + 0.01 * (k % 5 - 2) for k in range(20)]  # mean -1.30, deviation 0.01 sqrt(2) sqrt(20/19)
    error = 0.01 * math.sqrt(2 / 19)
    for values, shown, furthest in (
        (twenty, "equivalent", 0.01 + 1.645 * math.hypot(error, 0.02)),
        ([v - 0.3 for v in twenty], "different", 0.31 + 1.645 * math.hypot(error, 0.02)),
        (
            [v - 0.08 for v in twenty],
            "undecided (print too uncertain)",
            0.09 + 1.645 * math.hypot(error, 0.02),
        ),
        (twenty[:3], "undecided (20 runs)", 0.02 + 1.645 * math.hypot(0.01 / math.sqrt(3), 0.02)),
        ([-0.73, -0.74, -0.72], "different", 0.56 + 1.645 * math.hypot(0.01 / math.sqrt(3), 0.02)),
    ):
        table = table_of(units("dsvi2017_sgp", "energy", values))
        (line,) = comparison(table).lines
        assert line.entries[-1].text == shown
        assert verdict(table, ("energy", "SGP")).furthest == pytest.approx(furthest)
        data = comparison(table).data.set_index(["row", "column"]).loc[("energy", "SGP")]
        assert data.verdict == shown.partition(" ")[0] and data.margin == 0.1


def test_a_variant_is_explained_by_another_or_by_the_table_itself():
    """boston, DGP 2 is printed as -2.47 (0.05); table 5.1 has energy, GP-GP as 1.85 (0.00)."""
    quick = units("dsvi2017_dgp2_fast", "boston", [-1.70, -1.71, -1.72])
    near = units("dsvi2017_dgp2_fast_shared", "boston", [-2.40, -2.45, -2.50])
    table = build(with_variant(load("S7"), "fast"), Records(quick + near))
    assert verdict(table, ("boston", "DGP 2")).kind == "explained"
    assert explanations(table) == [
        "boston, DGP 2: explained by one shared lengthscale; experiment=dsvi2017_dgp2_fast_shared, 3/20 "
        "splits: -2.45 (0.03)"
    ]
    short = units("iwvi2019_gp_gp_10k", "energy", [1.48, 1.48], metric="test_loglik_kde_std")
    whole = units("iwvi2019_gp_gp", "energy", [1.84], metric="test_loglik_kde_std")
    table = build(with_variant(load("5.1"), "10k"), Records(short + whole))
    assert verdict(table, ("energy", "GP-GP")).kind == "explained"
    assert ("energy", "GP-GP") not in build(load("5.1"), Records(short + whole)).explaining


def test_a_different_cell_is_explained_only_by_a_run_within_the_margin():
    """energy, SGP is printed as -1.29 (0.02)."""
    ours = units("dsvi2017_sgp", "energy", [-0.73, -0.74, -0.72])
    at = ("energy", "SGP")
    assert verdict(table_of(ours), at).kind == "different"
    far = units("dsvi2017_sgp_shared", "energy", [-1.18, -1.19, -1.17])
    assert verdict(table_of(ours + far), at).kind == "different"
    near = units("dsvi2017_sgp_shared", "energy", [-1.20, -1.21, -1.22])
    table = table_of(ours + near)
    assert verdict(table, at).kind == "explained"
    assert explanations(table)[0] in comparison(table).notes
    (line,) = counted([table]).lines
    assert [entry.text for entry in line.entries] == ["1", "0", "0", "0", "0", "1", "0"]
    unsure = units("dsvi2017_sgp", "energy", [-1.0, -1.2, -1.3])  # undecided cells need no explanation
    assert verdict(table_of(unsure + near), at).kind == "undecided"


def test_a_note_explains_a_cell_of_the_table_and_its_variants():
    spec = replace(load("5.1"), explained=({"rows": ["boston"], "why": "a cause"},))
    found = units("iwvi2019_gp", "boston", [5.0, 5.0], metric="test_loglik_kde_std")
    found += units("iwvi2019_gp_10k", "boston", [5.0, 5.0], metric="test_loglik_kde_std")
    for table in (build(spec, Records(found)), build(with_variant(spec, "10k"), Records(found))):
        assert verdict(table, ("boston", "GP")).kind == "explained"
        (why,) = explanations(table)
        assert why.startswith("boston, GP: explained by ")
    tree = {"title": "t", "units": "nat", "rows": ["energy"], "columns": ["SGP"]}
    with pytest.raises(UserError, match="explained needs why"):
        parse("x", tree | {"explained": [{"rows": ["energy"]}]})


def test_runs_that_two_tables_show_count_once_in_all():
    """The column GP of table 5.2 is that of table 5.1, whose energy, GP is printed as 1.71 (0.00)."""
    found = units("iwvi2019_gp", "energy", [1.70, 1.72, 1.71, 1.71, 1.71], metric="test_loglik_kde_std")
    found += units("iwvi2019_gp_gp", "energy", [1.85] * 5, metric="test_loglik_kde_std")
    grid = counted([build(load(name), Records(found)) for name in ("5.1", "5.2")])
    assert [[entry.text for entry in line.entries[:2]] for line in grid.lines] == [
        ["2", "2"],
        ["1", "1"],
        ["2", "2"],
    ]
    assert "all: cells that are in two tables count once (1)" in grid.notes
