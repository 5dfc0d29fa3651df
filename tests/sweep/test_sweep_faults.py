"""Eight sweeps at once, a full disk, a folder that cannot be written, clocks that go backwards."""

import shutil
import subprocess

import pytest
from sweep_tools import command, data, dgpbench, environment, metrics, misbehaving, records, sweep, write_data

from dgpbench.store import read
from dgpbench.store.scan import scan


@pytest.mark.slow
@pytest.mark.long
def test_eight_sweeps_of_the_same_units_at_once(tmp_path):
    mark = tmp_path / "mark"
    words = command("sweep", *data(tmp_path), *misbehaving("split=range(12)", f"model.mark={mark}"))
    running = [
        subprocess.Popen(
            words, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(8)
    ]
    ends = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0] * 8, ends
    assert all("12 units: 12 done" in out for out, _ in ends)
    assert len(records(tmp_path)) == 12
    starts = [line.split()[0] for line in mark.read_text().splitlines()]
    assert sorted(starts, key=int) == [str(i) for i in range(12)]  # each was run by one of them, once
    for unit in scan(tmp_path / "results"):
        assert len(read.predictions(unit)["row"]) == 4


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 2 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    if not shutil.which("mount"):
        pytest.skip("there is no mount command")
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)  # a process may still be ending in it


@pytest.mark.slow
def test_a_full_disk_stops_the_sweep_and_loses_nothing(tmp_path, small_disk):
    write_data(tmp_path, rows=1000)
    words = ["model=linear", "protocol.draws=500", f"paths.results={small_disk}"]
    full = sweep(tmp_path, *words)
    assert full.returncode == 2, full.stderr
    assert "space" in full.stderr.splitlines()[-1] and "Traceback" not in full.stderr
    kept = [unit for unit in scan(small_disk) if unit.record["status"] == "done"]
    assert 0 < len(kept) < 20
    assert {unit.record["status"] for unit in scan(small_disk)} <= {"done", "interrupted"}
    roomy = tmp_path / "results"
    shutil.copytree(small_disk, roomy)
    assert sweep(tmp_path, "model=linear", "protocol.draws=500").returncode == 0
    assert len(records(tmp_path)) == 20
    for unit in kept:  # what was done on the full disk is whole and was not run again
        twin = roomy / unit.path.relative_to(small_disk)
        assert twin.read_bytes() == unit.path.read_bytes() and len(read.predictions(unit)["row"]) == 100


def test_a_folder_that_cannot_be_written_is_told_before_anything_runs(tmp_path, small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    mark = tmp_path / "mark"
    done = sweep(tmp_path, *misbehaving(f"model.mark={mark}"), f"paths.results={small_disk}")
    assert done.returncode == 2 and not mark.exists()
    assert f"cannot write results in {small_disk} (read-only file system)" in done.stderr
    assert dgpbench(tmp_path, "gc", "--results", str(small_disk)).stdout == "nothing to remove\n"


BACKWARDS = """
import time
real, began = time.time, time.time()
time.time = lambda: 2 * began - real() - 86400  # runs backwards, and is a day late
"""


@pytest.mark.slow
def test_a_clock_that_goes_backwards(tmp_path):
    (tmp_path / "clock").mkdir()
    (tmp_path / "clock/sitecustomize.py").write_text(BACKWARDS)
    path = f"{tmp_path / 'clock'}:{environment()['PYTHONPATH']}"
    (tmp_path / "calm").mkdir()
    for folder, env in ((tmp_path, {"PYTHONPATH": path}), (tmp_path / "calm", {})):
        done = sweep(folder, "model=linear", "split=0,1,2", "protocol.draws=20", **env)
        assert done.returncode == 0 and "3 units: 3 done" in done.stdout, done.stderr
    assert metrics(tmp_path) == metrics(tmp_path / "calm")
    assert all(0 <= record["wall_seconds"] < 60 for record in records(tmp_path).values())
    assert "0 to run" in sweep(tmp_path, "model=linear", "split=0,1,2", "protocol.draws=20").stderr
