"""Records of others: taken where everything agrees, refused with the reason where something was made up."""

import copy
import gzip
import math
from pathlib import Path

import pytest

from dgpbench.cli import main
from dgpbench.config import compose
from dgpbench.config.keys import config_key, run_key
from dgpbench.report.load import load_tables
from dgpbench.store.schema import build_record
from dgpbench.store.seal import dumps_line
from dgpbench.store.submit import check

REFERENCE = Path(__file__).resolve().parents[2] / "results/reference"
SCALE = math.log(9.1863)  # of boston's targets


def keyed(record):
    """The same record with the keys of its config and data: what a careful forger would do."""
    cfg, data = record["config"], record["data_hash"]
    return {**record, "key": run_key(cfg, data), "config_key": config_key(cfg, data)}


def honest(split=0):
    cfg = compose(["experiment=dsvi2017_sgp", "dataset=boston", f"split={split}", "threads=1"])
    metrics = {"test_loglik": -2.4, "test_loglik_std": -2.4 + SCALE, "test_coverage95": 0.94}
    metrics |= {"test_rmse": 2.9, "test_rmse_std": 2.9 / math.exp(SCALE)}
    record = build_record(
        cfg,
        key="0" * 64,
        config_key="0" * 64,
        status="done",
        metrics=metrics,
        data_hash=cfg["dataset"]["data_sha256"],
        sizes={"n_train": 455, "n_test": 51, "inputs": 13, "outputs": 1},
        training={"steps": 20000, "seconds": 100.0},
        wall_seconds=120.0,
        steps_per_second=200.0,
        threads=1,
    )
    return keyed(record)


def packed(path, *records):
    path.write_bytes(gzip.compress("".join(dumps_line(record) for record in records).encode()))
    return path


def better(record):
    record["metrics"]["test_loglik"] = -2.0
    return record


def renamed(record):
    record["config"]["model"]["num_inducing"] = 500
    return record


def other_data(record):
    return keyed({**record, "data_hash": "a" * 64})


def trained_on_test_rows(record):
    record["sizes"] = {**record["sizes"], "n_train": 506, "n_test": 51}
    return record


def longer(record):
    record["training"]["steps"] = 100_000
    return record


def shifted(record):
    """All metrics moved together, as if the targets had another deviation."""
    record["metrics"]["test_loglik"] += 1.0
    record["metrics"]["test_rmse"] /= math.e
    return record


def impossible(record):
    record["metrics"]["test_coverage95"] = 1.2
    return record


def with_code(record):
    record["config"]["model"]["_target_"] = "mine.Model"
    return keyed(record)


FORGERIES = {
    better: "do not follow from their standardised values",
    renamed: "its key is not that of its config and data",
    other_data: "its data are not those that the catalogue states for boston",
    trained_on_test_rows: "557 rows, and the data have 506",
    longer: "it took 100,000 training steps, and its budget is 20,000",
    shifted: "another deviation of the targets than the catalogue's",
    impossible: "test_coverage95 is 1.2",
    with_code: "it ran code of mine; only models and methods of dgpbench are taken",
}


@pytest.mark.parametrize("forge", FORGERIES)
def test_a_forged_record_is_refused_with_the_reason(tmp_path, forge):
    forged = forge(copy.deepcopy(honest()))
    taken, (refusal,) = check(packed(tmp_path / "x.jsonl.gz", forged, honest(1)), [])
    assert [unit.record["split"] for unit in taken] == [1]
    assert FORGERIES[forge] in refusal.reason and refusal.place.endswith("line 1")


def longer_than_it_grows(record):
    """The default budget grows with the rows, to 13,576 steps on kin8nm."""
    record["config"]["budget"] |= {"steps": 5000, "growth": "sqrt", "max_steps": 20_000}
    record["sizes"]["n_train"], record["training"]["steps"] = 455, 5001
    return keyed(record)


def more_rows_than_allowed(record):
    record["config"]["protocol"]["train_rows"] = 100
    return keyed(record)


@pytest.mark.parametrize(
    ("forge", "reason"),
    [
        (longer_than_it_grows, "it took 5,001 training steps, and its budget is 5,000"),
        (more_rows_than_allowed, "it was trained on 455 rows, and its protocol allows 100"),
    ],
)
def test_budgets_that_grow_and_rows_that_are_limited(tmp_path, forge, reason):
    _, (refusal,) = check(packed(tmp_path / "x.jsonl.gz", forge(copy.deepcopy(honest()))), [])
    assert reason in refusal.reason


def test_runs_that_may_end_early_and_whole_data_are_taken(tmp_path):
    """A converged budget, a classic by L-BFGS, the posterior of all rows, few training rows, levels."""
    records = [copy.deepcopy(honest(split)) for split in range(5)]
    converged, classic, whole, few, levels = records
    converged["config"]["budget"]["stop"] = "converged"
    classic["config"]["model"]["own_training"] = True
    for record in (converged, classic):
        record["training"]["steps"], record["steps_per_second"] = 10_000, 100.0
    whole["config"]["protocol"]["name"] = whole["protocol"] = "whole"
    whole["sizes"] |= {"n_train": 506, "n_test": 506}
    few["config"]["protocol"]["train_rows"], few["sizes"] = 100, {**few["sizes"], "n_train": 100}
    levels["config"]["dataset"] |= {"n": 100, "lower": 400}  # rows of lower levels are not among n
    taken, refused = check(packed(tmp_path / "x.jsonl.gz", *map(keyed, records)), [])
    assert not refused and len(taken) == 5


@pytest.mark.slow
def test_all_records_that_come_with_dgpbench_verify():
    for path in sorted(REFERENCE.glob("*.jsonl.gz")):
        taken, refused = check(path, [])
        assert taken and not refused, (path.name, refused[:3])


def test_a_broken_seal_and_a_second_copy_are_refused(tmp_path):
    line = dumps_line(honest())
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress((line.replace("-2.4,", "-1.4,", 1) + line + line).encode()))
    taken, refused = check(path, [])
    assert len(taken) == 1
    assert [r.reason.partition(":")[0] for r in refused] == [
        "its checksum does not fit",
        "a record of this key is here already",
    ]
    assert check(path, [honest()["key"]])[0] == []


def test_submitted_records_stand_in_tables_as_consistent_not_re_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("dgpbench.store.layout.packaged", lambda name="reference": None)
    source = packed(tmp_path / "mine.jsonl.gz", honest(), honest(1))
    results = tmp_path / "results"
    words = ["submit", str(source), "--results", str(results)]
    assert main([*words, "--check"]) == 0 and not results.exists()
    assert main([*words, "--name", "lab"]) == 0
    said = capsys.readouterr().out
    assert (
        "2 records are consistent" in said
        and "community/lab.jsonl.gz; add that file by a pull request" in said
    )
    (table,) = load_tables(["S7"], results)
    assert table.cells["boston", "SGP"].values == {0: -2.4, 1: -2.4}
    assert main(["tables", "S7", "--results", str(results)]) == 0
    assert "2 splits from results/community/: consistent, not re-run" in capsys.readouterr().out
    assert main([*words, "--name", "again"]) == 1  # they are there
    assert "here already" in capsys.readouterr().err


def test_bad_words_are_one_line(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("x")
    for words, said in (
        ([str(tmp_path / "none")], "give a results folder"),
        ([str(tmp_path / "a.txt")], "give a results folder"),
        ([str(tmp_path)], "no records in"),
        ([str(tmp_path), "--name", "../x"], "is no name of a file"),
    ):
        assert main(["submit", *words]) == 2
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1
