"""Comparisons of plain runs: which records a cell takes, what is refused or marked, and the formats."""

import csv
import io
import math
import shutil
import subprocess

import numpy as np
import pytest
from report_units import plain_unit, plain_units, units, write
from scipy.stats import t as scipy_t

from dgpbench.cli import main
from dgpbench.errors import UserError
from dgpbench.report.comparison import comparison_views as view
from dgpbench.report.comparison.compare_runs import compare
from dgpbench.report.comparison.comparison_views import render
from dgpbench.report.comparison.fairness import columns_grid
from dgpbench.report.comparison.question import ask
from dgpbench.report.rules import Summary
from dgpbench.report.significance import OVER_DATASETS

SGP, DGP = ["model=sgp"], ["model=dgp2"]
WORDS = ["model=sgp,dgp2", "dataset=boston,energy", "split=0,1,2"]


def sample():
    found = plain_units(SGP, "boston", [-2.0, -2.2, -2.4], training={"seconds": 2.0}, wall_seconds=5.0)
    found += plain_units(DGP, "boston", [-1.9, -2.0, -2.5], training={"seconds": 8.0}, wall_seconds=9.0)
    found += plain_units(SGP, "energy", [-1.0, -1.1, -1.2]) + plain_units(DGP, "energy", [-0.5, -0.4])
    return found


def test_words_become_rows_columns_splits_and_seeds():
    found = ask(["model=sgp,dgp2", "model.num_inducing=50,100", "dataset=boston", "split=3,1", "seed=1,2"])
    assert [c.label for c in found.columns] == [
        "sgp, num_inducing=50",
        "sgp, num_inducing=100",
        "dgp2, num_inducing=50",
        "dgp2, num_inducing=100",
    ]
    assert [r.label for r in found.rows] == ["boston"] and found.splits == (3, 1) and found.seeds == (1, 2)
    own = ask(["model=sgp", "dataset=csv", "dataset.path=data/my.csv", "dataset.target=y"])
    assert [r.label for r in own.rows] == ["my.csv"] and own.columns[0].label == "sgp"
    for words, message in (
        ([], "name what is to be compared"),
        (["model=sgb"], "unknown model 'sgb'; did you mean 'sgp'"),
        (["model=sgp", "dataset.path=x.csv"], "belongs to a dataset"),
        (["sgp"], "cannot read 'sgp'"),
    ):
        with pytest.raises(UserError, match=message):
            compare(words, [])


def test_a_cell_is_the_mean_over_its_own_config_and_asked_splits():
    other = plain_units([*SGP, "model.num_inducing=20"], "boston", [9.0, 9.0])
    beyond = plain_unit(SGP, "boston", 7, {"test_loglik": 9.0})
    seeded = plain_unit(SGP, "boston", 0, {"test_loglik": 9.0}, seed=1)
    table = compare(WORDS, [*sample(), *other, beyond, seeded]).table
    assert table.ours("boston", "sgp") == pytest.approx((-2.2, 0.2 * math.sqrt(1 / 3 + 1 / 9), 3))
    plain = compare(WORDS, sample(), errors="plain").table
    assert plain.ours("boston", "sgp") == pytest.approx((-2.2, math.sqrt(0.04 / 3), 3))
    assert table.cells["energy", "dgp2"].missing == [2] and table.cells["energy", "dgp2"].count == "2/3"
    full = compare(["model=sgp", "dataset=boston"], [*sample(), beyond]).table.cells["boston", "sgp"]
    assert (len(full.values), full.expected) == (4, 20)


def test_seeds_count_together_once_all_are_there():
    found = [
        plain_unit(SGP, "boston", s, {"test_loglik": -s - seed}, seed=seed) for s in (0, 1) for seed in (0, 1)
    ]
    cell = compare(["model=sgp", "dataset=boston", "seed=0,1"], found[:-1]).table.cells["boston", "sgp"]
    assert cell.values == {0: -0.5} and 1 in cell.missing


def test_only_one_set_of_data_in_a_row():
    """Records on other data of the same name are left out and said so; the catalogue's data win."""
    strange = plain_units(DGP, "boston", [5.0, 5.0, 5.0], data="ab" * 32)
    found = compare(WORDS, [*sample(), *strange])
    assert found.table.ours("boston", "dgp2").mean == pytest.approx(-6.4 / 3)
    assert "boston: runs on other data of this name are left out" in found.notes[0]
    alone = compare(WORDS, [*plain_units(SGP, "boston", [-2.0, -2.2]), *strange])
    assert alone.table.ours("boston", "sgp").mean == pytest.approx(-2.1)
    assert alone.table.ours("boston", "dgp2") is None


def test_an_own_file_goes_by_its_name():
    def run(path, value):
        words = [*SGP, f"dataset.path={path}", "dataset.target=y"]
        return plain_unit(words, "csv", 0, {"test_loglik": value}, data=path[0] * 64)

    found = [run("a.csv", -1.0), run("b.csv", -2.0)]
    words = ["model=sgp", "dataset=csv", "dataset.path=a.csv,b.csv", "dataset.target=y", "split=0"]
    table = compare(words, found).table
    assert {row: table.ours(row, "sgp").mean for row in table.spec.rows} == {"a.csv": -1.0, "b.csv": -2.0}


def test_without_datasets_those_that_have_such_runs():
    table = compare(["model=sgp,dgp2"], sample()).table
    assert table.spec.rows == ("boston", "energy")
    with pytest.raises(UserError, match="no runs of these; name the datasets too"):
        compare(["model=dgp3"], sample())


def test_under_a_time_budget_the_machine_is_found():
    words = ["model=sgp", "budget.seconds=5"]
    found = [plain_unit(words, "boston", s, {"test_loglik": -1.0}, device="cpu y", threads=2) for s in (0, 1)]
    assert len(compare([*words, "dataset=boston"], found).table.cells["boston", "sgp"].values) == 2


@pytest.mark.parametrize(
    "words, message",
    [
        (["protocol=clean,iwvi2019"], "columns differ in protocol.scaling .clean: train, iwvi2019: all."),
        (["protocol.train_fraction=0.5,0.9"], "columns differ in protocol.train_fraction"),
        (["protocol.max_test=10,20"], "columns differ in protocol.max_test"),
    ],
)
def test_columns_of_other_test_rows_or_units_are_refused(words, message):
    with pytest.raises(UserError, match=message):
        compare(["model=sgp", "dataset=boston", *words], [])


def notes_of(words, found, **options):
    return " | ".join(view.main_grid(compare(words, found, **options)).notes)


def test_what_makes_a_comparison_weaker_is_marked():
    assert "protocol.test_samples is test_samples=10: 10, test_samples=20: 20" in notes_of(
        ["model=sgp", "protocol.test_samples=10,20", "dataset=boston"], []
    )
    assert "columns train on different rows" in notes_of(
        ["model=sgp", "protocol.validation=0,0.1", "dataset=boston"], []
    )
    assert "budget differs: steps=10: 10 steps, steps=20: 20 steps" in notes_of(
        ["model=sgp", "budget.steps=10,20", "dataset=boston"], []
    )
    sizes = [
        plain_unit(words, "boston", 0, {"test_loglik": 0.0}, sizes={"n_test": n}, threads=t, device="cpu")
        for words, n, t in ((SGP, 51, 1), (DGP, 50, 2))
    ]
    told = notes_of(["model=sgp,dgp2", "dataset=boston", "split=0"], sizes)
    assert "boston, split 0: not tested on equally many rows (sgp: 51, dgp2: 50)" in told
    assert "seconds are of different machines" in told
    assert "† columns have different splits" in notes_of(WORDS, sample())
    draws = [plain_unit(DGP, "boston", 0, {"test_loglik": None, "test_loglik_kde": -1.0})]
    assert "dgp2: predicts by draws, which have no test_loglik; --metric test_loglik_kde" in notes_of(
        ["model=sgp,dgp2", "dataset=boston", "split=0"], draws
    )


def test_bold_and_ranks_are_on_common_splits():
    """dgp2 lacks split 2, on which sgp did badly: compared there it would win."""
    found = plain_units(SGP, "boston", [-1.0, -1.1, -9.0]) + plain_units(DGP, "boston", [-2.0, -2.1])
    comparison = compare(["model=sgp,dgp2", "dataset=boston", "split=0,1,2"], found)
    grid = view.main_grid(comparison)
    assert [entry.bold for entry in grid.lines[0].entries] == [True, False]
    assert [entry.text for entry in grid.lines[1].entries] == ["1.00", "2.00"]
    common = view.common_summaries(comparison, "boston")
    assert common["sgp"].mean == pytest.approx(-1.05) and common["dgp2"].n == 2


def test_tests_pair_splits_and_ratios_pair_logarithms():
    (tests,) = view.tests_grids(compare(WORDS, sample()))
    frame = tests.data.set_index(["dataset", "column"])
    gaps = np.array([0.1, 0.2, -0.1])
    assert list(frame.loc["boston", "dgp2"][["pairs", "win", "tie", "loss"]]) == [3, 2, 0, 1]
    t = gaps.mean() / math.sqrt(gaps.var(ddof=1) * (1 / 3 + 1 / 9))  # Nadeau and Bengio (2003)
    assert frame.loc["boston", "dgp2"]["p"] == pytest.approx(2 * scipy_t.sf(abs(t), 2))
    assert frame.loc["energy", "dgp2"]["pairs"] == 2 and frame.loc[OVER_DATASETS, "dgp2"]["pairs"] == 2
    assert "no critical difference of ranks below 5 datasets" in tests.notes[-1]
    errors = plain_units(SGP, "boston", [2.0, 4.0], "test_rmse") + plain_units(
        DGP, "boston", [1.0, 1.0], "test_rmse"
    )
    (tests,) = view.tests_grids(compare(WORDS, errors, metric="rmse"))
    line = tests.data.set_index("dataset").loc["boston"]
    assert line["mean difference"] == pytest.approx((math.log(2) + math.log(4)) / 2) and line["win"] == 2


def test_critical_difference_from_five_sets_on():
    found = []
    for dataset in ("boston", "energy", "yacht", "concrete", "winered"):
        found += plain_units(SGP, dataset, [-1.0]) + plain_units(DGP, dataset, [-0.5])
    (tests,) = view.tests_grids(compare(["model=sgp,dgp2", "split=0"], found))
    assert f"critical difference {1.96 * math.sqrt(2 * 3 / 30):.2f}" in tests.notes[-1]


def test_metric_names():
    assert compare(WORDS, sample(), metric="loglik").metric.name == "test_loglik"
    with pytest.raises(UserError, match="no metric 'test_logik'; did you mean 'test_loglik'"):
        compare(WORDS, sample(), metric="test_logik")
    with pytest.raises(UserError, match="--against sgb is no column; did you mean 'sgp'"):
        compare(WORDS, sample(), against="sgb")
    coverage = plain_units(SGP, "boston", [0.9], "test_coverage95") + plain_units(
        DGP, "boston", [1.0], "test_coverage95"
    )
    grid = view.main_grid(compare(WORDS, coverage, metric="test_coverage95"))
    assert not any(entry.bold for entry in grid.lines[0].entries)
    assert not any("rank" in line.heads[0] for line in grid.lines)


def test_the_same_run_twice_is_one_column():
    found = compare(["model=linear", "budget.steps=10,20", "dataset=boston"], [])
    assert (
        found.table.spec.columns == ("steps=10",) and "steps=20 is the same run as steps=10" in found.notes[0]
    )


def test_missing_runs_have_commands_that_make_them():
    comparison = compare(WORDS, sample(), more=["paths.results=x y"])
    assert view.main_grid(comparison).missing == (
        "dgp2: 1 in 1 cells, dgpbench sweep model=dgp2 'paths.results=x y' dataset=energy split=2",
    )
    comparison = compare(["model=sgp", "dataset=boston"], sample())
    assert (
        view.main_grid(comparison)
        .missing[0]
        .endswith("dgpbench sweep model=sgp dataset=boston 'split=range(3,20)'")
    )


def test_columns_say_what_they_are():
    words = ["model=sgp,linear", "budget.steps=10", "precision=float64", "dataset=boston"]
    found = plain_units(
        [*SGP, "budget.steps=10", "precision=float64"], "boston", [-1.0], training={"seconds": 3.0}
    )
    found[0].record["config"]["tuned"] = "20 trials on validation rows"
    data = columns_grid(compare(words, found)).data.set_index("column")
    assert data.loc["sgp", "settings"] == "budget.steps=10 precision=float64"
    assert (data.loc["sgp", "budget"], data.loc["linear", "budget"]) == ("10 steps", "closed form")
    assert data.loc["sgp", "training s"] == 3.0 and data.loc["sgp", "tuned"] == "20 trials on validation rows"


def test_digits_follow_the_smallest_error():
    assert view.decimals([Summary(-1.0, 0.012, 3), Summary(-2.0, 0.3, 3)]) == 3
    assert view.decimals([Summary(-1.0, 0.2, 3)]) == 2 and view.decimals([Summary(1234.0, None, 1)]) == 0
    assert view.decimals([Summary(0.5, None, 1)]) == 4
    assert view.shown(Summary(-1.0, 0.012, 3), 3) == "-1.000 (0.012)"
    assert view.shown(Summary(-0.0004, None, 1), 2) == "0.00"


def test_latex_is_a_clean_table(tmp_path):
    full = [*sample(), plain_unit(DGP, "energy", 2, {"test_loglik": -0.6})]
    text = render(compare(WORDS, full), "latex")
    assert "ours" not in text and "ublished" not in text and "3/3" not in text
    assert r"boston & \textbf{$-$2.20 (0.13)} & \textbf{$-$2.13 (0.21)} \\" in text
    assert r"win/tie/loss against sgp & -- & 5/0/1 \\" in text
    assert "% sgp: model sgp" in text and r"\toprule" in text and "over 3 splits" in text
    partial = render(compare(WORDS, sample()), "latex")
    assert r"energy $^\dagger$" in partial and "% note: 1 splits have not been run" in partial
    if shutil.which("pdflatex"):
        lines = [r"\documentclass{article}\usepackage{booktabs,graphicx}\begin{document}", text, partial]
        (tmp_path / "t.tex").write_text("\n".join([*lines, r"\end{document}"]))
        done = subprocess.run(["pdflatex", "-halt-on-error", "t.tex"], cwd=tmp_path, capture_output=True)
        assert done.returncode == 0, done.stdout.decode()[-2000:]


@pytest.fixture
def results(tmp_path):
    for unit in sample():
        write(tmp_path, unit.record)
    return tmp_path


def run(capsys, results, *words, code=0):
    assert main(["compare", *words, "--results", str(results)]) == code
    return capsys.readouterr()


def test_the_command_in_its_formats(capsys, results):
    text = run(capsys, results, *WORDS).out
    assert (
        "-2.20 (0.13) 3/3" in text and "Paired tests against sgp" in text and "What the columns are" in text
    )
    assert "missing; --run runs it all, or:" in text and "corrected for shared rows" in text
    plain = run(capsys, results, *WORDS, "--errors", "plain").out
    assert "-2.20 (0.12) 3/3" in plain and "plain standard error" in plain
    rows = list(csv.DictReader(io.StringIO(run(capsys, results, *WORDS, "--format", "csv").out)))
    assert len(rows) == 4 and float(rows[0]["mean"]) == pytest.approx(-2.2)
    assert rows[3]["command"].startswith("dgpbench run model=dgp2") and rows[3]["n_common"] == "2"
    assert "| boston | **-2.20 (0.13)** 3/3 |" in run(capsys, results, *WORDS, "--format", "markdown").out
    page = run(capsys, results, *WORDS, "--format", "html").out
    assert page.startswith("<!DOCTYPE html>") and "-2.20 (0.13)" in page and "default-src 'none'" in page
    assert r"\begin{tabular}" in run(capsys, results, *WORDS, "--format", "latex").out


def test_plots_are_written_and_bad_places_are_one_line(capsys, results, tmp_path):
    out = tmp_path / "plots"
    told = run(capsys, results, *WORDS, "--plot", "-o", str(out)).err
    assert (out / "figure-compare-dots.png").read_bytes()[:4] == b"\x89PNG"
    assert (out / "figure-compare-ranks.pdf").exists() and (out / "figure-compare-seconds.csv").exists()
    assert "not drawn: curves: these records hold no training trace" in told
    bad = run(capsys, results, *WORDS, "--plot", "-o", "/proc/x", code=2).err
    assert (
        bad
        == "dgpbench: error: cannot write /proc/x (no such file or directory); choose another place with -o\n"
    )
    assert "no metric 'rmze'" in run(capsys, results, *WORDS, "--metric", "rmze", code=2).err
    assert "--run needs the datasets" in run(capsys, results, "model=sgp", "--run", code=2).err


@pytest.mark.slow
@pytest.mark.long
def test_run_makes_what_is_missing(capsys, tmp_path, monkeypatch):
    (tmp_path / "my.csv").write_text("x,y\n" + "\n".join(f"{i / 40},{math.sin(i / 6)}" for i in range(40)))
    monkeypatch.chdir(tmp_path)
    words = ["model=linear,sgp", "dataset=csv", "dataset.path=my.csv", "dataset.target=y", "split=0,1"]
    words += ["budget.steps=20"]
    monkeypatch.setenv("DGPBENCH_DATASETS", str(tmp_path / "datasets"))
    first = run(capsys, tmp_path / "results", *words, "--run", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(first.out)))
    assert [(r["dataset"], r["column"], r["n_done"]) for r in rows] == [
        ("my.csv", "linear", "2"),
        ("my.csv", "sgp", "2"),
    ]
    assert "4 to run" in first.err and "0 to run" in run(capsys, tmp_path / "results", *words, "--run").err


def test_reference_records_of_experiments_are_compared_too(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DGPBENCH_RESULTS", raising=False)
    words = [
        "experiment=dsvi2017_linear,dsvi2017_sgp",
        "dataset=boston,concrete",
        "split=0,1,2",
        "--format",
        "csv",
    ]
    assert main(["compare", *words]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [r["n_done"] for r in rows] == ["3"] * 4
    assert main(["compare", *words, "--no-reference"]) == 0
    assert {r["n_done"] for r in csv.DictReader(io.StringIO(capsys.readouterr().out))} == {"0"}


def test_experiments_and_plain_runs_may_be_mixed():
    found = units("dsvi2017_sgp", "boston", [-2.0, -2.1])
    table = compare(["experiment=dsvi2017_sgp", "dataset=boston", "split=0,1"], found).table
    assert table.ours("boston", "dsvi2017_sgp").mean == pytest.approx(-2.05)


def test_a_setting_of_some_models_only_makes_no_columns_of_the_others():
    question = ask(["model=linear,sgp", "dataset=step", "model.num_inducing=20,50"])
    found = [(column.label, column.words) for column in question.columns]
    assert found == [
        ("linear", ("model=linear",)),
        ("sgp, num_inducing=20", ("model=sgp", "model.num_inducing=20")),
        ("sgp, num_inducing=50", ("model=sgp", "model.num_inducing=50")),
    ]
    assert question.config(question.rows[0], question.columns[2])["model"]["num_inducing"] == 50
    with pytest.raises(UserError, match="unknown key 'model.num_inducing' of model=linear"):
        wrong = ask(["model=linear,knn", "dataset=step", "model.num_inducing=20"])
        wrong.config(wrong.rows[0], wrong.columns[0])
