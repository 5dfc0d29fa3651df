"""Writing: atomic, first done wins, nothing half-written is read."""

import hashlib
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from store_units import digest, make_cfg, make_companions, make_record

from dgpbench.errors import UserError
from dgpbench.store import read
from dgpbench.store.layout import slug, unit_folder
from dgpbench.store.scan import Unit, find, find_done, scan
from dgpbench.store.write import ensure_writable, write_unit


def leftovers(folder):
    return [p.name for p in Path(folder).rglob(".tmp*")]


def test_written_unit_reads_back(tmp_path):
    record = make_record(make_cfg(split=3))
    unit = write_unit(tmp_path, record, **make_companions(2.5))
    assert unit.folder == tmp_path / "energy/dgp2-dsvi/clean" / f"split3-{record['key'][:8]}"
    (again,) = scan(tmp_path)
    assert again.record == unit.record and again.record["metrics"] == record["metrics"]
    for name, entry in again.record["files"].items():
        content = (unit.folder / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry["sha256"] and len(content) == entry["bytes"]
    table = read.predictions(again)
    assert table["q01"].dtype == np.float32 and table["mean"].dtype == np.float64
    np.testing.assert_array_equal(table["row"], np.arange(50))
    assert read.draws(again)["draws"].shape == (3, 20) and (read.draws(again)["x"] == 2.5).all()
    np.testing.assert_array_equal(read.parameters(again)["layers.0.Z"], np.full((5, 2), 2.5))
    assert sorted(p.name for p in unit.folder.iterdir()) == [
        ".lock",
        "draws.parquet",
        "params.npz",
        "predictions.parquet",
        "record.json",
    ]


def test_find_by_key(tmp_path):
    cfg = make_cfg()
    done = make_record(cfg)
    assert find_done(tmp_path, cfg, done["key"]) is None
    write_unit(tmp_path, make_record(cfg, "failed", reason="no luck"))
    assert find_done(tmp_path, cfg, done["key"]) is None
    assert find(tmp_path, cfg, done["key"]).record["reason"] == "no luck"
    write_unit(tmp_path, done)
    assert find_done(tmp_path, cfg, done["key"]).record == scan(tmp_path)[0].record
    assert find_done(tmp_path, make_cfg(split=1), done["key"]) is None


def test_keys_with_equal_beginnings_do_not_meet(tmp_path):
    cfg, other = make_cfg(), "0" * 8 + "1" * 56
    write_unit(tmp_path, make_record(cfg, key="0" * 64, metrics={"test_rmse": 1.0}))
    write_unit(tmp_path, make_record(cfg, key=other, metrics={"test_rmse": 2.0}))
    assert find_done(tmp_path, cfg, "0" * 64).record["metrics"] == {"test_rmse": 1.0}
    assert find_done(tmp_path, cfg, other).record["metrics"] == {"test_rmse": 2.0}
    assert len(scan(tmp_path)) == 2


@pytest.mark.parametrize(
    "first, second, force, stays",
    [
        ("failed", "done", False, "done"),
        ("done", "failed", False, "done"),
        ("done", "failed", True, "failed"),
        ("timeout", "oom", False, "oom"),
        ("diverged", "done", False, "done"),
        ("interrupted", "failed", False, "failed"),
    ],
)
def test_which_record_stays(tmp_path, first, second, force, stays):
    write_unit(tmp_path, make_record(status=first), **(make_companions(1.0) if first == "done" else {}))
    unit = write_unit(
        tmp_path,
        make_record(status=second),
        force=force,
        **(make_companions(2.0) if second == "done" else {}),
    )
    (found,) = scan(tmp_path)
    assert found.record["status"] == stays and found.record == unit.record
    beside = {p.name for p in unit.folder.iterdir() if p.suffix in (".parquet", ".npz")}
    assert set(found.record["files"]) == {name.replace(".b.", ".") for name in beside}
    assert not leftovers(tmp_path)


def test_the_first_done_record_stays_unless_forced(tmp_path):
    write_unit(tmp_path, make_record(metrics={"test_rmse": 1.0}), **make_companions(1.0))
    second = write_unit(tmp_path, make_record(metrics={"test_rmse": 2.0}), **make_companions(2.0))
    assert second.record["metrics"] == {"test_rmse": 1.0} and read.predictions(second)["mean"][0] == 1.0
    third = write_unit(tmp_path, make_record(metrics={"test_rmse": 3.0}), force=True, **make_companions(3.0))
    assert scan(tmp_path)[0].record["metrics"] == {"test_rmse": 3.0}
    assert read.predictions(third)["mean"][0] == 3.0


def test_replacing_never_leaves_a_record_without_its_own_files(tmp_path, monkeypatch):
    """Stopped after any of the renames, the record that stands has all its files."""
    real = os.replace
    for stop_at in range(4):
        results = tmp_path / str(stop_at)
        write_unit(results, make_record(metrics={"test_rmse": 1.0}), **make_companions(1.0))
        calls = []

        def stopping(source, target, calls=calls, stop_at=stop_at):
            if len(calls) == stop_at:
                raise KeyboardInterrupt
            calls.append(target)
            real(source, target)

        monkeypatch.setattr(os, "replace", stopping)
        with pytest.raises(KeyboardInterrupt):
            write_unit(results, make_record(metrics={"test_rmse": 2.0}), force=True, **make_companions(2.0))
        monkeypatch.setattr(os, "replace", real)
        (unit,) = scan(results)
        assert unit.record["status"] == "done" and unit.record["metrics"] == {"test_rmse": 1.0}
        assert set(unit.record["files"]) == {"predictions.parquet", "draws.parquet", "params.npz"}
        assert read.predictions(unit)["mean"][0] == read.parameters(unit)["layers.0.Z"][0, 0] == 1.0
        assert read.draws(unit)["draws"][0, 0] == 1.0
        assert not leftovers(results)
        for value in (3.0, 4.0):  # what was left is no hindrance
            write_unit(results, make_record(), force=True, **make_companions(value))
            (unit,) = scan(results)
            assert read.predictions(unit)["mean"][0] == value
            files = [p for p in unit.folder.iterdir() if p.suffix in (".parquet", ".npz")]
            assert len({p.stat().st_ino for p in files}) == 3
            for name in unit.record["files"]:  # the plain name leads to the same file
                assert (unit.folder / name).read_bytes() == read.companion(unit, name)


def test_companions_that_do_not_fit_are_refused(tmp_path):
    unit = write_unit(tmp_path, make_record(), **make_companions())
    (unit.folder / "predictions.parquet").write_bytes(b"other")
    with pytest.raises(UserError, match="not the file its record names"):
        read.predictions(unit)
    bare = write_unit(tmp_path, make_record(make_cfg(split=1), "failed"))
    with pytest.raises(UserError, match="has no params.npz"):
        read.parameters(bare)
    with pytest.raises(UserError, match="holds records only"):
        read.parameters(Unit(unit.record, tmp_path / "reference" / "a.jsonl.gz"))


def test_objects_are_never_pickled(tmp_path):
    with pytest.raises(ValueError, match="would need pickle"):
        write_unit(tmp_path, make_record(), params={"a": np.array([{}], dtype=object)})
    assert scan(tmp_path) == [] and not leftovers(tmp_path)


def test_names_become_safe_folders(tmp_path):
    assert slug("../../etc/passwd") == "_.._etc_passwd" and slug("..") == "_"
    assert slug("reference") == "reference_"
    assert slug("statlog-heart") == "statlog-heart"
    labels = {"dataset": "../x", "model": "a/b", "inference": "dsvi", "protocol": "clean", "split": 0}
    assert unit_folder(tmp_path, labels, digest(0)).resolve().is_relative_to(tmp_path.resolve())


# Death, crowds, full disks ---------------------------------------------------------------------------

WRITER = """
import sys
from dgpbench.store.write import write_unit
from store_units import make_cfg, make_companions, make_record
for split in range(100000):
    if split == 4:
        print("ready", flush=True)
    cfg = make_cfg(split=split // 2)
    write_unit(sys.argv[1], make_record(cfg, metrics={"test_rmse": float(split)}), force=True,
               **make_companions(float(split), rows=2000))
"""


@pytest.mark.slow
def test_sigkill_leaves_no_readable_half_record(tmp_path):
    rng = random.Random(0)
    seen = 0
    root = Path(__file__).parents[2]
    path = f"{root}{os.pathsep}{Path(__file__).parent}"
    for round_number in range(6):
        results = tmp_path / str(round_number)
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(results)],
            cwd=root,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        writer.stdout.readline()
        time.sleep(0.3 * rng.random())
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        warnings = []
        for unit in scan(results, warn=warnings.append):
            value = unit.record["metrics"]["test_rmse"]
            seen += 1
            for name in unit.record["files"]:
                assert read.companion(unit, name)
            if unit.record["files"]:
                assert set(read.predictions(unit)["mean"]) == {value}
                assert (read.parameters(unit)["layers.0.Z"] == value).all()
        assert not warnings
    assert seen > 6


def _crowd(results, number):
    for repeat in range(5):
        value = float(10 * number + repeat)
        write_unit(
            results,
            make_record(metrics={"test_rmse": value}),
            force=number % 2 == 0,
            **make_companions(value, rows=500),
        )


@pytest.mark.slow
def test_eight_writers_of_one_unit_do_not_mix(tmp_path):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_crowd, args=(str(tmp_path), n)) for n in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [w.exitcode for w in writers] == [0] * 8
    (unit,) = scan(tmp_path)
    value = unit.record["metrics"]["test_rmse"]
    assert set(read.predictions(unit)["mean"]) == {value}
    assert (read.parameters(unit)["layers.0.Z"] == value).all()
    assert not leftovers(tmp_path)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MB of our own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_is_one_clear_line_and_loses_nothing(small_disk):
    write_unit(small_disk, make_record(make_cfg(split=0)), **make_companions(1.0))
    rng = np.random.default_rng(0)
    noise = {"predictions": {"mean": rng.normal(size=300_000)}}
    with pytest.raises(UserError, match="no space left for results in .*; free some space or") as caught:
        write_unit(small_disk, make_record(make_cfg(split=1)), **noise)
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="no space left"):
        write_unit(small_disk, make_record(), params={"Z": rng.normal(size=300_000)}, force=True)
    (unit,) = scan(small_disk)
    assert unit.record["split"] == 0 and read.predictions(unit)["mean"][0] == 1.0
    assert not leftovers(small_disk)
    space = os.statvfs(small_disk)
    (small_disk / "filler").write_bytes(b"\0" * (space.f_bavail * space.f_frsize))
    with pytest.raises(UserError, match="no space left"):
        ensure_writable(small_disk)


def test_a_read_only_folder_is_one_clear_line(small_disk):
    write_unit(small_disk, make_record(), **make_companions(1.0))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    words = "cannot write results in .*read-only file system.*paths.results=DIR"
    with pytest.raises(UserError, match=words):
        write_unit(small_disk, make_record(make_cfg(split=1)))
    with pytest.raises(UserError, match=words):
        ensure_writable(small_disk)
    assert read.predictions(scan(small_disk)[0])["mean"][0] == 1.0


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "results").write_text("not a folder")
    for place in (tmp_path / "results", tmp_path / "results" / "deeper"):
        with pytest.raises(UserError, match="cannot write results in"):
            ensure_writable(place)
        with pytest.raises(UserError, match="cannot write results in"):
            write_unit(place, make_record())
    ensure_writable(tmp_path / "new" / "results")
    assert list((tmp_path / "new" / "results").iterdir()) == []


def test_a_hanging_lock_holder_does_not_stop_a_writer(tmp_path, monkeypatch):
    import fcntl

    from dgpbench.store import write as disk

    monkeypatch.setattr(disk, "LOCK_SECONDS", 0.05)
    unit = write_unit(tmp_path, make_record(status="failed"))
    with open(unit.folder / ".lock", "ab") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        assert write_unit(tmp_path, make_record()).record["status"] == "done"


def test_a_results_folder_that_cannot_be_made_is_one_clear_line():
    with pytest.raises(UserError, match="cannot make the results folder /proc/x; choose another"):
        ensure_writable("/proc/x")
