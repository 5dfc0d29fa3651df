"""Every rule of the tables against arithmetic done another way."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from report_units import unit, units

from dgpbench.papers import specs
from dgpbench.papers.paper_cells import Records
from dgpbench.papers.paper_table import build
from dgpbench.papers.views import bold_columns, cell_frame, comparison, side_by_side
from dgpbench.report.rules import (
    Summary,
    average_ranks,
    difference,
    median_difference,
    overlapping,
    summarise,
)

RANKS = [2.71, 4.00, 4.87, 4.09, 4.67, 4.79, 6.80, 5.62, 7.45]
MEDIANS = [0, 0.05, 0.09, 0.04, 0.05, 0.15, 0.25, 0.21, 0.34]


def random_frame(seed=0, rows=6, splits=4, columns=5, ties=True, holes=0.1):
    rng = np.random.default_rng(seed)
    lines = []
    for row, split, column in itertools.product(range(rows), range(splits), range(columns)):
        value = rng.normal()
        if rng.random() > holes:
            lines.append((f"r{row}", f"c{column}", split, round(value, 0 if ties else 8)))
    return pd.DataFrame(lines, columns=["row", "column", "split", "value"])


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_average_ranks_are_those_of_counting_pairs(better):
    """rank = 1 + number beaten + half the number tied, over the pairs that all columns have."""
    frame = random_frame()
    names = sorted(frame.column.unique())
    ranks = {name: [] for name in names}
    for _, pair in frame.groupby(["row", "split"]):
        values = dict(zip(pair.column, pair.value, strict=True))
        if len(values) < len(names):
            continue
        for name in names:
            others = [values[other] for other in names if other != name]
            beaten = sum(o < values[name] if better == "higher" else o > values[name] for o in others)
            ranks[name].append(1 + beaten + sum(o == values[name] for o in others) / 2)
    found = average_ranks(frame, better)
    n = len(ranks["c0"])
    assert 5 < n < 24  # some pairs are incomplete
    assert (found.n == n).all()
    for name in names:
        assert found["mean"][name] == pytest.approx(np.mean(ranks[name]))
        assert found["error"][name] == pytest.approx(np.std(ranks[name], ddof=1) / math.sqrt(n))
    assert found["mean"].sum() == pytest.approx(sum(range(1, len(names) + 1)))


def test_median_difference_is_over_common_pairs():
    frame = random_frame(1, ties=False)
    found = median_difference(frame, "c2")
    values = {(r.row, r.split, r.column): r.value for r in frame.itertuples()}
    for name in ("c0", "c1", "c2", "c3", "c4"):
        gaps = [
            values[row, split, name] - values[row, split, "c2"]
            for row, split, column in values
            if column == name and (row, split, "c2") in values
        ]
        assert found["median"][name] == pytest.approx(np.median(gaps))
        assert found["n"][name] == len(gaps)
    assert found["median"]["c2"] == 0


def test_mean_and_standard_error():
    values = [-2.3, -2.9, -2.05]
    found = summarise(values)
    mean = sum(values) / 3
    assert found.mean == pytest.approx(mean)
    assert found.error == pytest.approx(math.sqrt(sum((v - mean) ** 2 for v in values) / 2) / math.sqrt(3))
    corrected = summarise(values, 51 / 455)
    assert corrected.error == pytest.approx(np.std(values, ddof=1) * math.sqrt(1 / 3 + 51 / 455))
    assert summarise([1.5]) == Summary(1.5, None, 1) == summarise([1.5], 0.1)
    assert summarise([]) is None


def test_overlap_with_the_best():
    def chosen(better, **given):
        return overlapping({name: Summary(m, e, 5) for name, (m, e) in given.items()}, better)

    given = {"a": (1.0, 0.1), "b": (0.85, 0.05), "c": (0.8, 0.05), "d": (0.5, 0.5), "e": (0.4, 0.49)}
    assert chosen("higher", **given) == {"a", "b", "d"}  # b touches: 0.85 + 0.05 = 1.0 - 0.1
    assert chosen("lower", **given) == {"b", "c", "d", "e"}
    assert chosen("higher", a=(1.0, None), b=(1.0, None), c=(0.99, None)) == {"a", "b"}
    assert chosen("higher", a=(math.nan, 0.1), b=(0.0, 0.1)) == {"b"}
    assert overlapping({"a": None}, "higher") == set()


def test_difference_in_combined_standard_errors():
    found = difference(Summary(-1.0, 0.03, 5), -1.1, 0.04)
    assert found.value == pytest.approx(0.1) and found.error == pytest.approx(0.05)
    assert found.ratio == pytest.approx(2.0)
    assert difference(Summary(-1.0, None, 1), -1.1, 0.04) == (pytest.approx(0.1), None, None)
    assert difference(Summary(-1.0, 0.0, 5), -1.01, 0.0).ratio == pytest.approx(2.0)  # 0.00 counts as 0.005
    assert difference(Summary(-1.0, 0.1, 5), -math.inf, 0.04) is None


def test_the_published_5_1_from_the_csv_alone():
    table = build(specs.load("5.1"), Records([]))
    frame = table.published_frame()
    assert len(frame) == 41 * 9
    columns = list(table.spec.columns)
    assert average_ranks(frame, "higher")["mean"][columns].round(2).tolist() == RANKS
    assert median_difference(frame, "GP")["median"][columns].round(2).tolist() == MEDIANS
    grid = side_by_side(table, "published")
    feet = [line for line in grid.lines if line.kind == "footer"]
    assert [line.heads for line in feet] == [
        ("median diff. from GP", "published"),
        ("average rank (9 = best)", "published"),
        ("median diff. from GP", "printed"),
        ("average rank", "printed"),
    ]
    assert [float(entry.text.split()[0]) for entry in feet[1].entries] == RANKS
    assert [float(entry.text) for entry in feet[0].entries] == MEDIANS
    assert feet[3].entries[8].text == "7.49 (0.16)"
    assert "published: bold by the same rule on the rounded printed values" in grid.notes
    assert "published footers: computed from the printed dataset means; printed: as printed" in grid.notes
    # bars overlap on rounded values, by integers in hundredths
    published = {at: cell.published for at, cell in table.cells.items()}
    for row in table.spec.rows:
        hundredths = {
            c: (round(100 * published[row, c].value), round(100 * published[row, c].error)) for c in columns
        }
        best = max(hundredths.values(), key=lambda pair: pair[0])
        expected = {c for c, (m, e) in hundredths.items() if m + e >= best[0] - best[1]}
        assert bold_columns(table, row, "published") == expected, row
    assert bold_columns(table, "tamielectric", "published") == {c for c in columns if c.startswith("LV")}


def lines_of(grid):
    return {line.heads: dict(zip(grid.columns, line.entries, strict=True)) for line in grid.lines}


def test_a_whole_table_of_ours():
    """Means, marks, counts and footers of a small S7 against pandas on the raw numbers."""
    rng = np.random.default_rng(3)
    experiments = {"Linear": "dsvi2017_linear", "SGP": "dsvi2017_sgp", "DGP 2": "dsvi2017_dgp2"}
    raw = [
        (d, c, s, rng.normal(-2, 0.5)) for d in ("boston", "energy") for c in experiments for s in range(6)
    ]
    raw = [line for line in raw if line[:3] not in {("boston", "DGP 2", 4), ("energy", "SGP", 0)}]
    found = [unit(experiments[c], d, s, {"test_loglik": v, "shapiro_w_median": 0.9}) for d, c, s, v in raw]
    found.append(unit("dsvi2017_sgp", "energy", 0, status="failed", reason="ValueError: bad"))
    table = build(specs.load("S7"), Records(found))
    lines = lines_of(side_by_side(table))
    frame = pd.DataFrame(raw, columns=["d", "c", "s", "v"])
    groups = frame.groupby(["d", "c"]).v
    for (d, c), mean in groups.mean().items():
        error = groups.std()[d, c] / np.sqrt(groups.count()[d, c])
        entry = lines[d, "ours"][c]
        assert entry.text == f"{mean:.2f} ({error:.2f})"
        best = groups.mean()[d].idxmax()
        floor = groups.mean()[d, best] - groups.sem()[d, best]
        assert entry.bold == (mean + error >= floor)
        assert not entry.italic  # S7 has no italics
    assert lines["energy", "ours"]["SGP"].count == "5/20, 1 failed"
    assert "split 0 failed: ValueError: bad" in lines["energy", "ours"]["SGP"].detail
    assert lines["energy", "ours"]["DGP 3"].count == "0/20"
    wide = frame.pivot(index=["d", "s"], columns="c", values="v")
    ranks = wide.dropna().rank(axis=1)
    feet = lines["average rank (3 = best)", "ours"]
    for c in experiments:
        assert feet[c].text == f"{ranks[c].mean():.2f} ({ranks[c].std() / np.sqrt(10):.2f})"
        assert feet[c].count == "10 pairs"
    gaps = lines["median diff. from SGP", "ours"]
    assert gaps["DGP 2"].text == f"{(wide['DGP 2'] - wide['SGP']).dropna().median():.2f}"
    assert gaps["DGP 2"].count == "10 pairs" and gaps["Linear"].count == "11 pairs"
    assert gaps["DGP 3"].text == "–"


def small_spec(**fields):
    columns = [{"label": n, "experiment": f"dsvi2017_{n}"} for n in ("linear", "sgp", "dgp2")]
    tree = {"title": "t", "units": "u", "metric": "test_loglik", "rows": ["boston"], "columns": columns}
    return specs.parse("t", {**tree, **fields})


def test_italics_blanks_and_minus_infinity():
    found = units("dsvi2017_linear", "boston", [-5.0, -3000.0], w=0.9999)
    found += units("dsvi2017_sgp", "boston", [-1.0, -1.1], w=0.9899)
    found += units("dsvi2017_dgp2", "boston", [-999.0, -1000.9], w=0.99)
    ours = lines_of(side_by_side(build(small_spec(italics=True), Records(found))))["boston", "ours"]
    assert [ours[c].text for c in ("linear", "sgp", "dgp2")] == ["-∞", "-1.05 (0.05)", "-1000 (1)"]
    assert [ours[c].italic for c in ("linear", "sgp", "dgp2")] == [False, True, False]
    assert ours["linear"].value == pytest.approx(-1502.5)  # shown as minus infinity, kept as a number
    blanks = build(small_spec(metric="shapiro_w_median", blank_above=0.999, format=".4f"), Records(found))
    shown = lines_of(side_by_side(blanks))["boston", "ours"]
    assert [shown[c].text for c in ("linear", "sgp", "dgp2")] == ["", "0.9899 (0.0000)", "0.9900 (0.0000)"]
    assert shown["linear"].count == "2/20"


def test_compare_prints_ours_published_and_the_difference():
    found = units("dsvi2017_sgp", "boston", [-2.2, -2.3, -2.4]) + units("dsvi2017_dgp2", "boston", [-2.0])
    table = build(specs.load("S7"), Records(found))
    grid = comparison(table)
    rows = {line.entries[0].text: [entry.text for entry in line.entries[1:]] for line in grid.lines}
    se = math.sqrt(0.01 / 3)
    ratio = (-2.3 + 2.47) / math.hypot(se, 0.05)
    most = 0.17 + 1.645 * math.hypot(se, 0.05)
    sgp = ["-2.30 (0.06)", "-2.47 (0.05)", "+0.17", f"{ratio:+.1f}", f"{most:.2f}"]
    assert rows["SGP"] == ["3/20", *sgp, "undecided (print too uncertain)"]
    assert rows["DGP 2"] == [
        "1/20",
        "-2.00",
        "-2.47 (0.05)",
        "+0.47",
        "–",
        f"{0.47 + 1.645 * 0.05 * math.sqrt(21):.2f}",
        "undecided (20 runs)",
    ]  # one split has the spread of those behind the printed error
    data = cell_frame(table).set_index(["row", "column"]).loc["boston", "SGP"]
    assert data["difference_in_stderr"] == pytest.approx(ratio)
    assert data["verdict"] == "undecided" and data["furthest"] == pytest.approx(most)
    assert data["command"] == "dgpbench run experiment=dsvi2017_sgp dataset=boston split=3"


def test_doubtful_cells_are_shown_with_a_mark_and_used_for_nothing():
    table = build(specs.load("5.2"), Records([]))
    doubtful = [at for at, cell in table.cells.items() if cell.published and cell.published.doubtful]
    assert len(doubtful) == 77
    assert not set(map(tuple, table.published_frame()[["row", "column"]].to_numpy())) & set(doubtful)
    entry = lines_of(side_by_side(table))[doubtful[0][0], "published"][doubtful[0][1]]
    assert entry.doubtful and not entry.bold
    for row in table.spec.rows:
        assert bold_columns(table, row, "published") <= {"GP"}


def test_lower_is_better_turns_bold_and_ranks_round():
    found = units("dsvi2017_linear", "boston", [4.0, 4.2], "test_rmse")
    found += units("dsvi2017_sgp", "boston", [3.0, 3.1], "test_rmse")
    lines = lines_of(side_by_side(build(specs.load("S8"), Records(found))))
    assert lines["boston", "ours"]["SGP"].bold and not lines["boston", "ours"]["Linear"].bold
    assert lines["average rank (2 = best)", "ours"]["SGP"].text == "2.00 (0.00)"
