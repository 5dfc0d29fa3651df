"""Words of a SLURM sweep, questions to the queue, and a way around the wait before a requeued job."""

import subprocess

from sweep_tools import environment

SLURM = [
    "launcher=slurm",
    "launcher.poll=1",
    "launcher.settle=3",
    "launcher.partition=low",
    "launcher.grace=15",
]


def ask(*words: str, conf: str) -> str:
    env = environment(SLURM_CONF=conf)
    return subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout


def pending(conf: str) -> list[str]:
    """The tasks that wait in the queue."""
    return ask("squeue", "-hr", "-tPD", "-o%i", conf=conf).split()


def hurry(conf: str) -> None:
    """Let every waiting task start now: SLURM holds a requeued job back for two minutes."""
    for task in pending(conf):
        words = ["scontrol", "update", f"jobid={task}", "StartTime=now"]
        subprocess.run(words, capture_output=True, env=environment(SLURM_CONF=conf))
