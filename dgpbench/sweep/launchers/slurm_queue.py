"""Answers of SLURM's own commands about our jobs. Every call has a time limit; no answer is None."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
from typing import NamedTuple

from dgpbench.errors import UserError

PREFIX = "dgpbench-"  # of our jobs' names
SECONDS = 30.0  # for one command
DEFAULT_ARRAY = 1000
NEVER = (
    "JobHeldUser",
    "JobHeldAdmin",
    "BadConstraints",
    "PartitionTimeLimit",
    "PartitionNodeLimit",
    "DependencyNeverSatisfied",
    "InvalidAccount",
    "InvalidQOS",
    "launch failed requeued held",
)


class Queued(NamedTuple):
    """A task in the queue: PD, R, CG ..., and why it waits."""

    state: str
    reason: str


def call(*command: str) -> str | None:
    """The output of a command, None if it is not there, fails or takes too long."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None


def queue() -> dict[str, Queued] | None:
    """Our tasks that wait or run, by their number (12_3); None if the queue cannot be asked."""
    user = pwd.getpwuid(os.getuid()).pw_name
    out = call("squeue", "--noheader", "--array", "--user", user, "--format", "%i|%t|%r|%j")
    if out is None:
        return None
    lines = (line.split("|", 3) for line in out.splitlines() if line.count("|") >= 3)
    return {task: Queued(state, reason) for task, state, reason, name in lines if name.startswith(PREFIX)}


def array_limit() -> int:
    """Largest number of tasks that an array may have here."""
    found = re.search(r"^MaxArraySize\s*=\s*(\d+)", call("scontrol", "show", "config") or "", re.M)
    return max(1, int(found[1])) if found and int(found[1]) else DEFAULT_ARRAY


def submit(*options: str) -> str:
    """sbatch; returns the job's number."""
    try:
        done = subprocess.run(
            ["sbatch", "--parsable", *options], capture_output=True, text=True, timeout=2 * SECONDS
        )
    except FileNotFoundError:
        raise UserError(
            "launcher=slurm needs the command sbatch, which is not here; log in to the cluster, "
            "or use launcher=local"
        ) from None
    except subprocess.SubprocessError as error:
        raise UserError(f"sbatch does not answer ({error}); is the cluster up?") from None
    if done.returncode:
        raise UserError(f"sbatch refused the jobs: {' '.join(done.stderr.split())}")
    return done.stdout.strip().split(";")[0]


def verdict(task: str) -> tuple[str, str]:
    """Status and reason of a unit whose task has left the queue without a record: scontrol knows for some
    minutes, sacct for longer where there is one."""
    state, code = _ended(task)
    if state.startswith("OUT_OF_ME"):
        return "oom", f"job {task} was killed by SLURM: out of memory"
    if state in ("TIMEOUT", "DEADLINE"):
        return "timeout", f"job {task} was killed by SLURM at its time limit"
    if state in ("CANCELLED", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "REVOKED"):
        return "interrupted", f"job {task} ended as {state.lower()}"
    if state == "FAILED" and not code.endswith(":0"):
        return "interrupted", f"job {task} was killed (signal {code.partition(':')[2]})"
    if state == "FAILED":
        return "failed", f"job {task} ended with exit code {code.partition(':')[0]}"
    if state == "COMPLETED":
        return "interrupted", (
            f"job {task} has completed, but no record is seen; do all nodes see this results folder?"
        )
    return "interrupted", f"job {task} has left the queue without a record"


def _ended(task: str) -> tuple[str, str]:
    """State and exit code (code:signal) of a task, empty if nobody knows any more."""
    if out := call("scontrol", "--oneliner", "show", "job", task):
        named, ended = (re.search(rf"\b{name}=(\S+)", out) for name in ("JobState", "ExitCode"))
        if named:
            return named[1], ended[1] if ended else "0:0"
    if out := call(
        "sacct", "--noheader", "--parsable2", "--allocations", "--jobs", task, "--format", "State,ExitCode"
    ):
        state, _, code = out.splitlines()[0].partition("|")
        return state.split()[0] if state else "", code
    return "", "0:0"
