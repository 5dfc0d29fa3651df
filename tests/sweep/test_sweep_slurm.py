"""The SLURM launcher against a queue that the test plays; tests/cluster has the real one."""

import os
import stat
import subprocess

import pytest
from sweep_tools import data, write_data

from dgpbench.errors import UserError
from dgpbench.sweep import slurm
from dgpbench.sweep import slurm as slurm_queue
from dgpbench.sweep.launch import Watcher
from dgpbench.sweep.planner import make_plan
from dgpbench.sweep.pool import record_outcome
from dgpbench.sweep.slurm import Queued
from dgpbench.sweep.state import Observer


class Cluster:
    """Takes jobs; its queue is a list of what it answers, the last answer for ever."""

    def __init__(self, monkeypatch, limit=1000):
        self.jobs, self.answers = [], [{}]
        monkeypatch.setattr(slurm, "submit", self.submit)
        monkeypatch.setattr(slurm, "array_limit", lambda: limit)
        monkeypatch.setattr(slurm, "queue", self.queue)

    def queue(self):
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def submit(self, *options):
        self.jobs.append(options)
        return str(100 + len(self.jobs))


@pytest.fixture
def here(tmp_path, monkeypatch):
    write_data(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plan_of(here, *words):
    fast = ["launcher=slurm", "launcher.poll=0.01", "launcher.settle=0.5"]
    return make_plan([*data(here), *fast, *words], fetch=True, note=print)


def launch(plan, indices=None, detach=False, force=False):
    plan.save()
    indices = range(len(plan.units)) if indices is None else indices
    watcher = Watcher(plan, list(indices), quiet=True)
    return slurm.run_slurm(plan, list(indices), force=force, watcher=watcher, detach=detach)


def options_of(job) -> dict:
    return dict(word[2:].split("=", 1) for word in job if word.startswith("--") and "=" in word)


def test_arrays_of_the_size_the_cluster_takes(here, monkeypatch):
    cluster = Cluster(monkeypatch, limit=8)
    plan = plan_of(here, "model=linear", "launcher.parallel=4")
    assert launch(plan, detach=True) is False
    assert [options_of(job)["array"] for job in cluster.jobs] == ["0-7%4", "0-7%4", "0-3%4"]
    lines = [open(job[-1].replace("job.sh", "units.txt")).read().split() for job in cluster.jobs]
    assert sum(lines, []) == [str(i) for i in range(20)]


def test_what_a_job_asks_for(here, monkeypatch):
    cluster = Cluster(monkeypatch)
    words = [
        "launcher.timeout=60",
        "launcher.memory=4",
        "launcher.gpus=1",
        "launcher.partition=long",
        "launcher.bundle=2",
        'launcher.options=["--qos=low"]',
        "launcher.setup='module load cuda'",
        "launcher.grace=30",
        "launcher.models.dgp2.partition=big",
        "launcher.models.dgp2.timeout=600",
    ]
    launch(plan_of(here, "model=linear,dgp2", "split=0,1,2", *words), detach=True)
    small, large = map(options_of, cluster.jobs)
    assert (small["partition"], large["partition"]) == ("long", "big")
    assert small["array"] == large["array"] == "0-1"  # three units in bundles of two
    assert small["mem"] == "4700M" and small["gpus"] == "1" and small["qos"] == "low"
    assert int(small["time"]) * 60 >= 2 * 3600 + 120 and int(large["time"]) > 10 * int(small["time"]) / 2
    assert small["signal"] == "B:USR1@60" and "--requeue" in cluster.jobs[0]
    script = open(cluster.jobs[0][-1]).read()
    assert script.index("module load cuda") < script.index("exec ") and "dgpbench worker" in script
    assert subprocess.run(["sh", "-n", cluster.jobs[0][-1]]).returncode == 0


def test_the_script_runs_the_units_of_its_task(here, monkeypatch):
    cluster = Cluster(monkeypatch)
    plan = plan_of(here, "model=linear", "split=range(5)", "launcher.bundle=2", "protocol.draws=20")
    launch(plan, detach=True)
    env = os.environ | {"SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_JOB_ID": "101"}
    done = subprocess.run(["sh", cluster.jobs[0][-1]], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    states = Observer(plan).look()
    assert [states[i].status for i in range(5)] == ["missing", "missing", "done", "done", "missing"]


def test_units_in_the_queue_are_not_submitted_again(here, monkeypatch):
    cluster = Cluster(monkeypatch)
    plan = plan_of(here, "model=linear", "split=0,1,2")
    launch(plan, detach=True)
    cluster.answers = [{"101_0": Queued("R", "None"), "101_2": Queued("PD", "Priority")}]
    launch(plan_of(here, "model=linear", "split=0,1,2,3"), detach=True)  # another sweep that shares units
    assert open(cluster.jobs[1][-1].replace("job.sh", "units.txt")).read().split() == ["1", "3"]


def test_a_task_that_ends_without_a_record_is_recorded_and_a_late_record_is_waited_for(here, monkeypatch):
    cluster = Cluster(monkeypatch)
    plan = plan_of(here, "model=linear", "split=0,1,2")
    monkeypatch.setattr(slurm, "verdict", lambda task: ("interrupted", f"job {task} ended as node_fail"))
    waiting = {f"101_{i}": Queued("R", "None") for i in range(3)}
    cluster.answers = [{}, waiting, None, {"101_0": waiting["101_0"]}, *[{}] * 10]
    looks = []
    real = Observer.look

    def look(self, indices=None):
        looks.append(1)
        if len(looks) == 8:  # some looks after its task has gone: a file system that is late
            record_outcome(plan, 1, "failed", "no luck")
        return real(self, indices)

    monkeypatch.setattr(Observer, "look", look)
    assert launch(plan) is True
    states = real(Observer(plan))
    assert [states[i].status for i in range(3)] == ["interrupted", "failed", "interrupted"]
    assert states[2].reason == "job 101_2 ended as node_fail" and states[1].reason == "no luck"


def test_an_old_verdict_is_not_taken_for_the_new_one(here, monkeypatch):
    cluster = Cluster(monkeypatch)
    plan = plan_of(here, "model=linear", "split=0")
    record_outcome(plan, 0, "failed", "long ago")
    killed = "oom", "job 101_0 was killed by SLURM: out of memory"
    monkeypatch.setattr(slurm, "verdict", lambda task: killed)
    cluster.answers = [{}, {"101_0": Queued("R", "None")}, {}]
    launch(plan)
    assert Observer(plan).look()[0].status == "oom"


def test_jobs_that_can_never_start_end_the_wait(here, monkeypatch):
    cluster = Cluster(monkeypatch)
    cluster.answers = [{}, {"101_0": Queued("PD", "PartitionTimeLimit")}]
    with pytest.raises(UserError, match="1 units cannot start.*PartitionTimeLimit"):
        launch(plan_of(here, "model=linear", "split=0"))


def test_a_queue_that_does_not_answer_ends_the_wait(here, monkeypatch):
    cluster = Cluster(monkeypatch)
    monkeypatch.setattr(slurm, "BLIND", 0.2)
    cluster.answers = [{}, None]
    with pytest.raises(UserError, match="the queue does not answer"):
        launch(plan_of(here, "model=linear", "split=0"))


def test_what_sbatch_refuses_after_some_arrays_is_left_for_later(here, monkeypatch):
    cluster = Cluster(monkeypatch, limit=2)
    plan, told = plan_of(here, "model=linear", "split=0,1,2"), []

    def submit(*options):
        if cluster.jobs:
            raise UserError("sbatch refused the jobs: too many jobs")
        return cluster.submit(*options)

    monkeypatch.setattr(slurm, "submit", submit)
    monkeypatch.setattr(Watcher, "say", lambda self, text: told.append(text))
    launch(plan, detach=True)
    assert any("too many jobs; the same command submits the rest later" in text for text in told)


STATES = {
    "JobState=OUT_OF_MEMORY ExitCode=0:125": "oom",
    "JobState=TIMEOUT ExitCode=0:0": "timeout",
    "JobState=NODE_FAIL ExitCode=0:0": "interrupted",
    "JobState=CANCELLED ExitCode=0:15": "interrupted",
    "JobState=FAILED ExitCode=0:9": "interrupted",
    "JobState=FAILED ExitCode=2:0": "failed",
    "JobState=COMPLETED ExitCode=0:0": "interrupted",
}


@pytest.mark.parametrize("answer", STATES)
def test_what_the_end_of_a_job_means(answer, tmp_path, monkeypatch):
    fake(tmp_path, monkeypatch, scontrol=f"echo JobId=5 {answer}")
    status, reason = slurm_queue.verdict("5_1")
    assert status == STATES[answer] and "job 5_1" in reason


def fake(folder, monkeypatch, **commands):
    for name, body in commands.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_sacct_answers_where_scontrol_has_forgotten_and_may_be_missing(tmp_path, monkeypatch):
    fake(tmp_path, monkeypatch, scontrol="exit 1", sacct="echo 'OUT_OF_MEMORY|0:125'")
    assert slurm_queue.verdict("5_1")[0] == "oom"
    fake(tmp_path, monkeypatch, sacct="exit 1")
    assert slurm_queue.verdict("5_1") == ("interrupted", "job 5_1 has left the queue without a record")


def test_a_command_that_hangs_is_given_up(tmp_path, monkeypatch):
    fake(tmp_path, monkeypatch, squeue="sleep 60")
    monkeypatch.setattr(slurm_queue, "SECONDS", 0.3)
    assert slurm_queue.queue() is None


def test_the_queue_is_read_and_other_jobs_are_left_out(tmp_path, monkeypatch):
    lines = "7_0|R|None|dgpbench-ab\\n9|R|None|other\\n7_1|PD|Priority|dgpbench-ab\\n"
    fake(tmp_path, monkeypatch, squeue=f"printf '{lines}'", scontrol="echo 'MaxArraySize            = 77'")
    assert slurm_queue.queue() == {"7_0": Queued("R", "None"), "7_1": Queued("PD", "Priority")}
    assert slurm_queue.array_limit() == 77


def test_sbatch_refusing_is_one_clear_line(tmp_path, monkeypatch):
    fake(tmp_path, monkeypatch, sbatch="echo 'sbatch: error: invalid partition specified: nope' >&2; exit 1")
    with pytest.raises(UserError, match="sbatch refused the jobs: .*invalid partition"):
        slurm_queue.submit("x")
