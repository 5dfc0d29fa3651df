"""`import dgpbench`: fast, and runs, results and predictions like those of the command line."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from own_files import regression, write_csv, write_ridge
from scipy.stats import norm

import dgpbench
from dgpbench.data import load_split
from dgpbench.store import read
from dgpbench.store.scan import Unit
from dgpbench.store.write import write_unit

ROOT = Path(__file__).resolve().parents[2]
CSV = ("dataset=csv", "dataset.path=own.csv")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("DGPBENCH_RESULTS", "DGPBENCH_DATASETS", "DGPBENCH_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_import_loads_nothing_heavy():
    code = (
        "import sys, dgpbench; assert 'Regressor' in dir(dgpbench) and dgpbench.UserError;"
        "print([m for m in ('numpy', 'pandas', 'tensorflow', 'hydra', 'sklearn') if m in sys.modules])"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
    with pytest.raises(AttributeError, match="no attribute 'regressor'"):
        dgpbench.regressor  # noqa: B018


def test_a_loaded_run_predicts_what_its_record_holds_without_its_data(place):
    columns = regression()
    write_csv(place / "own.csv", columns)
    run = dgpbench.run(*CSV, "dataset.target=y", "dataset.drop=[z]", "model=linear")
    assert run.status == "done" and run.metrics == run.record["metrics"] and run.key in repr(run.record)
    held = read.predictions(run)
    X = np.stack([columns[name] for name in "abc"], 1)[held["row"]]
    shutil.rmtree(place / "datasets")
    (place / "own.csv").unlink()
    for way in (run, run.folder, run.path, run.key[:8]):
        found = dgpbench.load(way).predict(X, (0.05, 0.5, 0.95))
        np.testing.assert_allclose(found.mean, held["mean"], rtol=1e-12)
        np.testing.assert_allclose(found.sd, held["sd"], rtol=1e-12)
        np.testing.assert_allclose(found.quantiles[:, 2], held["q95"], rtol=1e-6)
    assert list(found.frame().columns) == ["mean", "sd", "q5", "q50", "q95"]
    assert found.mean.shape == (len(X),) and found.frame().shape == (len(X), 5)
    for wrong, words in ((X[:, :2], r"\(N, 3\)"), (X * np.nan, "input 0 of row 0 is nan")):
        with pytest.raises(dgpbench.UserError, match=words):
            dgpbench.load(run).predict(wrong)


def test_several_outputs_and_gaussian_quantiles(place):
    columns = regression()
    write_csv(place / "own.csv", columns)
    run = dgpbench.run(*CSV, "dataset.target=[y,z]", "model=linear")
    X = np.stack([columns[name] for name in "abc"], 1)
    found = dgpbench.load(run).predict(X, (0.1, 0.9))
    assert found.mean.shape == (60, 2) and found.quantiles.shape == (60, 2, 2)
    expected = norm.ppf(0.9, found.mean, found.sd)
    np.testing.assert_allclose(found.quantiles[:, :, 1], expected, rtol=1e-9)
    assert list(found.columns()) == ["mean_0", "sd_0", "q10_0", "q90_0", "mean_1", "sd_1", "q10_1", "q90_1"]
    assert np.corrcoef(found.mean[:, 1], columns["z"])[0, 1] > 0.99  # the order of the outputs


def test_large_mixtures_have_the_quantiles_of_their_draws(place):
    """More components than have exact quantiles in an evaluation: the draws of the evaluation again."""
    write_csv(place / "own.csv", regression(300))
    run = dgpbench.run(*CSV, "dataset.target=y", "model=ckde", "protocol.draws=50")
    assert "predictions need training rows: params.npz keeps them, 0.0 MB" in run.record["notes"]
    held, split = read.predictions(run), load_split(run.config)
    found = dgpbench.load(run).predict(np.asarray(split.X)[split.rows_test], (0.25,))
    np.testing.assert_allclose(found.quantiles[:, 0], held["q25"], rtol=1e-5)


def test_classes_come_with_their_labels(place):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(2, 90))
    labels = np.where(x[0] > 0.5, "red", np.where(x[1] > 0, "green", "blue"))
    write_csv(place / "own.csv", {"u": x[0], "v": x[1], "colour": labels})
    run = dgpbench.run(*CSV, "dataset.target=colour", "dataset.task=auto", "model=logistic")
    held, split = read.predictions(run), load_split(run.config)
    found = dgpbench.load(run).predict(np.asarray(split.X)[split.rows_test])
    assert found.classes == ("blue", "green", "red")
    np.testing.assert_allclose(found.probs[:, 2], held["p_2"], rtol=1e-6)
    assert list(found.columns()) == ["class", "p_blue", "p_green", "p_red"]
    with pytest.raises(ValueError, match="no mean in a prediction of this task; it has probs"):
        found.mean  # noqa: B018
    assert set(found.labels) <= {"blue", "green", "red"}
    np.testing.assert_allclose(found.probs.sum(1), 1.0)
    right = found.labels == labels[split.rows_test]
    assert np.mean(right) == pytest.approx(run.metrics["test_accuracy"])


def test_a_run_from_before_the_scaling_was_stored(place):
    columns = regression()
    write_csv(place / "own.csv", columns)
    run = dgpbench.run(*CSV, "dataset.target=y", "model=linear")
    X = np.stack([columns[name] for name in ("a", "b", "c", "z")], 1)
    expected = dgpbench.load(run).predict(X)
    assert set(read.arrays(run)) > set(read.parameters(run)) >= {"weights", "covariance"}
    old = write_unit("results", {**run.record, "files": {}}, params=read.parameters(run), force=True)
    found = dgpbench.load(old).predict(X)
    np.testing.assert_array_equal(found.mean, expected.mean)
    np.testing.assert_array_equal(found.quantiles, expected.quantiles)


def test_a_failing_model_raises_and_is_recorded(place):
    write_csv(place / "own.csv", regression())
    folders = [write_ridge(place)]
    words = (*CSV, "dataset.target=y", "model=ridge", "model.penalty=13")
    with pytest.raises(dgpbench.RunFailed, match="run failed: ZeroDivisionError: unlucky") as caught:
        dgpbench.run(*words, config_dirs=folders)
    assert caught.value.run.status == "failed" and caught.value.run.path.is_file()
    kept = dgpbench.run(*words, config_dirs=folders, check=False)
    assert kept.status == "failed"
    with pytest.raises(dgpbench.UserError, match="is failed .ZeroDivisionError.*run it again"):
        dgpbench.load(kept.folder)


@pytest.mark.parametrize(
    "given, words",
    [
        ("nowhere", "no run nowhere; give a run's folder"),
        ("abcd1234", "no run in results has a key that begins with abcd1234"),
        (".", "holds no record.json"),
    ],
)
def test_what_names_no_run_is_refused(place, given, words):
    with pytest.raises(dgpbench.UserError, match=words):
        dgpbench.load(given)


def test_results_have_one_row_per_record_with_metrics_and_config(place):
    write_csv(place / "own.csv", regression())
    folders = [write_ridge(place)]
    for penalty in ("0.1", "10", "13"):
        words = (*CSV, "dataset.target=y", "model=ridge", f"model.penalty={penalty}")
        dgpbench.run(*words, config_dirs=folders, check=False)
    table = dgpbench.results("model=ridge").sort_values("model.penalty")
    assert list(table["model.penalty"]) == [0.1, 10, 13] and list(table.status) == ["done", "done", "failed"]
    assert table["test_loglik"].notna().tolist() == [True, True, False]
    assert (table["dataset.target"] == "y").all() and (table.n_train == 54).sum() == 3
    assert not [name for name in table if name.startswith(("paths.", "dataset.sources", "dataset.citation"))]
    assert len(dgpbench.results("model.penalty=10")) == 1 and len(dgpbench.results("model=none")) == 0
    assert Path(table.path.iloc[0]).is_file()
    with pytest.raises(dgpbench.UserError, match="no results folder"):
        dgpbench.results(folder="elsewhere")


def test_sweep_runs_units_and_returns_them(place):
    """The name of a package that can be called, whatever was imported before."""
    import dgpbench.sweep.plan  # noqa: F401

    write_csv(place / "own.csv", regression())
    table = dgpbench.sweep(*CSV, "dataset.target=y,z", "model=linear", "split=0,1")
    assert table.shape[0] == 4 and set(table.status) == {"done"} and set(table.split) == {0, 1}
    assert len(dgpbench.results()) == 4
    with pytest.raises(dgpbench.UserError, match="retry='never' is not allowed"):
        dgpbench.sweep("model=linear", retry="never")


def test_load_takes_a_unit_as_sweeps_and_scans_have_it(place):
    write_csv(place / "own.csv", regression())
    run = dgpbench.run(*CSV, "dataset.target=y", "model=linear")
    assert dgpbench.load(Unit(run.record, run.path)).config == run.config


@pytest.mark.slow
def test_compare_is_the_mean_of_the_records(place):
    write_csv(place / "own.csv", regression())
    words = (*CSV, "dataset.target=y", "model=linear,knn", "split=0,1")
    found = dgpbench.compare(*words, metric="test_rmse", run=True)
    table = found.frame().set_index("column")
    for model, group in dgpbench.results().groupby("model"):
        assert table.loc[model, "mean"] == pytest.approx(group.test_rmse.mean(), rel=1e-12)
        assert table.loc[model, "se"] == pytest.approx(
            group.test_rmse.std() * np.sqrt(1 / 2 + 1 / 9), rel=1e-12
        )
    assert (table.done == 2).all() and (table.failed == 0).all()
    assert "linear" in found.text("markdown") and "toprule" in found.text("latex")
    with pytest.raises(dgpbench.UserError, match="no format 'pdf'"):
        found.text("pdf")
