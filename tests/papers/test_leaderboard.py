"""The leaderboard's numbers against SciPy and counting by hand."""

import math

import numpy as np
import pytest
from scipy.stats import rankdata

from dgpbench.cli import main
from dgpbench.papers import specs
from dgpbench.papers.paper_cells import Records
from dgpbench.papers.paper_table import build
from dgpbench.report.leaderboard import board, by_dataset, duels, intervals

NAN = math.nan


def test_ranks_wins_and_gaps_by_hand():
    values = np.array([[1.0, 3.0, 2.0], [5.0, 5.0, 1.0], [NAN, 2.0, 4.0]])
    found = duels(values, "higher", ratio=False)
    np.testing.assert_array_equal(found.ranks, [[3, 1, 2], [1.5, 1.5, 3], [NAN, 2, 1]])
    np.testing.assert_array_equal(found.wins, [[0, 1, 0.5], [0.75, 0.75, 0], [NAN, 0, 1]])
    np.testing.assert_array_equal(found.gaps, [[2, 0, 1], [0, 0, 4], [NAN, 2, 0]])
    errors = duels(np.array([[4.0, 1.0, 2.0]]), "lower", ratio=True)
    np.testing.assert_allclose(errors.gaps, [[0.75, 0.0, 0.5]])  # the best would save three quarters
    np.testing.assert_array_equal(errors.ranks, [[3, 1, 2]])


def test_ranks_are_scipys():
    values = np.random.default_rng(0).integers(0, 4, (50, 6)).astype(float)
    np.testing.assert_array_equal(duels(values, "lower", True).ranks, rankdata(values, axis=1))
    np.testing.assert_array_equal(duels(values, "higher", False).ranks, rankdata(-values, axis=1))


def test_every_dataset_counts_the_same():
    statistic = np.array([[1.0], [1.0], [1.0], [5.0], [NAN]])
    assert by_dataset(statistic, np.array(["a", "a", "a", "b", "b"]))[0] == 3.0


def test_bootstrap_of_many_datasets_is_the_normal_interval():
    """Of means of 400 datasets of one split each: mean +- 1.96 deviations over the root of 400."""
    values = np.random.default_rng(1).normal(2.0, 1.0, (400, 1))
    low, high = intervals(values, np.arange(400))
    error = values.std() / 20
    assert low[0] == pytest.approx(values.mean() - 1.96 * error, abs=0.15 * error)
    assert high[0] == pytest.approx(values.mean() + 1.96 * error, abs=0.15 * error)
    same = intervals(np.full((6, 1), 3.0), np.array(list("aabbcc")))
    assert (same[0][0], same[1][0]) == (3.0, 3.0)


def test_the_board_sorts_by_rank_and_an_empty_one_says_so():
    table = build(specs.load("leaderboard"), Records([]))
    assert "none of these has been run yet" in board(table).notes
    for (row, column), cell in table.cells.items():
        if column in ("sgp", "dgp2", "linear") and row in ("boston", "energy"):
            score = {"dgp2": -1.0, "sgp": -2.0, "linear": -3.0}[column]
            cell.values = {0: score, 1: score - 0.5}
    found = board(table)
    assert [line.heads[0] for line in found.lines] == [f"{m} (unfinished)" for m in ("dgp2", "sgp", "linear")]
    assert [e.text for e in found.lines[1].entries] == [
        "2.00 [2.00, 2.00]",
        "50% [50%, 50%]",
        "1.000",
        "2",
        "4",
        "",
    ]
    assert list(found.data["rank"]) == [1.0, 2.0, 3.0]
    rmse = specs.load("leaderboard", ["rmse"])
    assert {place.better for place in rmse.places.values()} == {"lower"}


def test_methods_that_lack_runs_come_after_those_that_have_all():
    table = build(specs.load("leaderboard"), Records([]))
    for (row, column), cell in table.cells.items():
        if column == "linear" or (column == "sgp" and row == "boston"):
            cell.values = {split: {"linear": -3.0, "sgp": -2.0}[column] for split in range(cell.expected)}
    found = board(table)
    assert [line.heads[0] for line in found.lines] == ["linear", "sgp (unfinished)"]
    assert list(found.data["unfinished"]) == [False, True] and list(found.data["method"]) == ["linear", "sgp"]
    assert list(found.data["rank"]) == [pytest.approx(1 + 1 / 8), 1.0]  # second on one set of eight
    assert any(note.startswith("unfinished: ") for note in found.notes)
    for cell in table.cells.values():
        cell.failed = {split: "failed" for split in range(cell.expected or 0) if split not in cell.values}
    assert not any(note.startswith("unfinished: ") for note in board(table).notes)


def test_methods_that_ran_on_fewer_datasets_are_named():
    """gpr is not run on power and kin8nm, which is not unfinished."""
    table = build(specs.load("leaderboard"), Records([]))
    for (_, column), cell in table.cells.items():
        if column in ("gpr", "sgp") and cell.expected:
            cell.values = {split: {"gpr": -2.0, "sgp": -3.0}[column] for split in range(cell.expected)}
    found = board(table)
    assert list(found.data["datasets"]) == [6, 8] and not found.data["unfinished"].any()
    (note,) = [note for note in found.notes if note.startswith("on fewer datasets")]
    assert note.endswith(": gpr")
    for (_, column), cell in table.cells.items():
        if column == "gpr":
            cell.values = {}
    assert not any(note.startswith("on fewer datasets") for note in board(table).notes)


@pytest.mark.parametrize(
    ("more", "heads"),
    [([], ["method", "dataset"]), (["--show", "ours"], ["method", "dataset"])],
)
def test_the_command_prints_each_part_once(capsys, tmp_path, more, heads):
    assert main(["tables", "leaderboard", "--results", str(tmp_path), "--format", "markdown", *more]) == 0
    lines = capsys.readouterr().out.splitlines()
    below = [lines[i - 1] for i, line in enumerate(lines) if line.startswith("| ---")]
    assert [line.split(" | ")[0].strip("| ") for line in below if "table" not in line][
        : len(heads) + 1
    ] == heads
