"""How many workers a machine takes, a GPU for each, and units whose key has the machine in it."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from sweep_tools import data, misbehaving, records, status, sweep, write_data

from dgpbench import machine
from dgpbench.sweep import launch as local
from dgpbench.sweep.planner import make_plan


@pytest.fixture
def machine_of(tmp_path, monkeypatch):
    """Workers and their GPUs for a sweep on a machine with so many cores and GPUs."""
    write_data(tmp_path)
    monkeypatch.chdir(tmp_path)

    def capacity(*words, cores=8, gpus=(), units=20):
        for module in ("planner", "launch"):
            monkeypatch.setattr(f"dgpbench.sweep.{module}.usable_cores", lambda: cores)
        monkeypatch.setattr(local, "visible_gpus", lambda: list(gpus))
        return local.capacity(make_plan([*data(tmp_path), *words], fetch=True, note=print), units)

    return capacity


def test_cores_are_not_shared(machine_of):
    assert machine_of("model=sgp") == (8, [])
    assert machine_of("model=sgp", "threads=3") == (2, [])
    assert machine_of("model=sgp", "launcher.workers=2") == (2, [])
    assert machine_of("model=sgp", units=3) == (3, [])
    assert machine_of("model=sgp,dgp2", "launcher.models.dgp2.cpus=4") == (2, [])


def test_memory_bounds_the_workers(machine_of, monkeypatch):
    monkeypatch.setattr(local.os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": int(16e9 / 4096)}.get)
    assert machine_of("model=sgp", "launcher.memory=5") == (3, [])


def test_one_gpu_per_worker(machine_of):
    assert machine_of("model=sgp", gpus="012") == (3, ["0", "1", "2"])
    assert machine_of("model=sgp", "launcher.workers=6", gpus="01") == (6, ["0", "1", "0", "1", "0", "1"])
    assert machine_of("model=sgp", "device=cpu", gpus="01") == (8, [])


def test_gpus_are_those_that_cuda_may_see(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, GPU-ab")
    assert machine.visible_gpus() == ["3", "GPU-ab"]
    for none in ("", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", none)
        assert machine.visible_gpus() == []


def test_a_task_uses_the_gpus_of_its_job_only_if_a_unit_is_to(monkeypatch):
    from types import SimpleNamespace as Namespace

    from dgpbench.sweep import pool as task

    monkeypatch.setattr(task, "visible_gpus", lambda: ["3", "5"])
    unit = [Namespace(config=0)]
    for device, settings, gpus in (
        ("auto", Namespace(gpus=2), ["3,5"]),
        ("auto", Namespace(gpus=0), []),
        ("cpu", Namespace(gpus=2), []),
        ("auto", Namespace(), ["3,5"]),  # the local launcher asks for none
    ):
        plan = Namespace(units=unit, configs=[{"device": device}], settings=[settings])
        assert task.gpus_of(plan, [0]) == gpus
    monkeypatch.setattr(task, "visible_gpus", list)
    assert task.gpus_of(plan, [0]) == []


@pytest.mark.parametrize("gpu, seen", [("1", "1"), (None, "-1")])
def test_the_gpu_of_a_worker_is_in_its_environment(tmp_path, gpu, seen):
    from dgpbench.sweep.process import Child

    child = Child(2, gpu, 5.0, str(tmp_path))
    try:
        while not child.answers():  # its first word: it is up
            time.sleep(0.05)
        with open(f"/proc/{child.pid}/environ") as file:
            env = dict(entry.partition("=")[::2] for entry in file.read().split("\0"))
        assert env["CUDA_VISIBLE_DEVICES"] == seen and env["OMP_NUM_THREADS"] == "2"
    finally:
        child.close()


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="the system has no autogroups")
def test_a_nice_worker_is_nice_in_a_session_of_its_own():
    script = "import os; from dgpbench.sweep.process import share_niceness; os.nice({}); share_niceness(); "
    script += "print(open('/proc/self/autogroup').read())"
    for nice in (0, 7):
        command = [sys.executable, "-c", script.format(nice)]
        done = subprocess.run(command, capture_output=True, text=True, start_new_session=True, check=True)
        assert done.stdout.strip().endswith(f"nice {nice}")


@pytest.mark.slow
def test_under_a_time_budget_a_done_unit_is_found_whatever_the_machine_in_its_key(tmp_path):
    timed = misbehaving(
        "model.closed_form=false",
        "budget.seconds=5",
        "budget.steps=null",
        "split=0,1",
        "launcher.retries=0",
        "model.deed=kill",
    )
    first = sweep(tmp_path, *timed)
    assert first.returncode == 1 and "2 units: 1 done, 1 interrupted" in first.stdout, first.stderr
    assert {unit["status"] for unit in status(tmp_path)} == {"done", "interrupted"}
    again = sweep(tmp_path, *timed, "--dry-run")
    assert "1 done, 1 interrupted; 1 to run" in again.stderr
    other = sweep(tmp_path, *timed, "threads=7", "--dry-run")  # the stub has no threads, the killed one had
    assert "2 units: 1 done, 1 missing" in other.stdout
    assert len(records(tmp_path)) == 2
