"""launcher=slurm: job arrays whose tasks are `dgpbench worker` calls, and a look at how they fare.

The records decide what is done; the queue only tells which units may still come. A task that has left the
queue ends the wait for its units, whatever became of it, so that no wait is without end.
"""

from __future__ import annotations

import math
import os
import pwd
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

from dgpbench.data.atomic_files import write_json
from dgpbench.errors import Interrupted, UserError
from dgpbench.store.record import is_hash
from dgpbench.store.trust import code_packages
from dgpbench.store.untrusted import parse_json, read_regular
from dgpbench.sweep.plan import SWEEPS, Plan
from dgpbench.sweep.pool import record_lost
from dgpbench.sweep.state import Observer

if TYPE_CHECKING:
    from dgpbench.sweep.launch import Watcher

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
LEAD = 30  # seconds on top of the grace between SLURM's warning and its time limit
START = 120  # seconds a job may take to get going
BLIND = 600.0  # seconds without an answer from the queue after which we stop looking
RESOURCES = ("cpus", "gpus", "memory", "timeout", "grace", "partition", "account", "options", "bundle")


def run_slurm(plan: Plan, indices: Sequence[int], *, force: bool, watcher: Watcher, detach: bool) -> bool:
    """Submit the units that are not queued yet and, unless detached, wait for all; whether it waited."""
    observer = Observer(plan)
    before = {index: state.mark for index, state in observer.look(indices).items()}
    waiting = queued_units(plan.results, queue() or {})
    tasks = {i: waiting[plan.units[i].key] for i in indices if plan.units[i].key in waiting}
    fresh = [i for i in indices if i not in tasks]
    if tasks:
        watcher.say(f"{len(tasks):,} units are in the queue already")
    try:
        for group in _groups(plan, fresh):
            for submitted in _submit(plan, group, force, watcher):
                tasks |= submitted
    except UserError as error:
        if not tasks:
            raise
        watcher.say(f"{error}; the same command submits the rest later")
    if detach:
        print(f"{len(tasks):,} units in the queue; dgpbench status --watch shows how far they are")
        return False
    try:
        _wait(plan, tasks, before, observer, force, watcher)
    except KeyboardInterrupt:
        jobs = sorted({task.partition("_")[0] for task in tasks.values()})
        text = f"the jobs go on; dgpbench status shows how far they are, scancel {' '.join(jobs)} ends them"
        raise Interrupted(signal.SIGINT, text=text) from None
    return True


# ---- submitting ------------------------------------------------------------------------------------------


def _groups(plan: Plan, indices: Sequence[int]) -> list[list[int]]:
    """Units that need the same of the cluster share arrays."""
    found: dict[str, list[int]] = {}
    for index in indices:
        settings = plan.settings[plan.units[index].config]
        found.setdefault(repr([getattr(settings, name) for name in RESOURCES]), []).append(index)
    return list(found.values())


def _submit(plan: Plan, indices: Sequence[int], force: bool, watcher: Watcher) -> Iterator[dict[int, str]]:
    """Submit units of one kind in arrays of the size the cluster takes; for each array its units' tasks."""
    settings = plan.settings[plan.units[indices[0]].config]
    bundles = [list(indices[i : i + settings.bundle]) for i in range(0, len(indices), settings.bundle)]
    size = min(settings.max_array or array_limit(), array_limit())
    for start in range(0, len(bundles), size):
        part = bundles[start : start + size]
        folder = _own_folder(plan.home / "slurm")
        (folder / "units.txt").write_text("".join(" ".join(map(str, b)) + "\n" for b in part))
        script = folder / "job.sh"
        script.write_text(_script(plan, folder, settings, force))
        job = submit(*_options(plan, folder, settings, len(part)), str(script))
        keys = [[plan.units[i].key for i in bundle] for bundle in part]
        write_json(folder / "job.json", {"job": job, "keys": keys})
        watcher.say(f"submitted job {job}: {sum(map(len, part)):,} units in {len(part):,} tasks")
        yield {i: f"{job}_{task}" for task, bundle in enumerate(part) for i in bundle}


def _own_folder(home: Path) -> Path:
    """A new folder 0, 1, 2 ... for one submission."""
    home.mkdir(parents=True, exist_ok=True)
    number = len(list(home.iterdir()))
    while True:
        try:
            (home / str(number)).mkdir()
            return (home / str(number)).resolve()
        except FileExistsError:
            number += 1


def _options(plan: Plan, folder: Path, settings: SimpleNamespace, tasks: int) -> list[str]:
    at_once = f"%{settings.parallel}" if settings.parallel else ""
    options = {
        "job-name": PREFIX + plan.name,
        "array": f"0-{tasks - 1}{at_once}",
        "output": f"{folder}/%a.out",
        "open-mode": "append",
        "cpus-per-task": settings.cpus,
        "signal": f"B:USR1@{math.ceil(settings.grace) + LEAD}",
        "partition": settings.partition,
        "account": settings.account,
        "mem": f"{math.ceil(settings.memory * 1100 + 300)}M" if settings.memory else None,
        "time": _minutes(settings) if settings.timeout else None,
        "gpus": settings.gpus or None,
    }
    given = [f"--{name}={value}" for name, value in options.items() if value is not None]
    return [*given, "--requeue" if settings.requeue else "--no-requeue", *map(str, settings.options)]


def _minutes(settings: SimpleNamespace) -> int:
    """A time limit that our own, softer one always precedes."""
    seconds = settings.timeout * 60 * settings.bundle + 2 * settings.grace + START + LEAD + 60
    return math.ceil(seconds / 60)


def _script(plan: Plan, folder: Path, settings: SimpleNamespace, force: bool) -> str:
    package = str(Path(__file__).resolve().parents[2])
    worker = [sys.executable, "-m", "dgpbench", "worker", str((plan.home / "plan.json").resolve())]
    allow = [word for package in code_packages(plan.configs) for word in ("--allow", package)]
    lines = [
        "#!/bin/sh",
        f"cd {shlex.quote(plan.cwd)} || exit 2",
        f'export PYTHONPATH={shlex.quote(package)}"${{PYTHONPATH:+:$PYTHONPATH}}"',
        *([settings.setup] if settings.setup else []),
        f'units=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" {shlex.quote(str(folder / "units.txt"))})',
        f"exec {shlex.join([*worker, *allow])} {'--force ' if force else ''}$units",
    ]
    return "\n".join(lines) + "\n"


def queued_units(results: Path, tasks: dict) -> dict[str, str]:
    """The units in the queue, of whatever sweep of this results folder: key and task."""
    jobs = {task.partition("_")[0] for task in tasks}
    found: dict[str, str] = {}
    for path in (Path(results) / SWEEPS).glob("*/slurm/*/job.json") if jobs else ():
        try:
            submission = parse_json(read_regular(path))
            ours = submission["keys"] if submission["job"] in jobs else ()
            if not all(is_hash(key) for keys in ours for key in keys):
                continue
        except (OSError, ValueError, KeyError, TypeError):
            continue
        for number, keys in enumerate(ours):
            if (task := f"{submission['job']}_{number}") in tasks:
                found |= dict.fromkeys(keys, task)
    return found


# ---- waiting ---------------------------------------------------------------------------------------------


def _wait(
    plan: Plan, tasks: dict[int, str], before: dict, observer: Observer, force: bool, watcher: Watcher
) -> None:
    """Return when every unit's task has left the queue and its record is seen, or has not come in time."""
    settings = plan.launcher
    left, seen = dict(tasks), time.monotonic()
    gone: dict[int, float] = {}
    while left:
        listed = queue()
        now = time.monotonic()
        if listed is None and now - seen > BLIND:
            raise UserError(
                "the queue does not answer; the jobs may go on: dgpbench status shows what they do"
            )
        seen = now if listed is not None else seen
        pending = {task for task, queued in (listed or {}).items() if queued.state == "PD"}
        states = observer.look([index for index, task in left.items() if task not in pending])
        for index, state in states.items():
            fresh = state.mark is not None and state.mark != before.get(index)
            waits = listed is None or left[index] in listed
            if state.status == "done" and (fresh or not force):
                watcher.ended(index, "done", None)
            elif waits:
                gone.pop(index, None)
                continue
            elif fresh and state.status not in ("running", "stale"):
                watcher.ended(index, state.status, state.reason)
            elif now - gone.setdefault(index, now) < settings.settle:
                continue
            else:
                unit = record_lost(plan, index, *verdict(left[index]))
                watcher.ended(index, unit.record.status, unit.record.reason)
            del left[index]
        if left and listed is not None and not gone and _hopeless(listed, left):
            raise UserError(
                f"{len(left):,} units cannot start: {_reasons(listed, left)}; change the settings of "
                "launcher, scancel the jobs and sweep again"
            )
        if left:
            watcher.show(
                sum(state.status == "running" for state in states.values()), _reasons(listed or {}, left)
            )
            time.sleep(settings.poll)


def _hopeless(listed: dict, left: dict) -> bool:
    tasks = [listed[task] for task in left.values() if task in listed]
    return bool(tasks) and all(task.state == "PD" and task.reason.strip("()") in NEVER for task in tasks)


def _reasons(listed: dict, left: dict) -> str:
    """Why tasks wait, as the queue tells it."""
    found = {listed[task].reason for task in left.values() if task in listed and listed[task].state == "PD"}
    return f"  waiting for: {', '.join(sorted(found))}" if found - {"None"} else ""


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
