"""Worker processes: those that cannot start, those that start others, and what stands around them."""

import os
import subprocess

import psutil
import pytest
from sweep_tools import command, data, dgpbench, environment, misbehaving, records, status, sweep

NO_START = """
import os, sys
if any("dgpbench.sweep.child" in word for word in sys.orig_argv):
    os._exit(7)
"""


def test_workers_that_cannot_start_brand_no_unit(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(NO_START)
    path = f"{tmp_path / 'site'}:{environment()['PYTHONPATH']}"
    done = sweep(tmp_path, *misbehaving("split=0,1,2,3", "launcher.workers=2"), PYTHONPATH=path)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "worker processes end before they begin (exit code 7); `dgpbench doctor`" in done.stderr
    assert records(tmp_path) == {} and not list((tmp_path / "results/.leases").glob("*.json"))
    assert {unit["status"] for unit in status(tmp_path)} == {"missing"}


@pytest.mark.slow
def test_files_beside_a_users_model_do_not_hide_the_standard_library(tmp_path):
    for name in ("random", "calendar", "json", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('not the one you want')\n")
    (tmp_path / "beside.py").write_text("from sweep_stub import Stub\nclass Mine(Stub): pass\n")
    words = misbehaving("split=0,1", "model._target_=beside.Mine")
    assert sweep(tmp_path, *words).returncode == 0
    assert (
        dgpbench(
            tmp_path,
            "run",
            *data(tmp_path),
            *[word for word in words if not word.startswith("split=")],
            "split=2",
        ).returncode
        == 0
    )
    assert [record["status"] for record in records(tmp_path).values()] == ["done"] * 3


@pytest.mark.slow
def test_what_a_model_starts_ends_with_its_unit(tmp_path):
    words = [
        "model.deed=spawn,wander,crowd",
        "model.on_split=0",
        f"model.mark={tmp_path / 'mark'}",
        "split=0,1",
    ]
    done = sweep(tmp_path, *misbehaving(*words, "launcher.memory=0.8", "launcher.workers=1"), seconds=300)
    assert done.returncode == 1, done.stderr
    assert not psutil.pid_exists(int((tmp_path / "mark.pid").read_text()))
    assert sorted(unit["status"] for unit in status(tmp_path)) == ["done"] * 5 + ["oom"]
    reason = next(r["reason"] for r in (u.record for u in _units(tmp_path)) if r["status"] == "oom")
    assert "GB, more than 0.8 GB (launcher.memory): killed" in reason
    assert not [p for p in psutil.process_iter(["cmdline"]) if "900_000_000" in str(p.info["cmdline"])]


def _units(folder):
    from dgpbench.store.scan import scan

    return scan(folder / "results")


@pytest.mark.slow
def test_a_broken_disk_is_one_line_and_brands_no_unit(tmp_path):
    done = sweep(tmp_path, *misbehaving("model.deed=broken_disk", "split=0,1", "launcher.workers=1"))
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "Input/output error: /disk/file; free space, see to the disk" in done.stderr.splitlines()[-1]
    assert {record["status"] for record in records(tmp_path).values()} <= {"done", "interrupted"}
    again = sweep(tmp_path, *misbehaving("model.deed=broken_disk", "split=0,1", "--dry-run"))
    assert "1 to run" in again.stderr or "2 to run" in again.stderr
    one = dgpbench(tmp_path, "run", *data(tmp_path), *misbehaving("model.deed=broken_disk", "split=1"))
    assert one.returncode == 2 and "Input/output error" in one.stderr and "Traceback" not in one.stderr


def test_a_reader_that_goes_away_does_not_stop_a_sweep(tmp_path):
    words = command("sweep", *data(tmp_path), *misbehaving("split=0,1,2", "model.deed=fail", "-v"))
    process = subprocess.Popen(words, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, stdout=-3)
    process.stderr.readline()
    process.stderr.close()  # as `2>&1 | head -1` does
    process.wait(120)
    assert len(records(tmp_path)) == 3


@pytest.mark.slow
def test_a_run_that_crashes_leaves_a_record(tmp_path):
    words = ["run", *data(tmp_path), *misbehaving("model.on_split=0")]
    for deed, status_, reason in (
        ("crash", "failed", "its process crashed (signal 11, SIGSEGV)"),
        ("kill", "interrupted", "its process was killed from outside (signal 9, SIGKILL)"),
    ):
        done = dgpbench(tmp_path, *words, f"model.deed={deed}")
        assert done.returncode == (1 if deed == "crash" else 128 + 9), done.stderr
        found = [u.record for u in _units(tmp_path) if u.record["config"]["model"]["deed"] == deed]
        assert [(r["status"], r["reason"]) for r in found] == [(status_, reason)]
        assert reason in done.stderr and "record: " in done.stderr
    fine = dgpbench(tmp_path, *words, "model.deed=none")
    assert fine.returncode == 0 and "RMSE" in fine.stdout
    exits = dgpbench(tmp_path, *words, "model.deed=exit")
    assert exits.returncode == 1


@pytest.mark.slow
def test_a_signal_reaches_the_run(tmp_path):
    import signal
    import time

    words = command("run", *data(tmp_path), *misbehaving("model.deed=steps", "model.on_split=0"))
    for number in (signal.SIGTERM, signal.SIGKILL):
        process = subprocess.Popen(words, cwd=tmp_path, env=environment(), stderr=-3, stdout=-3)
        end = time.monotonic() + 60
        while not list((tmp_path / "results").glob("*/*/*/*/checkpoint.npz")) and time.monotonic() < end:
            time.sleep(0.05)
        children = psutil.Process(process.pid).children()
        process.send_signal(number)  # the supervisor: its child must hear of it
        assert process.wait(60) in (143, -9)
        assert not psutil.wait_procs(children, timeout=30)[1]
        assert [r["status"] for r in records(tmp_path).values()] == ["interrupted"]
        for path in (tmp_path / "results").glob("*/*/*/*/checkpoint.npz"):
            os.unlink(path)


@pytest.mark.slow
def test_a_log_that_is_a_link_is_not_followed(tmp_path):
    words = misbehaving("split=0,1,2", "launcher.workers=1")
    assert sweep(tmp_path, *words).returncode == 0
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    units = sorted((tmp_path / "results").glob("*/*/*/split*"))
    kinds = (lambda p: p.symlink_to(victim), os.mkfifo, lambda p: p.mkdir())
    for unit, make in zip(units, kinds, strict=True):
        (unit / "log.txt").unlink()
        make(unit / "log.txt")
    assert sweep(tmp_path, *words, "--retry", "all").returncode == 0
    assert victim.read_text() == "untouched"
