"""Trackers: what a run logs, that it changes nothing else, and the real packages with a local store."""

import importlib.util
import json
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "experiment"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "sweep"))

from csv_units import TINY, config  # noqa: E402
from sweep_tools import environment, write_data  # noqa: E402

from dgpbench import (
    Regressor,  # noqa: E402
    trackers,  # noqa: E402
)
from dgpbench.config import compose, run_key  # noqa: E402
from dgpbench.engine.context import Silent  # noqa: E402
from dgpbench.errors import Interrupted, UserError  # noqa: E402
from dgpbench.experiment import run_unit  # noqa: E402

SGP = ["model=sgp", *TINY]
MINE = '''
"""A tracker that appends a line of JSON to a file for each call, or fails where its settings say so."""

import json


class Mine:
    def __init__(self, settings):
        self.settings = settings

    def start(self, run):
        self.file, self.key = self.settings["file"], run.key
        self.write("start", run.labels["split"], run.resume, run.settings.get("model.name"))
        return "mine-1"

    def log(self, step, metrics):
        self.write("log", step, metrics)

    def artifact(self, path):
        self.write("artifact", path.name, len(path.read_bytes()))

    def finish(self, status, metrics):
        self.write("finish", status, metrics)

    def write(self, what, *rest):
        if what == self.settings["fails"]:
            raise RuntimeError("no https://me:hidden@host with " + self.settings["shown"])
        with open(self.file, "a") as file:
            file.write(json.dumps([what, self.key, *rest]) + "\\n")
'''


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Words that choose a tracker of the user's own, and a reader of what it was told."""
    (tmp_path / "conf" / "tracker").mkdir(parents=True)
    (tmp_path / "my_tracker.py").write_text(MINE)
    path = tmp_path / "told.jsonl"
    lines = ("_target_: my_tracker.Mine", "name: mine", f"file: {path}", "fails: nothing", "shown: text")
    (tmp_path / "conf" / "tracker" / "mine.yaml").write_text("\n".join([*lines, "artifacts: false", ""]))
    monkeypatch.syspath_prepend(str(tmp_path))

    def told():
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    return told


def tracked(folder, *words):
    """The config of `words` with the tracker of `mine`."""
    plain = config(folder, *words)
    section = compose(["tracker=mine"], [folder / "conf"])["tracker"]
    return plain | {"tracker": section}


def test_a_tracker_of_your_own_hears_start_steps_files_and_end_and_changes_nothing(tmp_path, mine):
    (tmp_path / "plain").mkdir()
    plain, _ = run_unit(config(tmp_path / "plain", *SGP))
    cfg = tracked(tmp_path, *SGP)
    cfg["tracker"]["artifacts"] = True
    unit, _ = run_unit(cfg)
    (start, *steps), end = mine()[:-1], mine()[-1]
    assert start == ["start", unit.record["key"], "0", None, "sgp"]
    logged = [entry for entry in steps if entry[0] == "log"]
    assert [(entry[2], entry[3]["bound"]) for entry in logged] == [
        (line[0], line[2]) for line in unit.record["training"]["trace"]
    ]
    sent = [entry[2] for entry in steps if entry[0] == "artifact"]
    assert sent == ["record.json", "predictions.parquet", "draws.parquet", "params.npz"]
    assert end[2] == "done" and end[3] == {k: v for k, v in unit.record["metrics"].items() if v is not None}
    # the same numbers, and no trace of the tracker
    assert unit.record["metrics"] == plain.record["metrics"] and unit.record["notes"] == []
    assert unit.record["files"]["params.npz"] == plain.record["files"]["params.npz"]
    assert unit.record["config"].keys() == plain.record["config"].keys()
    assert "told.jsonl" not in unit.path.read_text()
    assert run_key(cfg, "0" * 64) == run_key({k: v for k, v in cfg.items() if k != "tracker"}, "0" * 64)
    assert not (unit.folder / trackers.IDS).exists()


@pytest.mark.parametrize("where", ["start", "log", "artifact", "finish"])
def test_a_tracker_that_fails_is_dropped_with_one_note_without_secrets(where, tmp_path, mine, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "abcdef123456")
    cfg, said = tracked(tmp_path, *SGP), []
    cfg["tracker"] |= {"fails": where, "shown": "abcdef123456", "artifacts": True}
    reporter = Silent()
    reporter.note = said.append
    unit, _ = run_unit(cfg, reporter=reporter)
    assert unit.record["status"] == "done" and "test_loglik" in unit.record["metrics"]
    (note,) = [text for text in said if "tracker" in text]
    assert note == (
        "tracker=mine failed and is no longer used (RuntimeError: no https://***@host with ***); "
        "the run continues"
    )
    kept = [note] if where in ("start", "log") else []  # the others fail when the record is written
    assert unit.record["notes"] == kept
    assert "hidden" not in unit.path.read_text() and "abcdef" not in unit.path.read_text()


def test_an_interrupted_run_is_resumed_under_its_name_and_a_new_one_is_not(tmp_path, mine):
    class StopAt(Silent):
        def update(self, step, bound, rate, left):
            import os
            import signal

            if step >= 2:
                os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted):
        run_unit(tracked(tmp_path, *SGP, "budget.steps=20"), reporter=StopAt())
    assert mine()[-1][0] == "finish" and mine()[-1][2] == "interrupted"
    unit, _ = run_unit(tracked(tmp_path, *SGP, "budget.steps=20"))
    assert unit.record["status"] == "done" and unit.record["training"]["resumed_from"]
    run_unit(tracked(tmp_path, *SGP, "budget.steps=20"), force=True)
    assert [entry[3] for entry in mine() if entry[0] == "start"] == [None, "mine-1", None]


@pytest.mark.parametrize("content", ['{"mine": "../../x"}', '["mine"]', "{", '{"mine": 5}'])
def test_names_that_a_results_folder_claims_are_not_trusted(content, tmp_path, monkeypatch):
    monkeypatch.setattr(trackers.checkpoint, "key_of", lambda folder: "k")
    (tmp_path / trackers.IDS).write_text('{"mine": "good-1"}')
    assert trackers._known(tmp_path, "k") == {"mine": "good-1"} and trackers._known(tmp_path, "other") == {}
    (tmp_path / trackers.IDS).write_text(content)
    assert trackers._known(tmp_path, "k") == {}


def test_a_failed_run_is_reported_as_failed(tmp_path, mine):
    cfg = tracked(tmp_path, *SGP)
    cfg["dataset"] = cfg["dataset"] | {"target": 99}
    with pytest.raises(UserError):
        run_unit(cfg)
    assert mine() == []  # there was no run yet
    cfg = tracked(tmp_path, *SGP, "inference.batch=1", "inference.adam.learning_rate=1e30")
    unit, _ = run_unit(cfg)
    assert unit.record["status"] != "done" and mine()[-1][2:] == [unit.record["status"], {}]


def test_a_missing_package_is_one_line_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(trackers, "find_spec", lambda name: None)
    for name in ("mlflow", "wandb", "tensorboard"):
        with pytest.raises(UserError, match=re.escape(f"pip install 'dgpbench[{name}]'")):
            run_unit(config(tmp_path, *SGP, f"tracker={name}"))
    with pytest.raises(UserError, match="tensorboard"):
        run_unit(config(tmp_path, *SGP, "engine.tensorboard=true"))
    assert not list(tmp_path.glob("results/*"))


@pytest.mark.parametrize(
    "words",
    [
        ["tracker=mlflow", "tracker.uri=https://me:hidden@host/"],
        ["tracker=mlflow", 'tracker.uri="postgresql://host/db?password=hidden"'],
        ["tracker=wandb", 'tracker.project="token=hidden"'],
    ],
)
def test_secrets_are_refused_and_not_repeated(words):
    with pytest.raises(UserError, match="must not hold a secret") as refused:
        compose(words)
    assert "hidden" not in str(refused.value)


def test_a_field_for_a_secret_is_refused_in_a_tracker_of_your_own(tmp_path, mine):
    path = tmp_path / "conf" / "tracker" / "mine.yaml"
    path.write_text(path.read_text() + "api_key: abc\n")
    with pytest.raises(UserError, match="tracker.api_key must not hold a secret"):
        compose(["tracker=mine"], [tmp_path / "conf"])


def test_what_keeps_no_run_refuses_a_tracker_instead_of_ignoring_it():
    estimator = Regressor("linear", overrides=["tracker=tensorboard"])
    with pytest.raises(UserError, match="tracker=tensorboard logs runs and sweeps only"):
        estimator.fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])


def test_a_class_that_is_no_tracker_is_one_line(tmp_path, mine):
    cfg = tracked(tmp_path, *SGP)
    for target, problem in (
        ("json.JSONDecoder", "lacks start, log, finish"),
        ("no.Such", "cannot be imported"),
    ):
        with pytest.raises(UserError, match=problem):
            run_unit(cfg | {"tracker": cfg["tracker"] | {"_target_": target}})


def dgpbench(folder, *words):
    """The command line in `folder`, with what this process can import."""
    done = subprocess.run(
        [sys.executable, "-m", "dgpbench", *words],
        cwd=folder,
        env=environment(MPLBACKEND="agg", WANDB_MODE="offline", DGPBENCH_CACHE=""),
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return done


def swept(folder, *words):
    """Records by (model, split) of a sweep of two models with two workers."""
    write_data(folder)
    two = ["model=sgp,linear", "split=0,1", "launcher.workers=2", *TINY]
    dgpbench(folder, "sweep", "dataset=csv", "dataset.path=data.csv", *two, *words)
    found = [json.loads(path.read_text()) for path in folder.glob("results/*/*/*/*/record.json")]
    assert len(found) == 4 and all(record["notes"] == [] for record in found)
    return {record["key"]: record for record in found}


@pytest.mark.slow
def test_each_worker_of_a_sweep_logs_its_own_runs(tmp_path, mine):
    found = swept(tmp_path, "tracker=mine", "--config-dir", "conf")
    entries = {}
    for what, key, *rest in mine():
        entries.setdefault(key, []).append((what, *rest))
    assert entries.keys() == found.keys()
    for key, calls in entries.items():
        assert [calls[0][0], calls[-1][:2]] == ["start", ("finish", "done")]
        assert calls[-1][2]["test_loglik"] == found[key]["metrics"]["test_loglik"]


def test_tensorboard_has_bound_settings_and_metrics(tmp_path):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    unit, _ = run_unit(config(tmp_path, *SGP, "engine.tensorboard=true", "tracker=tensorboard"))
    assert len(list((unit.folder / "tensorboard").iterdir())) == 1  # one tracker, named twice
    events = EventAccumulator(str(unit.folder / "tensorboard")).Reload()

    def values(name):
        return [(event.step, make_ndarray(event.tensor_proto).item()) for event in events.Tensors(name)]

    trace = [(line[0], line[2]) for line in unit.record["training"]["trace"]]
    assert [step for step, _ in values("bound")] == [step for step, _ in trace]
    assert [x for _, x in values("bound")] == pytest.approx([x for _, x in trace], rel=1e-5)
    assert values("test_rmse") == [(5, pytest.approx(unit.record["metrics"]["test_rmse"], rel=1e-6))]
    assert "_hparams_/session_start_info" in events.Tags()["tensors"]


needs_mlflow = pytest.mark.skipif(
    importlib.util.find_spec("mlflow") is None, reason="MLflow is not installed: `make test-trackers`"
)
needs_wandb = pytest.mark.skipif(
    importlib.util.find_spec("wandb") is None, reason="wandb is not installed: `make test-trackers`"
)


@pytest.mark.slow
@needs_mlflow
def test_mlflow_in_a_new_local_store_has_each_run_of_a_sweep(tmp_path):
    from mlflow import MlflowClient

    found = swept(tmp_path, "tracker=mlflow", "tracker.artifacts=true")
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("dgpbench")
    runs = {run.data.tags["dgpbench.key"]: run for run in client.search_runs([experiment.experiment_id])}
    assert runs.keys() == found.keys()
    for key, run in runs.items():
        record = found[key]
        assert run.info.status == "FINISHED" and run.data.tags["dgpbench.status"] == "done"
        assert run.data.params["model.name"] == record["model"] and run.data.params["seed"] == "0"
        assert run.data.metrics["test_loglik"] == record["metrics"]["test_loglik"]
        history = client.get_metric_history(run.info.run_id, "bound")
        trace = [tuple(line[:3:2]) for line in record["training"].get("trace", [])]
        assert [(point.step, point.value) for point in history] == trace
        sent = {file.path.split("/")[-1] for file in client.list_artifacts(run.info.run_id)}
        assert sent == {"record.json", *record["files"]}


@pytest.mark.slow
@needs_mlflow
def test_mlflow_resumes_its_run_and_a_dead_server_is_one_note(tmp_path):
    import mlflow

    store = f"sqlite:///{tmp_path / 'm.db'}"
    settings = compose(["tracker=mlflow", f"tracker.uri={store}"])["tracker"]
    labels = dict(dataset="d", model="m", inference="i", protocol="p", split="0", seed="0")
    first = trackers.MLflow(settings)
    name = first.start(trackers.TrackedRun("k", labels, {"a": 1}, tmp_path))
    first.log(3, {"bound": 1.0})
    first.finish("interrupted", {})
    assert mlflow.MlflowClient(store).get_run(name).info.status == "KILLED"
    again = trackers.MLflow(settings)
    assert again.start(trackers.TrackedRun("k", labels, {"a": 1}, tmp_path, resume=name)) == name
    again.log(6, {"bound": 2.0})
    again.finish("done", {"test_rmse": 0.5})
    run = mlflow.MlflowClient(store).get_run(name)
    assert run.info.status == "FINISHED" and run.data.metrics == {"bound": 2.0, "test_rmse": 0.5}
    gone = trackers.MLflow(settings)
    assert gone.start(trackers.TrackedRun("k", labels, {}, tmp_path, resume="0" * 32)) not in (name, "0" * 32)

    unit, _ = run_unit(config(tmp_path, "model=linear", "tracker=mlflow", "tracker.uri=http://127.0.0.1:9"))
    (note,) = unit.record["notes"]
    assert unit.record["status"] == "done" and note.startswith("tracker=mlflow failed and is no longer used")


@pytest.mark.slow
@needs_wandb
def test_wandb_offline_has_each_run_of_a_sweep(tmp_path):
    found = swept(tmp_path, "tracker=wandb", "tracker.mode=offline", "tracker.artifacts=true")
    files = list(tmp_path.glob("wandb/offline-run-*/*.wandb"))
    assert len(files) == 4
    keys = set()
    for path in files:
        run, history, summary, code = wandb_run(path)
        record = found[json.loads(run["dgpbench.key"])]
        keys.add(record["key"])
        assert json.loads(run["model.name"]) == record["model"] and code == 0
        trace = [tuple(line[:3:2]) for line in record["training"].get("trace", [])]
        assert [(json.loads(h["step"]), json.loads(h["bound"])) for h in history] == trace
        assert json.loads(summary["test_loglik"]) == record["metrics"]["test_loglik"]
        assert {p.name for p in (path.parent / "files").iterdir()} >= {"record.json", *record["files"]}
    assert keys == found.keys()


@pytest.mark.slow
@needs_wandb
def test_wandb_online_without_a_key_is_one_note_and_no_question(tmp_path, monkeypatch):
    for name in ("WANDB_API_KEY", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    unit, _ = run_unit(config(tmp_path, "model=linear", "tracker=wandb"))
    (note,) = unit.record["notes"]
    assert unit.record["status"] == "done" and "set WANDB_API_KEY, or use tracker.mode=offline" in note


def wandb_run(path):
    """Config, history, summary and exit code in W&B's file of an offline run."""
    from wandb.proto import wandb_internal_pb2 as messages

    def items(found):
        return {item.key or "/".join(item.nested_key): item.value_json for item in found}

    run, history, summary, code = {}, [], {}, None
    for content in leveldb_log(path.read_bytes()[7:], skipped=7):
        record = messages.Record.FromString(content)
        kind = record.WhichOneof("record_type")
        if kind == "run":
            run |= items(record.run.config.update)
        elif kind == "history":
            history.append(items(record.history.item))
        elif kind == "summary":
            summary |= items(record.summary.update)
        elif kind == "exit":
            code = record.exit.exit_code
    return run, history, summary, code


def leveldb_log(data, skipped):
    """Contents of a log in LevelDB's format, whose first block lacks `skipped` bytes."""
    at, whole = 0, b""
    while at + 7 <= len(data):
        if (left := 32768 - (at + skipped) % 32768) < 7:
            at += left
            continue
        _, size, kind = struct.unpack("<IHB", data[at : at + 7])
        whole, at = whole + data[at + 7 : at + 7 + size], at + 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield whole
            whole = b""
