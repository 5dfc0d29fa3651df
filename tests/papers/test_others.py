"""Records of others in tables: every cell that holds one is marked, named below, and judged by nobody."""

import csv
import io
from pathlib import Path

import pytest
from report_units import plain_units, units, write

from dgpbench.cli import main
from dgpbench.papers import figures
from dgpbench.papers.dataset_numbers import dataset_grids
from dgpbench.papers.document import Pages
from dgpbench.papers.paper_cells import Records
from dgpbench.papers.paper_table import build
from dgpbench.papers.specs import load, with_variant
from dgpbench.papers.views import comparison, counted, side_by_side
from dgpbench.report.comparison import comparison_views as view
from dgpbench.report.comparison.compare_runs import compare
from dgpbench.report.diagnostics import calibration, frontier
from dgpbench.report.leaderboard import board
from dgpbench.report.render import render
from dgpbench.report.significance import significance_grids
from dgpbench.store.reference import export
from dgpbench.store.scan import RECOMPUTED, Unit

LAB = Path("results/community/lab.jsonl.gz")
KIN8NM = "kin8nm DGP 2 (3 of 3 records, metrics not recomputed)"
NOTE = f"‡: with records of others from results/community/, consistent, not re-run: {KIN8NM}"


def of_others(found):
    return [Unit(unit.record, LAB) for unit in found]


def sample():
    """Three invented splits of DGP 2 beside three of ours of SGP."""
    invented = units("dsvi2017_dgp2", "kin8nm", [2.04, 2.05, 2.06], training={"seconds": 9.0})
    ours = units("dsvi2017_sgp", "kin8nm", [0.87, 0.88, 0.89], training={"seconds": 5.0})
    return [*ours, *of_others(invented)]


def table_of(found):
    return build(load("S7"), Records(found))


def line_of(grid, row, side):
    at = [line.heads[0] for line in grid.lines].index(row)
    return next(line for line in grid.lines[at:] if line.heads[1] == side)


def test_cells_with_records_of_others_are_marked_and_named():
    grid = side_by_side(table_of(sample()))
    entries = dict(zip(grid.columns, line_of(grid, "kin8nm", "ours").entries, strict=True))
    assert (entries["DGP 2"].text, entries["DGP 2"].marks) == ("2.05 (0.01)", "‡")
    assert (entries["SGP"].text, entries["SGP"].marks) == ("0.88 (0.01)", "")
    assert "3 of these from results/community/: consistent, not re-run, metrics not recomputed" in (
        entries["DGP 2"].detail
    )
    assert NOTE in grid.notes
    assert "ours: 6 of 1280 splits done, 0 failed; 3 of the records by others" in grid.notes
    ranks = next(line for line in grid.lines if line.heads[0].startswith("average rank"))
    assert {entry.marks for entry in ranks.entries if entry.value is not None} == {"‡"}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("markdown", "2.05 (0.01)**‡ 3/20"),
        ("html", "2.05 (0.01)<sup>‡</sup>"),
        ("latex", r"2.05 (0.01)}$^\ddagger$ {\scriptsize 3/20}"),
    ],
)
def test_the_mark_is_in_every_format(name, shown):
    assert shown in render(side_by_side(table_of(sample())), name)


def test_csv_counts_records_of_others():
    for grid in (side_by_side(table_of(sample())), comparison(table_of(sample()))):
        lines = list(csv.DictReader(io.StringIO(render(grid, "csv"))))
        found = {(line["row"], line["column"]): line["n_community"] for line in lines}
        assert found["kin8nm", "DGP 2"] == "3" and found["kin8nm", "SGP"] == "0"


def test_records_of_others_get_no_verdict_and_are_not_counted():
    table = table_of(sample())
    grid = comparison(table)
    found = {line.entries[0].text: line.entries for line in grid.lines}
    assert found["DGP 2"][-1].text == "community" and found["DGP 2"][2].marks == "‡"
    assert found["SGP"][-1].text.startswith(("undecided", "different"))
    assert NOTE in grid.notes
    counts = counted([table])
    assert counts.data["compared"].tolist() == [1]
    assert "not counted, with records of others (verdict community): 1" in counts.notes


def test_one_record_of_others_among_ours_is_enough():
    mixed = units("dsvi2017_sgp", "kin8nm", [0.87, 0.88, 0.89])
    mixed[2] = Unit(mixed[2].record | {"notes": [RECOMPUTED]}, LAB)
    grid = comparison(table_of(mixed))
    assert grid.lines[0].entries[-1].text == "community"
    assert any(note.endswith("kin8nm SGP (1 of 3 records)") for note in grid.notes)


def test_a_run_of_others_explains_nothing():
    quick = units("dsvi2017_dgp2_fast", "boston", [-1.70, -1.69, -1.71])
    near = units("dsvi2017_dgp2_fast_shared", "boston", [-2.40, -2.45, -2.50])
    spec = with_variant(load("S7"), "fast")
    for given, verdict in ((near, "explained"), (of_others(near), "different")):
        grid = comparison(build(spec, Records(quick + given)))
        assert grid.lines[0].entries[-1].text == verdict


def test_variants_of_others_are_marked():
    other = units("dsvi2017_dgp2", "kin8nm", [1.0, 1.1], overrides=["budget.steps=10"])
    (block,) = side_by_side(table_of([*sample(), *of_others(other)])).blocks
    assert [line["value"] for line in block.numbers] == ["1.05 (0.05)‡"]


def test_lists_of_a_dataset_mark_them():
    grid = next(
        grid for grid in dataset_grids("kin8nm", sample()) if grid.title.startswith("kin8nm: every log")
    )
    (line,) = [line for line in grid.lines if "dsvi2017_dgp2" in line.entries[2].text]
    assert line.entries[0].marks == "‡" and line.entries[2].text == "community: dsvi2017_dgp2"
    assert line.entries[-1].text == "3 of 3 records of others: consistent, not re-run, metrics not recomputed"
    assert sum(grid.data["n_community"] > 0) == 1
    assert any(note.startswith("‡: with records of others") for note in grid.notes)


def test_ranks_times_calibration_and_tests_name_the_cells():
    table = table_of(sample())
    ranks = board(table)
    assert {line.heads[0].partition(" (")[0]: line.entries[0].marks for line in ranks.lines} == {
        "DGP 2": "‡",
        "SGP": "",
    }
    assert ranks.data.set_index("method")["n_community"].to_dict() == {"DGP 2": 3, "SGP": 0}
    times = frontier(table)
    assert times.data.set_index("model")["community"].to_dict() == {"DGP 2": 3, "SGP": 0}
    spread = calibration(table)
    assert spread.data.set_index("model")["splits"].to_dict() == {"DGP 2": "3/20‡", "SGP": "3/20"}
    for grid in (ranks, times, spread, significance_grids(table)[0]):
        assert NOTE in grid.notes


def test_comparisons_of_plain_runs_mark_them():
    ours = plain_units(["model=sgp"], "boston", [-2.0, -2.2])
    others = of_others(plain_units(["model=dgp2"], "boston", [-1.0, -1.2]))
    found = compare(["model=sgp,dgp2", "dataset=boston", "split=0,1"], [*ours, *others])
    for grid in (view.main_grid(found), view.paper_grid(found)):
        assert [entry.marks for entry in grid.lines[0].entries] == ["", "‡"]
        assert any("boston dgp2 (2 of 2 records, metrics not recomputed)" in note for note in grid.notes)
    assert view.frame(found)["n_community"].tolist() == [0, 2]


def test_figures_of_tables_name_them():
    drawn = figures.make(figures.find("2.4"), sample())
    assert NOTE.partition(": ")[2] in drawn.notes
    assert not any(
        "records of others" in note for note in figures.make(figures.find("2.4"), sample()[:3]).notes
    )


def test_pages_cite_our_records_only():
    assert Pages(sample(), Path("results")).table(["S7"]).cells["kin8nm", "DGP 2"].values == {}


def test_tables_without_records_of_others(tmp_path, capsys):
    ours, others = sample()[:3], sample()[3:]
    for unit in ours:
        write(tmp_path, unit.record)
    export(others, tmp_path / "community/lab.jsonl.gz")
    words = ["tables", "S7", "--results", str(tmp_path)]
    assert main(words) == 0 and "2.05 (0.01)‡ 3/20" in capsys.readouterr().out
    assert main([*words, "--no-community"]) == 0
    said = capsys.readouterr().out
    assert "2.05" not in said and "‡" not in said and "0.88 (0.01) 3/20" in said
