"""A real SLURM: a sweep of eight units, one of which fails, one is killed, one is preempted and resumes."""

import os
import time

import psutil
from cluster_units import STEPS, UNITS
from slurm_tools import SLURM, ask, hurry, pending
from sweep_tools import data, dgpbench, metrics, records, started, training


def test_fail_kill_preempt_resume_and_nothing_twice(tmp_path, slurm):
    arguments = ["sweep", *data(tmp_path), *UNITS, *SLURM]
    with started(tmp_path, *arguments, SLURM_CONF=slurm) as first:
        lease = training(tmp_path)
        killed = lease["job"]
        twin = dgpbench(tmp_path, *arguments, "--detach", SLURM_CONF=slurm)  # while the first one still waits
        assert "are in the queue already" in twin.stderr and "submitted" not in twin.stderr, twin.stderr
        child = psutil.Process(lease["pid"])
        worker = child.parent()
        for process in (worker, child):  # neither can say a last word, as on a lost node
            process.suspend()
        for process in (worker, child):
            process.kill()
        preempted = training(tmp_path, but=[killed])["job"]
        ask("sbatch", "--partition=high", "--ntasks=2", "--output=/dev/null", "--wrap", "sleep 1", conf=slurm)
        end = time.monotonic() + 60
        while preempted not in pending(slurm):
            assert time.monotonic() < end, "nothing was preempted"
            time.sleep(0.5)
        while first.poll() is None:
            hurry(slurm)
            time.sleep(1)
        table, told = first.communicate()
    print(told, table)  # for docs/clusters.md
    assert first.returncode == 1
    assert "8 units: 6 done, 1 failed, 1 interrupted" in table
    assert told.count("submitted job") == 2  # arrays of five: eight units are two arrays
    found = records(tmp_path)
    assert found["stub_fail", 1, 0]["reason"].startswith("RuntimeError: no luck today (")
    (lost,) = [record for record in found.values() if record["status"] == "interrupted"]
    assert lost["reason"].startswith(f"job {killed} was killed (signal 9)")
    resumed = [r for r in found.values() if r["training"].get("resumed_from")]
    assert resumed and all(0 < r["training"]["resumed_from"][0] < STEPS for r in resumed)

    second = dgpbench(tmp_path, *arguments, SLURM_CONF=slurm, seconds=200)
    assert "1 to run" in second.stderr and second.stderr.count("submitted job") == 1
    assert "8 units: 7 done, 1 failed" in second.stdout and second.returncode == 1
    while ask("squeue", "-hr", conf=slurm):  # a record is done a moment before its job is
        time.sleep(0.5)
    third = dgpbench(tmp_path, *arguments, SLURM_CONF=slurm)
    assert "0 to run" in third.stderr and "submitted" not in third.stderr and third.returncode == 1
    assert ask("squeue", "-hr", conf=slurm) == ""

    calm = tmp_path / "calm"
    calm.mkdir()
    (calm / "data.csv").write_bytes((tmp_path / "data.csv").read_bytes())
    local = dgpbench(calm, "sweep", *data(calm), *UNITS, "threads=1", seconds=300)
    assert local.returncode == 1 and metrics(calm) == metrics(tmp_path)


def test_a_missing_sbatch_is_one_clear_line(tmp_path):
    places = os.environ["PATH"].split(os.pathsep)
    nowhere = os.pathsep.join(place for place in places if not os.path.exists(f"{place}/sbatch"))
    done = dgpbench(tmp_path, "sweep", *data(tmp_path), "model=linear", "launcher=slurm", PATH=nowhere)
    assert done.returncode == 2 and "needs the command sbatch" in done.stderr


def test_a_job_near_its_time_limit_queues_itself_again_and_goes_on(tmp_path, slurm):
    steps = 300_000  # more than two minutes' worth, less than three times that
    units = [word for word in UNITS if not word.startswith(("model=", "split=", "budget."))]
    units += ["model=small_sgp", "split=0", f"budget.steps={steps}"]
    limit = ["launcher.grace=5", 'launcher.options=["--time=2"]']
    with started(tmp_path, "sweep", *data(tmp_path), *units, *SLURM[:-1], *limit, SLURM_CONF=slurm) as first:
        while first.poll() is None:
            hurry(slurm)
            time.sleep(1)
        table, told = first.communicate()
    assert first.returncode == 0 and told.count("submitted job") == 1, told
    record = records(tmp_path)["small_sgp", 0, 0]
    assert record["training"]["resumed_from"] and record["training"]["steps"] == steps
