"""Tuning: the choice is by validation rows alone, and its trials stay apart from all other records."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "api"))
from own_files import regression, write_csv, write_ridge  # noqa: E402

import dgpbench  # noqa: E402
from dgpbench import cli  # noqa: E402
from dgpbench.config import compose  # noqa: E402
from dgpbench.data import load_split, loader  # noqa: E402
from dgpbench.data.split import shuffle_rows  # noqa: E402
from dgpbench.errors import UserError  # noqa: E402
from dgpbench.experiment import run_unit  # noqa: E402
from dgpbench.report.comparison.methods import methods  # noqa: E402
from dgpbench.store.record import build_record  # noqa: E402
from dgpbench.store.scan import scan  # noqa: E402
from dgpbench.tuning.study import refit, search  # noqa: E402

WORDS = ("dataset=csv", "dataset.path=own.csv", "dataset.target=y", "model=ridge", "threads=1")
PENALTY = "model.penalty=log(1e-2,1e4)"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("DGPBENCH_RESULTS", "DGPBENCH_DATASETS", "DGPBENCH_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    write_csv(tmp_path / "own.csv", regression())
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("own_ridge", None)
    return write_ridge(tmp_path)


def here(plan, retry="missing"):
    """The units of a plan in this process."""
    again = retry == "all"
    return [run_unit(plan.config(index), force=again)[0] for index in range(len(plan.units))]


def tuned(place, *words, trials=8, **options):
    found = search((*WORDS, *words), trials, options.pop("seed", 0), "random", [place], here)
    return refit(found, [place], here)


def test_the_best_trial_is_the_one_a_search_by_hand_finds(place):
    """Validation log-likelihoods computed here from the rows, without the harness's own evaluation."""
    study = tuned(place, PENALTY)
    split = load_split(compose((*WORDS, "protocol.validation=0.1"), [place]))
    X, Y, Xv, Yv = split.X_train, split.Y_train, split.X_valid, split.Y_valid
    scores = {}
    for (penalty,) in study.space.candidates(8, 0):
        w = np.linalg.solve(X.T @ X + float(penalty) * np.eye(X.shape[1]), X.T @ Y)
        noise = np.mean((Y - X @ w) ** 2)
        terms = -0.5 * (np.log(2 * np.pi * noise) + (Yv - Xv @ w) ** 2 / noise) - np.log(split.y_std)
        scores[penalty] = float(terms.mean())
    for trial in study.trials:
        assert trial.score == pytest.approx(scores[trial.values[0]], rel=1e-9)
    assert study.best() == [f"model.penalty={max(scores, key=scores.get)}"]
    assert list(study.frame().columns) == ["trial", "split", "status", "valid_loglik", "model.penalty"]


def test_the_refit_is_a_plain_run_that_says_what_was_tuned(place):
    study = tuned(place, PENALTY)
    run = study.refits[0]
    plain = dgpbench.run(*WORDS, *study.best(), config_dirs=[place], force=True)
    assert plain.key == run.key and plain.metrics == run.metrics
    assert run.config["tuned"] == "model.penalty: best of 8 by validation log-likelihood"
    assert run.record["sizes"]["n_train"] == 54  # the validation rows among them


def test_trials_have_no_test_metric_and_stay_apart(place, capsys):
    study = tuned(place, PENALTY)
    for trial in study.trials:
        record = trial.unit.record
        assert record["metrics"]["valid_loglik"] is not None and record["files"] == {}
        assert not [name for name in record["metrics"] if name.startswith("test_")]
        assert record["config"]["protocol"]["evaluate"] == "validation" and record["protocol"] == "clean-tune"
    keys = {trial.unit.record["config_key"] for trial in study.trials}
    assert len(keys) == 8 and study.refits[0].record["config_key"] not in keys
    assert len(scan("results")) == 1 and len(scan("results", trials=True)) == 9
    assert len(dgpbench.results()) == 1 and len(dgpbench.results(trials=True)) == 9
    assert cli.main(["show", "--each", "--metric", "all", "--format", "csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_a_run_with_validation_rows_has_both_kinds_of_metrics(place):
    run = dgpbench.run(*WORDS, "protocol.validation=0.2", config_dirs=[place])
    trial = dgpbench.run(
        *WORDS, "protocol.validation=0.2", "protocol.evaluate=validation", config_dirs=[place]
    )
    assert run.metrics["test_loglik"] is not None
    shared = {name: value for name, value in run.metrics.items() if name.startswith("valid_")}
    assert shared == trial.metrics and "valid_rmse" in shared
    with pytest.raises(UserError, match="protocol.evaluate=validation needs rows"):
        compose(["protocol.evaluate=validation"])


@pytest.mark.slow
@pytest.mark.parametrize("scaling", ["train", "all"])
def test_test_rows_play_no_part(place, monkeypatch, scaling):
    """The same search with every test row replaced by NaN: the same scores and the same choice."""
    words = (PENALTY, f"protocol.scaling={scaling}")
    expected = search((*WORDS, *words), 8, 0, "random", [place], here)
    real = loader.load_recipe

    def without_test_rows(*args, **kwargs):
        data = real(*args, **kwargs)
        X, Y = np.array(data.X), np.array(data.Y)
        _, test = shuffle_rows(len(X), 0)
        X[test] = Y[test] = np.nan
        return replace(data, X=X, Y=Y)

    monkeypatch.setattr(loader, "load_recipe", without_test_rows)
    monkeypatch.setenv("DGPBENCH_RESULTS", "elsewhere")
    found = search((*WORDS, *words), 8, 0, "random", [place], here)
    assert np.isnan(load_split(compose((*WORDS, "protocol.validation=0.1"), [place])).X_test).all()
    assert [t.score for t in found.trials] == [t.score for t in expected.trials]
    assert found.best() == expected.best() and all(t.score is not None for t in found.trials)


def test_every_split_is_tuned_by_itself(place):
    study = tuned(place, PENALTY, "split=0,3", trials=4)
    assert study.splits == [0, 3] and len(study.trials) == 8 and sorted(study.refits) == [0, 3]
    for split in (0, 3):
        assert {t.unit.record["split"] for t in study.ranked(split)} == {split}
        scores = [t.score for t in study.ranked(split)]
        assert scores == sorted(scores, reverse=True)


def test_refits_of_all_splits_are_one_column_beside_the_untuned(place):
    """Cells by hand: the refits' own metrics, whatever was chosen on each split."""
    words = [*WORDS, "split=0,1,2"]
    for split in range(3):
        dgpbench.run(*WORDS, f"split={split}", config_dirs=[place])
    study = tuned(place, "model.penalty=1.0,300", "split=0,1,2", trials=4)  # 1.0 is the default: run already
    assert all(run.config["tuned"] for run in study.refits.values())
    found = dgpbench.compare(*words, config_dirs=[place], tuned=True)
    table = found.frame().set_index("column")
    mean = np.mean([run.metrics["test_loglik"] for run in study.refits.values()])
    assert table["mean"]["ridge, tuned"] == pytest.approx(mean) and table["done"]["ridge, tuned"] == 3
    assert table["done"]["ridge"] == 3 and table["missing"].sum() == 0
    assert "model.penalty: best of 2 by validation log-likelihood" in found.text()
    (label,) = [m.settings for m in methods(scan("results")) if "tuned" in m.settings]
    assert label == "tuned:model.penalty"
    with pytest.raises(UserError, match="no refits of these columns"):
        dgpbench.compare(
            *words, "model.penalty=7", "protocol.train_fraction=0.5", config_dirs=[place], tuned=True
        )


def test_refits_are_found_though_older_configs_lack_later_fields():
    from dgpbench.config.keys import complete
    from dgpbench.report.comparison.compare_runs import refits
    from dgpbench.store.scan import Unit

    words = ["model=sgp", "dataset=energy"]
    chosen = compose(
        [*words, "inference.adam.learning_rate=0.02", "tuned='inference.adam.learning_rate: best'"]
    )
    record = build_record(complete(chosen), key="0" * 64, config_key="0" * 64, status="done")
    assert list(refits(compose(words), [Unit(record, Path("record.json"))])) == [
        "inference.adam.learning_rate: best"
    ]
    assert not refits(compose([*words, "budget.steps=7"]), [Unit(record, Path("record.json"))])


def test_failed_trials_are_counted_and_never_chosen(place):
    study = search((*WORDS, "model.penalty=13,1,0.1"), 5, 0, "random", [place], here)
    assert [trial.status for trial in study.ranked(0)] == ["done", "done", "failed"]
    assert study.best() != ["model.penalty=13"]
    with pytest.raises(UserError, match="no trial has a validation log-likelihood.*unlucky"):
        search((*WORDS, "model.penalty=13,13.0"), 5, 0, "random", [place], here).best()


def test_a_search_goes_on_where_it_stopped(place):
    ran = []

    def counting(plan):
        done = [run_unit(plan.config(index)) for index in range(len(plan.units))]
        ran.append(sum(not before for _, before in done))
        return [unit for unit, _ in done]

    search((*WORDS, PENALTY), 3, 0, "random", [place], counting)
    search((*WORDS, PENALTY), 5, 0, "random", [place], counting)
    assert ran == [3, 2]


def test_optuna_has_the_same_trials_again_and_beats_a_bad_start(place):
    pytest.importorskip("optuna")
    first = search((*WORDS, PENALTY), 14, 0, "optuna", [place], here)
    again = search((*WORDS, PENALTY), 14, 0, "optuna", [place], here)
    assert [t.values for t in first.trials] == [t.values for t in again.trials] and len(first.trials) == 14
    late = [t.score for t in first.trials[10:]]
    assert max(late) >= np.median([t.score for t in first.trials[:10]])


@pytest.mark.slow
def test_the_command_on_its_launcher(place, capsys):
    words = ["tune", *WORDS, "model.penalty=0.1,1,1000", "--config-dir", place, "-q"]
    assert cli.main([*words, "--dry-run"]) == 0
    assert "3 trials on 1 split" in capsys.readouterr().out and not Path("results").exists()
    assert cli.main(words) == 0
    out = capsys.readouterr().out
    assert "split 0: 3 trials, best first" in out and "refit on all training rows" in out
    again = next(line for line in out.splitlines() if line.startswith("again: "))
    assert "model=ridge" in again and "model.penalty=" in again and again.endswith("split=0")
    assert len(scan("results")) == 1 and len(scan("results", trials=True)) == 4


@pytest.mark.parametrize(
    "words, text",
    [
        (["--trials", "0"], "at least one trial"),
        (["--sampler", "optuna", "--dry-run"], "--dry-run is for --sampler random"),
        (["split=99"], "split=99 is out of range"),
        (["model.penlty=1,2"], "unknown key 'model.penlty'"),
    ],
)
def test_bad_words_are_one_line(place, capsys, words, text):
    assert cli.main(["tune", *WORDS, PENALTY, *words, "--config-dir", place]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("dgpbench: error: ") and text in error
