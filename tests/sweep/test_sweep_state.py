"""status, worker, merge, gc, dry run: what the store and the plan say, read by eye and by number."""

import json
import os
import re
import shutil
import time

import numpy as np
import pytest
from sweep_tools import data, dgpbench, misbehaving, records, status, sweep

from dgpbench.engine import checkpoint
from dgpbench.store import read
from dgpbench.store import record as seal
from dgpbench.store.record import dumps
from dgpbench.store.scan import scan


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A sweep of two models and three splits in which one unit failed; not to be changed."""
    folder = tmp_path_factory.mktemp("swept")
    done = sweep(folder, *misbehaving()[:2], "model=linear,stub_fail", "split=0,1,2", "protocol.draws=20")
    assert done.returncode == 1, done.stderr
    return folder


@pytest.fixture
def copy(swept, tmp_path):
    shutil.copytree(swept, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.mark.slow
def test_status_counts_per_dataset_and_model_with_reasons(swept):
    done = dgpbench(swept, "status")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[1] == ["dataset", "model", "done", "failed"]
    assert lines[2] == ["csv", "linear", "3", "."] and lines[3] == ["csv", "stub_fail", "2", "1"]
    assert "6 units: 5 done, 1 failed" in done.stdout and done.returncode == 1
    place = r"\(sweep_stub.py, line \d+, in _fail\)"
    failed = rf"failed: stub_fail csv split 1: RuntimeError: no luck today {place} \[results"
    assert re.search(failed, done.stdout)
    listed = dgpbench(swept, "status", "--list").stdout
    assert "5 done, 1 failed" in listed and "model=linear,stub_fail" in listed


def test_status_without_a_sweep_is_one_clear_line(tmp_path):
    done = dgpbench(tmp_path, "status")
    assert done.returncode == 2 and "no sweep in results" in done.stderr and "Traceback" not in done.stderr


def test_status_sees_what_is_missing(copy):
    shutil.rmtree(next((copy / "results/csv/linear-exact/clean").glob("split2-*")))
    found = {unit["label"]: unit["status"] for unit in status(copy)}
    assert found["linear csv split 2"] == "missing" and list(found.values()).count("done") == 4


def test_a_worker_runs_units_by_number_from_anywhere(copy, tmp_path):
    place = next((copy / "results/csv/linear-exact/clean").glob("split2-*"))
    before = json.loads((place / "record.json").read_text())
    shutil.rmtree(place)
    (plan,) = (copy / "results/.sweeps").glob("*/plan.json")
    text = plan.read_text().replace(json.loads(plan.read_text())["cwd"], str(copy))
    plan.write_text(text)
    number = next(i for i, unit in enumerate(json.loads(text)["units"]) if unit[:3] == [0, 2, 0])
    refused = dgpbench(tmp_path, "worker", str(plan), str(number))
    assert refused.returncode == 2 and "sweep_stub.Stub is code of others" in refused.stderr
    worker = ("worker", str(plan), "--allow", "sweep_stub")
    done = dgpbench(tmp_path, *worker, str(number))  # not the folder of the sweep
    assert done.returncode == 0 and "done: linear csv split 2" in done.stdout, done.stderr
    assert json.loads((place / "record.json").read_text())["metrics"] == before["metrics"]
    refused = dgpbench(tmp_path, *worker, "6")
    assert refused.returncode == 2 and "unit 6 is not in the plan; its units are 0 to 5" in refused.stderr


def test_merge_takes_what_is_missing_and_keeps_what_is_done(copy, tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    theirs = {unit.record["key"]: unit for unit in scan(copy / "results")}
    words = ("merge", str(copy / "results"), "--allow", "sweep_stub")
    first = dgpbench(here, *words)
    assert first.returncode == 0 and first.stdout == "6 taken in\n", first.stderr
    for unit in scan(here / "results"):
        twin = theirs[unit.record["key"]]
        assert unit.record["metrics"] == twin.record["metrics"]
        assert unit.record["finished"] == twin.record["finished"]
        if unit.record["status"] == "done":
            for name in ("row", "mean", "y"):
                assert (read.predictions(unit)[name] == read.predictions(twin)[name]).all()
            assert read.parameters(unit).keys() == read.parameters(twin).keys()
    assert dgpbench(here, *words).stdout == "6 here already\n"
    assert "no luck today" in dgpbench(here, "show", "--failed").stdout


def test_merge_tells_of_damage_and_of_other_numbers(copy, tmp_path):
    here = tmp_path / "here"
    shutil.copytree(copy, here)
    places = sorted((copy / "results/csv/linear-exact/clean").iterdir())
    shutil.rmtree(here / "results/csv/linear-exact/clean" / places[0].name)
    (places[0] / "params.npz").write_bytes(b"damaged")
    record = json.loads((places[1] / "record.json").read_text())
    record["metrics"]["test_rmse"] *= 2
    record.pop("checksum")
    (places[1] / "record.json").write_text(dumps(record))
    (places[2] / "record.json").write_text("{")
    done = dgpbench(here, "merge", str(copy / "results"), "--allow", "sweep_stub")
    assert done.returncode == 1
    assert done.stdout == "4 here already, 1 of these with other numbers, 2 damaged and left out\n"
    assert "differ in test_rmse" in done.stderr and "params.npz" in done.stderr
    (ours,) = [u.record for u in scan(here / "results") if u.record["key"] == record["key"]]
    assert ours["metrics"]["test_rmse"] == pytest.approx(record["metrics"]["test_rmse"] / 2)


@pytest.mark.slow
def test_gc_removes_leftovers_and_no_results(copy):
    results = copy / "results"
    linear = sorted((results / "csv/linear-exact/clean").iterdir())
    failed = next((results / "csv/stub_fail-exact/clean").glob("split1-*"))
    old = time.time() - 20 * 86400
    rubbish = [
        linear[0] / "checkpoint.npz",
        linear[1] / ".tmp-1-abcdef01-params.npz",
        failed / "checkpoint.npz",
        linear[2] / ".checkpoint.npz.7.tmp",
    ]
    for path in rubbish:
        path.write_bytes(b"x" * 1000)
        if path.name == "checkpoint.npz":
            record = json.loads((path.parent / "record.json").read_text())
            checkpoint.save(path.parent, record["key"], {"step": np.zeros(100)})
        os.utime(path, (old, old))
    fresh = linear[1] / ".tmp-2-abcdef01-params.npz"
    fresh.write_bytes(b"y")
    before = {unit.record["key"]: unit.record for unit in scan(results)}
    shown = dgpbench(copy, "gc", "--dry-run")
    assert shown.stdout.count("would remove") == 4 and all(path.exists() for path in rubbish)
    done = dgpbench(copy, "gc")
    assert done.returncode == 0 and "4 removed" in done.stdout
    assert not any(path.exists() for path in rubbish) and fresh.exists()
    assert {unit.record["key"]: unit.record for unit in scan(results)} == before
    for unit in scan(results):
        assert unit.record["status"] != "done" or read.parameters(unit)
    assert dgpbench(copy, "gc").stdout == "nothing to remove\n"


def test_dry_run_estimates_from_records_and_says_what_it_cannot_know(copy):
    place = next((copy / "results/csv/linear-exact/clean").glob("split2-*"))
    shutil.rmtree(place)
    for path in (copy / "results/csv/linear-exact/clean").glob("*/record.json"):
        record = json.loads(path.read_text())
        record.pop("checksum")
        path.write_text(dumps(record | {"wall_seconds": 1800.0}))
    done = sweep(copy, "model=linear,sgp", "split=0,1,2", "protocol.draws=20", "threads=2", "--dry-run")
    assert done.returncode == 0
    assert "6 units: 2 done, 4 missing" in done.stdout
    assert "1 unit: about 1 core-hours (30:00 one after another)" in done.stdout  # half an hour, two threads
    assert "3 units: about " in done.stdout and "from similar runs" in done.stdout
    assert not place.exists()


@pytest.mark.slow
def test_detach_returns_and_the_sweep_goes_on(tmp_path):
    done = sweep(tmp_path, "model=linear", "split=0,1", "protocol.draws=20", "--detach")
    assert done.returncode == 0 and "runs as process" in done.stdout
    end = time.monotonic() + 60
    while [unit["status"] for unit in status(tmp_path)] != ["done", "done"]:
        assert time.monotonic() < end
        time.sleep(0.3)
    assert len(records(tmp_path)) == 2


def test_newer_and_damaged_records_are_counted_and_never_lost(tmp_path):
    words = ["model=linear", "split=0,1,2", "protocol.draws=20"]
    assert sweep(tmp_path, *words).returncode == 0
    newer, damaged, _ = sorted((tmp_path / "results").glob("csv/*/*/*/record.json"))
    record = json.loads(newer.read_bytes())
    record.pop(seal.CHECKSUM)
    newer.write_text(seal.dumps(record | {"schema": 3, "versions": {"dgpbench": "0.9.1"}}))
    kept = newer.read_bytes()
    damaged.write_bytes(broken := damaged.read_bytes()[:500])
    assert sorted(unit["status"] for unit in status(tmp_path)) == ["damaged", "done", "newer"]
    again = sweep(tmp_path, *words)
    assert again.returncode == 1 and "written by dgpbench 0.9.1 (schema 3)" in again.stderr
    assert newer.read_bytes() == kept and json.loads(damaged.read_bytes())["status"] == "done"
    (aside,) = damaged.parent.glob("record.json.damaged-*")
    assert aside.read_bytes() == broken
    assert "1 damaged record was set aside" in dgpbench(tmp_path, "status").stdout
    words[1] = "split=0"
    run = dgpbench(tmp_path, "run", *data(tmp_path), *words, "--force")
    assert run.returncode == 2 and "0.9.1" in run.stderr and "Traceback" not in run.stderr
    assert newer.read_bytes() == kept
