"""A real SLURM that loses its node, is told scancel or requeue, or whose waiting sweep is killed.

Each time every unit ends `done` or `interrupted` with its checkpoint, nothing done is run twice, and the
metrics equal those of an undisturbed local sweep.
"""

import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from cluster_units import STEPS, UNITS
from slurm_tools import SLURM, ask, hurry, pending
from sweep_tools import data, dgpbench, environment, metrics, records, started, training

GPS = [word for word in UNITS if not word.startswith(("model=", "split="))] + [
    "model=small_sgp",
    "split=0,1,2",
]


@pytest.fixture(scope="module")
def calm(tmp_path_factory) -> dict:
    """Metrics of the same units in a local sweep that nothing disturbs."""
    if not os.environ.get("DGPBENCH_TEST_CLUSTER"):
        pytest.skip("starts SLURM: `make test-cluster` runs it")
    folder = tmp_path_factory.mktemp("calm")
    done = dgpbench(folder, "sweep", *data(folder), *GPS, "threads=1", seconds=400)
    assert done.returncode == 0, done.stderr
    return metrics(folder)


def sweep_words(folder: Path) -> list[str]:
    return ["sweep", *data(folder), *GPS, *SLURM]


def finish(process: subprocess.Popen, conf: str, seconds: float = 300) -> tuple[str, str]:
    """Output of a sweep whose requeued tasks need not wait."""
    end = time.monotonic() + seconds
    while process.poll() is None:
        assert time.monotonic() < end, "the sweep does not end"
        hurry(conf)
        time.sleep(1)
    return process.communicate()


def resumed(folder: Path) -> list[dict]:
    return [record for record in records(folder).values() if record["training"].get("resumed_from")]


def empty_queue(conf: str) -> None:
    while ask("squeue", "-hr", conf=conf):
        time.sleep(0.5)


def test_a_lost_node_takes_its_units_up_again_when_it_is_back(tmp_path, slurm, calm):
    with started(tmp_path, *sweep_words(tmp_path), SLURM_CONF=slurm) as sweep:
        training(tmp_path)
        daemon = Path(slurm).with_name("slurmd.pid")
        node = psutil.Process(int(daemon.read_text()))
        victims = [node, *node.children(recursive=True)]
        steps = [
            p for p in psutil.process_iter(["cmdline"]) if "slurmstepd" in " ".join(p.info["cmdline"] or [])
        ]
        for step in steps:
            victims += [step, *step.children(recursive=True)]
        for victim in victims:  # all at once, as when the power goes
            victim.suspend()
        for victim in victims:
            victim.kill()
        end = time.monotonic() + 120
        while "down" not in ask("sinfo", "-h", "-o%T", conf=slurm):  # SlurmdTimeout: the controller finds out
            assert time.monotonic() < end, "SLURM does not miss its node"
            time.sleep(1)
        assert len(pending(slurm)) == 3  # queued again by SLURM itself
        daemon.unlink(missing_ok=True)
        name = ask("hostname", conf=slurm).strip()
        subprocess.run(["slurmd", "-N", name], env=environment(SLURM_CONF=slurm), check=True)
        table, told = finish(sweep, slurm)
    assert sweep.returncode == 0 and "3 units: 3 done" in table, told
    assert told.count("submitted job") == 1
    assert resumed(tmp_path) and all(0 < r["training"]["resumed_from"][0] < STEPS for r in resumed(tmp_path))
    assert metrics(tmp_path) == calm


def test_scancel_interrupts_a_unit_and_the_next_sweep_resumes_it(tmp_path, slurm, calm):
    with started(tmp_path, *sweep_words(tmp_path), SLURM_CONF=slurm) as sweep:
        lease = training(tmp_path)
        ask("scancel", lease["job"].split()[-1], conf=slurm)
        table, told = finish(sweep, slurm)
    assert sweep.returncode == 1 and "3 units: 2 done, 1 interrupted" in table, told
    (lost,) = [record for record in records(tmp_path).values() if record["status"] == "interrupted"]
    assert any((tmp_path / "results").glob(f"*/*/*/split*-{lost['key'][:8]}/checkpoint.npz"))
    empty_queue(slurm)
    again = dgpbench(tmp_path, *sweep_words(tmp_path), SLURM_CONF=slurm, seconds=300)
    assert again.returncode == 0 and "1 to run" in again.stderr and "3 units: 3 done" in again.stdout
    assert records(tmp_path)[lost["model"], lost["split"], lost["seed"]]["training"]["resumed_from"]
    assert metrics(tmp_path) == calm


def test_requeue_goes_on_from_the_checkpoint_within_one_sweep(tmp_path, slurm, calm):
    with started(tmp_path, *sweep_words(tmp_path), SLURM_CONF=slurm) as sweep:
        lease = training(tmp_path)
        ask("scontrol", "requeue", lease["job"].split()[-1], conf=slurm)
        table, told = finish(sweep, slurm)
    assert sweep.returncode == 0 and "3 units: 3 done" in table, told
    (again,) = resumed(tmp_path)
    assert again["key"] == lease["key"] and 0 < again["training"]["resumed_from"][0] < STEPS
    assert metrics(tmp_path) == calm


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGHUP], ids=["SIGKILL", "SIGHUP"])
def test_the_jobs_outlive_a_waiting_sweep_and_the_next_one_waits_for_them(tmp_path, slurm, calm, death):
    with started(tmp_path, *sweep_words(tmp_path), SLURM_CONF=slurm) as sweep:
        training(tmp_path)
        sweep.send_signal(death)
        sweep.communicate()
    assert sweep.returncode != 0
    with started(tmp_path, *sweep_words(tmp_path), SLURM_CONF=slurm) as second:
        table, told = finish(second, slurm)
    assert "units are in the queue already" in told and "submitted" not in told, told
    assert second.returncode == 0 and "3 units: 3 done" in table
    assert not resumed(tmp_path)  # no job was disturbed
    assert metrics(tmp_path) == calm
