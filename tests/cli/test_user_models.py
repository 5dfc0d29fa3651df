"""A user's model: its trial before the first run, and what is recorded of one that breaks its contract."""

import json
import time
from pathlib import Path

import pytest
from cli_process import dgpbench

from dgpbench.config import compose
from dgpbench.store.scan import scan
from dgpbench.sweep import trial

MODELS = """
import os
import sys
import time

import numpy as np

from dgpbench.evaluate.predictive import Predictive


class Good:
    def __init__(self, cfg):
        self.cfg = cfg

    def fit(self, split, run):
        print("training")
        self.values = {"mean": split.Y_train.mean(0), "rows": np.array(len(split.X_train))}

    def predict(self, X, samples, seed):
        mean = np.broadcast_to(self.values["mean"], (1, len(X), 1))
        return Predictive(mean=mean, var=np.ones_like(mean))

    def parameters(self):
        return self.values

    def load_parameters(self, values):
        self.values = values


class Flat(Good):
    def predict(self, X, samples, seed):  # flat
        return np.zeros(len(X))


class OneRow(Good):
    def predict(self, X, samples, seed):  # one row
        mean = np.zeros((1, max(len(X), 2), 1))
        return Predictive(mean=mean, var=np.ones_like(mean))


class NotFinite(Good):
    def predict(self, X, samples, seed):  # nan
        mean = np.full((1, len(X), 1), np.nan)
        return Predictive(mean=mean, var=np.ones_like(mean))


class Density(Good):
    def log_density(self, X, Y, samples, seed):  # density
        return np.zeros(len(X))


class Raises(Good):
    def fit(self, split, run):
        return 1 / 0  # raises


class OsExit(Good):
    def fit(self, split, run):  # os exit
        os._exit(0)


class SysExit(Good):
    def fit(self, split, run):
        sys.exit(0)  # sys exit


class Lists(Good):
    def parameters(self):  # lists
        return [1.0]


class Forgets(Good):
    def load_parameters(self, values):  # forgets
        self.values = {"mean": np.zeros(1) + 7.0}


class NoPredict:  # no predict
    def __init__(self, cfg):
        pass

    def fit(self, split, run):
        pass


class Slow(Good):
    def fit(self, split, run):
        time.sleep(self.cfg["model"]["seconds"])
        super().fit(split, run)


class ManyRows(Good):
    def fit(self, split, run):
        if len(split.X_train) < 100:
            raise ValueError("n_samples should be at least n_clusters")
        super().fit(split, run)


class Unseeded(Good):
    def predict(self, X, samples, seed):
        return Predictive(mean=np.random.randn(1, len(X), 1), var=np.ones((1, len(X), 1)))


class Both(Good):
    tasks = ("regression", "binary")

    def predict(self, X, samples, seed):  # both
        return super().predict(X, samples, seed)


class Large(Good):
    def fit(self, split, run):
        super().fit(split, run)
        return {"history": [0.1234567890123] * (6_000_000 if len(split.X_train) > 30 else 1), "loss": 3.0}


class Deep(Good):
    def fit(self, split, run):
        super().fit(split, run)
        deep = []
        for _ in range(50):
            deep = [deep]
        return {"deep": deep}
"""
NAMES = [
    line.split()[1].partition("(")[0].rstrip(":") for line in MODELS.splitlines() if line[:6] == "class "
]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("user")
    (folder / "mine.py").write_text(MODELS)
    (folder / "model").mkdir()
    for name in NAMES:
        text = f"_target_: mine.{name}\nname: {name.lower()}\nclosed_form: true\nseconds: 0.0\n"
        (folder / "model" / f"{name.lower()}.yaml").write_text(text)
    rows = [f"{i % 7},{i % 5},{(i * i) % 11}.5" for i in range(40)]
    (folder / "data.csv").write_text("a,b,y\n" + "\n".join(rows) + "\n")
    return folder


DATA = ("dataset=csv", "dataset.path=data.csv", "dataset.target=y")


def line_of(mark: str) -> int:
    (number,) = (i for i, line in enumerate(MODELS.splitlines(), 1) if line.endswith(f"# {mark}"))
    return number


def found(place, monkeypatch, name: str, *words: str, **options) -> list[trial.Finding]:
    monkeypatch.chdir(place)
    options = {"made_up": True} | options
    return list(trial.findings(compose([f"model={name}", *words], [place]), **options))


BROKEN = {  # model -> step, mark of the line, text
    "flat": ("predict", "flat", "predict returned an array of shape (20,), expected Predictive(mean=, var=)"),
    "onerow": ("predict", "one row", "predict returned shape (1, 2, 1), expected (S, 1, 1)"),
    "notfinite": ("predict", "nan", "predictive mean is not finite in 20 of 20 entries"),
    "density": ("log_density", "density", "log_density returned shape (20,), expected (S, 20)"),
    "raises": ("fit", "raises", "fit raised ZeroDivisionError: division by zero"),
    "osexit": ("fit", "os exit", "fit ended the process with exit code 0"),
    "sysexit": ("fit", "sys exit", "fit called sys.exit(0)"),
    "lists": ("store", "lists", "parameters returned a list, expected a mapping of names to arrays"),
    "forgets": ("store", "forgets", "predict gives other numbers than before"),
    "nopredict": ("build", "no predict", "lacks predict, parameters, load_parameters"),
    "both": ("predict", "both", "predict returned numbers (mixture), expected Predictive(probs=)"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_model_is_found_with_file_line_and_what_was_expected(place, monkeypatch, name):
    step, mark, text = BROKEN[name]
    last = found(place, monkeypatch, name)[-1]
    assert (last.status, last.step) == ("BROKEN", step)
    assert last.text.startswith(f"mine.py:{line_of(mark)}: ") and text in last.text


def test_a_good_model_passes_all_steps_in_less_than_ten_seconds(place, monkeypatch):
    began = time.monotonic()
    findings = found(place, monkeypatch, "good")
    assert time.monotonic() - began < 10
    assert [f.step for f in findings] == ["import", "build", "fit", "predict", "metrics", "store", "tasks"]
    assert {f.status for f in findings[:-1]} == {"ok"}
    assert 'declare tasks = ("regression",)' in findings[-1].text


def test_what_is_no_error_is_noted(place, monkeypatch):
    many = found(place, monkeypatch, "manyrows")
    assert many[-2][:2] == ("note", "fit") and "needs more than 20 rows" in many[-2].text
    few = found(place, monkeypatch, "manyrows", *DATA, made_up=False)  # 36 rows are all there are
    assert few[-1].status == "BROKEN" and "n_clusters" in few[-1].text
    unseeded = found(place, monkeypatch, "unseeded", *DATA, made_up=False)
    assert [f.step for f in unseeded if f.status == "note"] == ["predict"]
    assert "two calls of predict with one seed differ" in " ".join(f.text for f in unseeded)


def test_a_slow_model_is_stopped_and_noted(place, monkeypatch):
    monkeypatch.setattr(trial, "LIMIT", 1.0)
    last = found(place, monkeypatch, "slow", "model.seconds=60")[-1]
    assert (last.status, last.step) == ("note", "fit") and "fit was stopped after 1 s" in last.text


def test_the_command(place):
    good = dgpbench("check", "--config-dir", ".", "model=good", *DATA, cwd=place)
    assert good.returncode == 0 and good.stdout.splitlines()[-1] == "model=good: no error found"
    assert "training" not in good.stdout + good.stderr  # what the model prints
    bad = dgpbench("check", "--config-dir", ".", "model=flat", cwd=place)
    assert bad.returncode == 1 and bad.stdout.splitlines()[-1] == "model=flat is broken"
    assert not (place / "results").exists()
    none = dgpbench("check", cwd=place)
    assert none.returncode == 2 and "name what to check" in none.stderr


def run(place, tmp_path, *words: str):
    """`dgpbench run`, and the one record that it leaves."""
    done = dgpbench(
        *("run", "--config-dir", ".", *DATA, *words, f"paths.results={tmp_path / 'results'}"), cwd=place
    )
    records = [unit.record for unit in scan(tmp_path / "results", reference=False)]
    return done, records[0] if records else None


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("name", ["osexit", "sysexit", "density"])
def test_a_run_of_a_broken_model_fails_and_is_recorded(place, tmp_path, name, check):
    done, record = run(place, tmp_path, f"model={name}", *([] if check else ["--no-check"]))
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert record["status"] == "failed" and record["reason"] in done.stderr
    says = {"osexit": "exit code 0", "sysexit": "sys.exit(0)", "density": "expected (S,"}[name]
    assert says in record["reason"]
    assert ("found on 20 rows before training" in record["reason"]) == check
    if name == "density":
        assert record["reason"].startswith(f"mine.py:{line_of('density')}: log_density returned shape")


def test_a_run_of_a_good_model_says_one_line_about_its_check(place, tmp_path):
    done, record = run(place, tmp_path, "model=good")
    assert done.returncode == 0 and record["status"] == "done"
    assert done.stderr.count("check of model=good") == 1 and "passed on 20 rows" in done.stderr
    assert record["notes"] == []
    again, _ = run(place, tmp_path, "model=good")
    assert again.returncode == 0 and "passed on 20 rows" not in again.stderr  # nothing is trained


@pytest.mark.parametrize("words", [["sweep"], ["compare", "--run"], ["sweep", "--dry-run"]])
def test_nothing_runs_where_one_model_of_several_is_broken(place, tmp_path, words):
    broken = "nopredict" if "--dry-run" in words else "flat"
    paths = f"paths.results={tmp_path / 'results'}"
    options = ("--config-dir", ".", f"model=linear,good,{broken}", *DATA, "split=0,1", paths)
    done = dgpbench(*words, *options, cwd=place)
    assert done.returncode == 2, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"dgpbench: error: model={broken} is broken, so nothing was run: mine.py:")
    assert scan(tmp_path / "results", reference=False) == []


def test_built_in_models_are_not_tried(tmp_path, monkeypatch):
    from dgpbench.sweep.planner import make_plan

    monkeypatch.setattr(trial, "findings", lambda *a, **k: pytest.fail("tried"))
    words = ["model=linear,knn", "dataset=step", f"paths.datasets={tmp_path}", f"paths.results={tmp_path}"]
    plan = make_plan(words, fetch=True, note=lambda text: None)
    trial.check_models(plan, range(len(plan.units)), lambda text: None)


@pytest.mark.slow
def test_a_users_inference_method_is_tried(tmp_path, monkeypatch):
    (tmp_path / "theirs.py").write_text(
        "from dgpbench.inference.variational import Variational\n\n\nclass Theirs(Variational):\n"
        "    def update(self, bound):\n        raise ValueError('no update')\n"
    )
    base = compose(["inference=dsvi", "model=sgp"])["inference"]
    (tmp_path / "inference").mkdir()
    (tmp_path / "inference" / "theirs.yaml").write_text(
        json.dumps(base | {"_target_": "theirs.Theirs", "name": "theirs"})
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    cfg = compose(["inference=theirs", "model=sgp"], [tmp_path])
    last = list(trial.findings(cfg, made_up=True))[-1]
    assert last.status == "BROKEN" and last.text.startswith("theirs.py:6: fit raised ValueError: no update")
    assert trial.label(cfg) == "inference=theirs"


@pytest.mark.parametrize("name, reason", [("large", "the record has "), ("deep", "nested too deeply")])
def test_what_no_record_can_hold_fails_the_run_and_keeps_its_results(place, tmp_path, name, reason):
    done, record = run(place, tmp_path, f"model={name}", "--no-check")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert record["status"] == "failed" and reason in record["reason"]
    if name == "large":
        assert "most of it in 'training'" in record["reason"] and "return less from fit" in record["reason"]
        assert record["training"] == {"loss": 3.0}
    assert record["metrics"]["test_rmse"] > 0
    assert set(record["files"]) == {"predictions.parquet", "draws.parquet", "params.npz"}


def test_a_file_too_large_to_be_read_back_fails_the_run(place, tmp_path, monkeypatch):
    from dgpbench.experiment import run_unit
    from dgpbench.store import write as disk

    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.setattr(disk, "MAX_FILE", 10_000)
    cfg = compose(["model=good", *DATA, f"paths.results={tmp_path}"], [place])
    record = run_unit(cfg)[0].record
    assert record["status"] == "failed" and record["files"] == {}
    assert "can be read back; store fewer or smaller arrays" in record["reason"]


@pytest.mark.parametrize("value", [".nan", ".inf", "[1, .nan]", "{a: .inf}", "!!binary aGk="])
def test_values_that_no_record_can_hold_are_refused(tmp_path, value, capsys):
    from dgpbench import cli

    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "odd.yaml").write_text(f"_target_: mine.Good\nname: odd\nkind: {value}\n")
    assert cli.main(["run", "--config-dir", str(tmp_path), "model=odd", "dataset=step"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "model.kind" in line and ("give a finite number" in line or "give text, a number" in line)
