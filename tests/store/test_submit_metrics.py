"""Records of others with predictions and with classes: what predictions and rows say against them."""

import copy
import gzip
import math

import numpy as np
import pytest
from offered import SCALE, honest, keyed, packed

from dgpbench.config import compose
from dgpbench.evaluate.metrics import pit_histogram
from dgpbench.store.record import build_record, dumps_line
from dgpbench.store.reference import publish
from dgpbench.store.scan import RECOMPUTED
from dgpbench.store.submit import check
from dgpbench.store.verify import recompute
from dgpbench.store.write import write_unit


def predictions():
    """Of 51 rows of boston."""
    y = 20 + np.sin(np.arange(51.0))
    return {
        "row": np.arange(51),
        "output": np.zeros(51, dtype=np.int16),
        "y": y,
        "mean": y + 2.9 * np.cos(np.arange(51.0)),
        "log_density": -2.4 + 0.1 * np.sin(np.arange(51.0)),
        "shapiro_w": np.full(51, 0.99),
        "pit": (np.arange(51) + 0.5) / 51,
    }


def with_predictions():
    record = honest()
    record["metrics"] |= recompute(predictions())
    found = record["metrics"]
    found["test_loglik_std"] = found["test_loglik"] + SCALE
    found["test_rmse_std"] = found["test_rmse"] / math.exp(SCALE)
    record["details"] = {"pit_histogram": pit_histogram(predictions()["pit"])}
    return record


def stored(results, record, columns=None):
    write_unit(results, record, predictions=columns or predictions(), params={"a": np.ones(2)})
    return results


def test_metrics_that_follow_from_predictions_are_said_to(tmp_path):
    (unit,), refused = check(stored(tmp_path / "results", with_predictions()), [])
    assert not refused and unit.is_recomputed and unit.record["notes"] == [RECOMPUTED]
    path = tmp_path / "community/lab.jsonl.gz"
    publish([unit], path)
    again, refused = check(path, [])  # without predictions nobody can say so
    assert not refused and not again[0].is_recomputed and again[0].record["notes"] == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"metrics": {"test_loglik": -1.7, "test_loglik_std": -1.7 + SCALE}}, "test_loglik is -1.7, but"),
        ({"metrics": {"test_pit_ks": 0.03}}, "test_pit_ks is 0.03, but"),
        ({"finished": "1926-11-16T11:29:00+00:00"}, "it finished in 1926"),
        (
            {"deviations": ["budget.steps=1 (experiment: 20000)"]},
            "said to deviate by budget.steps=1, which is",
        ),
        ({"metrics": {"test_skill": 1.0}}, "there is no metric test_skill"),
        ({"sizes": {"n_test": 1}}, "it was tested on 1 rows, and its protocol gives 51"),
    ],
)
def test_forgeries_beside_genuine_predictions(tmp_path, change, reason):
    record = with_predictions()
    for name, value in change.items():
        record[name] = {**record[name], **value} if isinstance(value, dict) else value
    taken, (refusal,) = check(stored(tmp_path / "results", record), [])
    assert not taken and reason in refusal.reason


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"log_density": None}, "predictions.parquet has no log_density"),
        ({"row": None, "shapiro_w": None}, "predictions.parquet has no row, shapiro_w"),
        ({"squared_error": np.full(51, 1e-4)}, "has squared_error, which is none of regression"),
        ({"mean": np.full(51, np.inf)}, "test_rmse is 0.01, but predictions.parquet gives inf"),
        ({"row": np.arange(51) - 60}, "row of predictions.parquet holds what is no row number"),
        ({"row": np.arange(51) + 0.5}, "row of predictions.parquet holds what is no row number"),
    ],
)
def test_columns_that_keep_metrics_from_being_recomputed(tmp_path, changed, reason):
    """An RMSE of 0.01 was taken, as recomputed, beside a squared_error or a mean that is infinite."""
    record = with_predictions()
    columns = {name: v for name, v in {**predictions(), **changed}.items() if v is not None}
    if "squared_error" in columns or np.isinf(columns["mean"]).any():
        record["metrics"] |= {"test_rmse": 0.01, "test_rmse_std": 0.01 / math.exp(SCALE)}
        record["metrics"] |= {"test_crps": 0.01, "test_crps_std": 0.01 / math.exp(SCALE)}
    taken, (refusal,) = check(stored(tmp_path / "results", record, columns), [])
    assert not taken and reason in refusal.reason


def test_predictions_are_read_without_threads(tmp_path, monkeypatch):
    """Threads of pyarrow that were still ending with the command aborted it, in half of the calls."""
    import pyarrow.parquet as pq

    read, said = pq.ParquetFile.read, []
    monkeypatch.setattr(pq.ParquetFile, "read", lambda self, **how: said.append(how) or read(self, **how))
    check(stored(tmp_path / "results", with_predictions()), [])
    assert said and all(how == {"use_threads": False} for how in said)


def test_predictions_of_other_rows_are_refused(tmp_path):
    """Where the protocol does not tell how many rows there are, the predictions do."""
    record = with_predictions()
    record["config"]["protocol"]["max_test"] = 50
    record = keyed(record)
    record["sizes"]["n_test"] = 50
    record["metrics"]["test_coverage95"] = 0.94
    record["details"] = {"pit_histogram": [0.1] * 10}
    _, (refusal,) = check(stored(tmp_path / "results", record), [])
    assert "sizes.n_test is 50, but predictions.parquet has 51 rows, 51 of them different" in refusal.reason


def test_deviations_are_those_of_the_config(tmp_path):
    """Fewer steps than the experiment has, and nothing said of it."""
    record = copy.deepcopy(honest())
    record["config"]["budget"]["steps"] = record["training"]["steps"] = 10_000
    record["steps_per_second"] = 100.0
    (unit,), refused = check(packed(tmp_path / "x.jsonl.gz", keyed(record)), [])
    assert not refused and unit.record["deviations"] == ["budget.steps=10000 (experiment: 20000)"]


def test_metrics_of_validation_rows_are_known_where_there_are_such_rows(tmp_path):
    record = honest()
    record["metrics"]["valid_loglik"] = -2.3
    held = copy.deepcopy(record)
    held["config"]["protocol"]["validation"] = 0.1
    held["sizes"]["n_train"] = 409
    taken, (refusal,) = check(packed(tmp_path / "x.jsonl.gz", record, keyed(held)), [])
    assert len(taken) == 1 and refusal.reason == "there is no metric valid_loglik"


@pytest.mark.parametrize(("scale", "fits"), [(0.0, True), (SCALE, False)])
def test_targets_that_are_not_scaled_have_one_unit(tmp_path, scale, fits):
    cfg = compose(["model=linear", "dataset=boston", "protocol=ustyuzhaninov2020", "threads=1"])
    names = {"experiment": None, "model": "linear", "inference": "exact", "protocol": "ustyuzhaninov2020"}
    record = {**honest(), **names, "config": cfg, "training": {}, "steps_per_second": None}
    for name in ("test_loglik", "test_loglik_kde"):
        record["metrics"][f"{name}_std"] = record["metrics"][name] + scale
    for name in ("test_rmse", "test_crps"):
        record["metrics"][f"{name}_std"] = record["metrics"][name] / math.exp(scale)
    taken, refused = check(packed(tmp_path / "x.jsonl.gz", keyed(record)), [])
    assert bool(taken) == fits and (fits or "another deviation of the targets" in refused[0].reason)


def test_predictions_of_counts_have_no_distance_from_a_gaussian():
    counts = predictions()
    del counts["shapiro_w"]
    assert "shapiro_w_median" not in recompute(counts) and recompute(counts)["test_rmse"] > 0


def of_classes():
    cfg = compose(["model=sgp", "dataset=banana", "protocol=clean", "threads=1", "budget.steps=1000"])
    n = cfg["dataset"]["n"]
    train, test = int(0.9 * n), n - int(0.9 * n)
    wrong = test // 10
    right = test - wrong
    bins = {name: [None] * 14 + [value] for name, value in (("confidence", 0.95), ("accuracy", right / test))}
    bins["count"] = [0] * 14 + [test]
    metrics = {"test_loglik": -0.3, "test_accuracy": right / test, "test_error": wrong / test}
    metrics |= {"test_auc": 0.95, "test_brier": 0.08, "test_ece": abs(0.95 - right / test)}
    steps = cfg["budget"]["steps"]
    record = build_record(
        cfg,
        key="0" * 64,
        config_key="0" * 64,
        status="done",
        metrics=metrics,
        details={"reliability": bins, "classes": ["-1", "1"]},
        data_hash=cfg["dataset"]["data_sha256"],
        sizes={"n_train": train, "n_test": test, "inputs": 2, "outputs": 1, "classes": 2},
        training={"steps": steps, "seconds": 10.0},
        wall_seconds=12.0,
        steps_per_second=steps / 10.0,
        threads=1,
    )
    return keyed(record)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({}, None),
        ({"test_loglik": 0.1}, "a wrong row has at most probability 1/2"),
        ({"test_loglik": -0.1, "test_brier": 0.06}, "test_loglik is -0.1, too high for test_brier 0.06"),
        ({"test_brier": 0.01}, "test_brier is 0.01, too low for test_error 0.1"),
        ({"test_ece": 0.001}, "test_ece is 0.001, and details.reliability gives 0.05"),
        ({"test_accuracy": 1.0, "test_error": 0.0}, "test_accuracy is 1, and details.reliability gives 0.9"),
        ({"test_accuracy": 0.9123}, "are no two shares of 530 test rows"),
        ({"test_error": None}, "it has no test_error"),
    ],
)
def test_metrics_of_classes_are_of_the_same_rows(tmp_path, changed, reason):
    record = of_classes()
    record["metrics"] |= changed
    taken, refused = check(packed(tmp_path / "x.jsonl.gz", record), [])
    assert [len(taken), len(refused)] == ([1, 0] if reason is None else [0, 1]), refused
    assert reason is None or reason in refused[0].reason


def test_a_name_that_stands_twice_and_a_schema_without_checksum(tmp_path):
    """Both sealed again."""
    line = dumps_line(honest())
    twice = line.replace('"split": 0', '"split": 1, "split": 0', 1)
    older = dumps_line({**honest(), "schema": 1})
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress((twice + older).encode()))
    taken, refused = check(path, [])
    assert not taken and [refusal.reason for refusal in refused] == [
        "'split' stands in it twice",
        "it has a checksum, and says it is of schema 1, which had none",
    ]
