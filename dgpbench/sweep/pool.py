"""Pool of child processes that run units; each unit ends in a record.

The same pool serves all launchers. `launcher=local` gives it all units, a cluster's task a few (`run_task`).
`record_outcome` records units that could not do so themselves: killed, out of memory, out of time, refused.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dgpbench.config.keys import run_key
from dgpbench.errors import Interrupted, UserError
from dgpbench.machine import git_commit, processor, versions, visible_gpus
from dgpbench.store.record import build_record
from dgpbench.store.scan import Unit
from dgpbench.store.write import ensure_writable, write_unit
from dgpbench.sweep import lease as leasing
from dgpbench.sweep.lease import drop_stale
from dgpbench.sweep.plan import Plan
from dgpbench.sweep.process import Child, StopSignals, death, oom_kills
from dgpbench.sweep.state import Observer, find_record, timed

if TYPE_CHECKING:
    from dgpbench.sweep.launch import Watcher

TICK = 0.25  # seconds between two looks at clocks and memory
ELSEWHERE = 60.0  # seconds to wait for units that another process runs
REUSABLE = ("done", "failed", "diverged")  # ends after which a process is as good as new
KILLED = (-signal.SIGKILL, -signal.SIGTERM)
MAX_START_FAILURES = 3  # children that die before their first word


class Slot:
    """A place for one child, and the unit it runs."""

    def __init__(self, gpu: str | None = None):
        self.gpu, self.ready = gpu, False
        self.child: Child | None = None
        self.index: int | None = None
        self.lease: leasing.Lease | None = None
        self.began = self.beat = 0.0
        self.oom_before = 0
        self.verdict: tuple[str, str] | None = None  # status and reason, where we have killed the child
        self.progress: dict = {}

    @property
    def busy(self) -> tuple[int, Child, leasing.Lease]:
        """The unit, its process and its lease: who runs a unit has all three."""
        assert self.index is not None and self.child is not None and self.lease is not None
        return self.index, self.child, self.lease


class Pool:
    """`run` returns when every unit has ended, or the user asks to stop."""

    def __init__(
        self,
        plan: Plan,
        workers: int,
        gpus: Sequence[str] = (),
        *,
        force: bool = False,
        job: str | None = None,
        until: float = float("inf"),
        watcher: Watcher | None = None,
    ):
        self.plan, self.force, self.job, self.watcher = plan, force, job, watcher
        self.until = until  # of time.monotonic(): then it stops as if asked by SIGALRM
        self.slots = [Slot(gpus[i] if gpus else None) for i in range(workers)]
        self.queue: deque[int] = deque()
        self.elsewhere: deque[int] = deque()
        self.attempts: Counter[int] = Counter()
        self.alone: set[int] = set()  # units that are to have a process of their own
        self.signals: list[int] = []  # received; the first asks units to stop, the second kills them
        self.kill_at = float("inf")
        self.start_failures = self.unfinished = 0
        self.told = False  # that we wait for others
        self.observer = Observer(plan)

    def run(self, indices: Sequence[int]) -> None:
        """Run the units; raises Interrupted if a signal stopped it, UserError if nothing can be stored."""
        self.queue = deque(indices)
        waited = None
        with StopSignals(self.signals):
            try:
                while True:
                    if time.monotonic() > self.until and not self.stopped:
                        self.signals.append(signal.SIGALRM)
                    self._dispatch()
                    busy = [slot for slot in self.slots if slot.index is not None]
                    if not busy:
                        waited = waited or time.monotonic()
                        if self.stopped or not self._wait_elsewhere(waited):
                            break
                        continue
                    waited = None
                    if self.stopped:
                        self._obey(busy)
                    self._listen(busy)
                    for slot in busy:
                        self._check(slot)
            finally:
                self._close()
        if self.stopped and (left := len(self.queue) + len(self.elsewhere) + self.unfinished):
            text = f"stopped by signal {self.stopped}, {left} units left; the same command goes on"
            raise Interrupted(self.stopped, text=text)

    @property
    def stopped(self) -> int:
        """The signal that asked us to stop, or 0."""
        return self.signals[0] if self.signals else 0

    # ---- giving out units ----------------------------------------------------------------------------

    def _dispatch(self) -> None:
        for slot in self.slots:
            while slot.index is None and self.queue and not self.stopped:
                self._start(slot, self.queue.popleft())

    def _start(self, slot: Slot, index: int) -> None:
        if not self.force and self.observer.look([index])[index].status == "done":
            self._tell("ended", index, "done", None)  # by another process, since the plan was made
            return
        threads = self.plan.configs[self.plan.units[index].config]["threads"]
        settings = self.plan.settings[self.plan.units[index].config]
        if slot.child is not None:
            used = slot.child.units > 0 and index in self.alone
            if used or slot.child.threads != threads or slot.child.ended() is not None:
                self._discard(slot)
        if slot.child is None:
            slot.child, slot.ready = Child(threads, slot.gpu, settings.grace, self.plan.cwd), False
        slot.lease = leasing.take(self.plan.results, self.plan.units[index].key, slot.child.pid, self.job)
        if slot.lease is None:
            self.elsewhere.append(index)
            return
        slot.index, slot.began, slot.beat = index, time.monotonic(), time.monotonic()
        slot.oom_before, slot.verdict, slot.progress = oom_kills(), None, {}
        timeout = settings.timeout * 60 if settings.timeout else None
        config, folder = self.plan.config(index), str(self.plan.folder(index))
        slot.child.order(config=config, force=self.force, timeout=timeout, folder=folder)
        self._tell("started", index, slot)

    def _wait_elsewhere(self, since: float) -> bool:
        """Wait a moment for units that other processes run and queue those that were given up; False if there
        is nothing more to wait for."""
        if not self.elsewhere:
            return False
        time.sleep(TICK)  # one that could not be taken is not asked for again at once
        states = self.observer.look(list(self.elsewhere))
        for index, state in states.items():
            if state.status != "running":
                self.elsewhere.remove(index)
                self.queue.append(index)
        if self.queue:
            return True
        if time.monotonic() - since > ELSEWHERE:
            return False
        if not self.told:
            self.told = True
            self._tell("say", f"{len(states)} units are run by other processes; waiting a minute for them")
        return True

    # ---- listening -----------------------------------------------------------------------------------

    def _listen(self, busy: Sequence[Slot]) -> None:
        children = {slot.busy[1]: slot for slot in busy}
        readable, _, _ = select.select(list(children), [], [], TICK)
        for child in readable:
            for answer in child.answers():
                self._hear(children[child], answer)
        self._tell("tick", self.slots)

    def _hear(self, slot: Slot, answer: dict) -> None:
        if "ready" in answer:  # starting up is not the unit's time
            slot.ready, slot.began, self.start_failures = True, time.monotonic(), 0
        elif "progress" in answer:
            slot.progress = answer["progress"]
        elif "status" in answer:
            status, reason = answer["status"], answer["reason"]
            if slot.verdict and status != "done":
                status, reason = slot.verdict
            more = {"traceback": answer["traceback"]} if "traceback" in answer else {}
            again = not answer.get("fatal") and self._once_more(slot, status)
            self._end(slot, status, reason, answer["recorded"], again, **more)
            if answer.get("fatal"):
                raise UserError(reason)
            if status not in REUSABLE:
                self._discard(slot)

    def _check(self, slot: Slot) -> None:
        """Time, memory and life of a busy slot."""
        if slot.index is None or slot.child is None:
            return
        index, child, lease = slot.busy
        settings = self.plan.settings[self.plan.units[index].config]
        now, code = time.monotonic(), child.ended()
        if code is not None:
            for answer in child.answers():  # said before it died
                self._hear(slot, answer)
            if slot.index is not None:
                self._died(slot, code)
            return
        if now - slot.beat > leasing.HEARTBEAT:
            slot.beat = now
            leasing.renew(self.plan.results, lease, slot.progress)
        limit = (settings.timeout or 0) * 60 + settings.grace
        if settings.timeout and now - slot.began > limit and not slot.verdict:
            reason = f"took more than {settings.timeout:g} minutes (launcher.timeout) and did not stop"
            slot.verdict = "timeout", f"{reason} when asked: killed after {settings.grace:g} s more"
            child.signal(signal.SIGKILL)
        used = child.memory() if settings.memory else 0.0
        if settings.memory and used > settings.memory and not slot.verdict:
            allowed = f"more than {settings.memory:g} GB (launcher.memory)"
            slot.verdict = "oom", f"used {used:.2f} GB, {allowed}: killed"
            child.signal(signal.SIGKILL)

    def _died(self, slot: Slot, code: int) -> None:
        if not slot.ready and code not in KILLED:
            self._not_started(slot, code)
            return
        status, reason = slot.verdict or death(code, oom_kills() - slot.oom_before)
        if self.stopped and not slot.verdict:
            status, reason = "interrupted", "stopped with the sweep; the same command resumes it"
        self._end(slot, status, reason, recorded=False, again=self._once_more(slot, status))
        self._discard(slot)

    def _not_started(self, slot: Slot, code: int) -> None:
        """A process that ends before its first word says nothing about the unit, which waits for another."""
        index, _, lease = slot.busy
        leasing.release(self.plan.results, lease)
        self.queue.appendleft(index)
        slot.index = slot.lease = None
        self._discard(slot)
        self.start_failures += 1
        if self.start_failures >= MAX_START_FAILURES:
            raise UserError(
                f"worker processes end before they begin (exit code {code}); "
                "`dgpbench doctor` checks the installation"
            )

    def _once_more(self, slot: Slot, status: str) -> bool:
        """True if a unit is tried again, in a fresh process: when it was stopped from outside, or took too
        much memory where earlier units may have left things behind."""
        index, child, _ = slot.busy
        settings = self.plan.settings[self.plan.units[index].config]
        self.attempts[index] += 1
        outside = status == "interrupted" and self.attempts[index] <= settings.retries
        crowded = status == "oom" and child.units > 1 and index not in self.alone
        if self.stopped or not (outside or crowded):
            return False
        self.alone.add(index)
        self.queue.appendleft(index)
        return True

    def _end(self, slot: Slot, status: str, reason, recorded: bool, again: bool = False, **details) -> None:
        index, _, lease = slot.busy
        if not recorded and not (again and status == "oom"):
            seconds = time.monotonic() - slot.began
            unit = record_outcome(self.plan, index, status, reason, seconds, **details)
            status, reason = unit.record.status, unit.record.reason
        leasing.release(self.plan.results, lease)
        slot.index = slot.lease = None
        self.unfinished += status == "interrupted" and not again
        self._tell("again" if again else "ended", index, status, reason)

    # ---- stopping ------------------------------------------------------------------------------------

    def _obey(self, busy: Sequence[Slot]) -> None:
        """Asked to stop: units write their checkpoints. Asked twice, or after the grace: they are killed."""
        now = time.monotonic()
        if self.kill_at == float("inf"):
            self.kill_at = now + max(settings.grace for settings in self.plan.settings)
            for slot in busy:
                slot.busy[1].signal(signal.SIGTERM)
        elif len(self.signals) > 1 or now > self.kill_at:
            for slot in busy:
                reason = "killed while stopping; the same command resumes it"
                slot.verdict = slot.verdict or ("interrupted", reason)
                slot.busy[1].signal(signal.SIGKILL)

    def _discard(self, slot: Slot) -> None:
        if slot.child is not None:
            slot.child.close()
        slot.child = None

    def _close(self) -> None:
        busy = [slot for slot in self.slots if slot.index is not None]  # only if we end with an error
        for slot in busy:
            slot.busy[1].signal(signal.SIGTERM)
        for slot in self.slots:
            if slot.child is not None:
                number = None if slot.index is None else self.plan.units[slot.index].config
                slot.child.close(5.0 if number is None else self.plan.settings[number].grace)  # checkpoints
        for slot in busy:
            leasing.release(self.plan.results, slot.busy[2])

    def _tell(self, event: str, *facts) -> None:
        if self.watcher is not None:
            getattr(self.watcher, event)(*facts)


def run_task(
    plan: Plan,
    indices: Sequence[int],
    *,
    force: bool = False,
    watcher: Watcher | None = None,
    job: str | None = None,
) -> None:
    """Run units one after another in one process of their own. SIGUSR1 says that the time limit is near: the
    unit writes its checkpoint, and the job asks to be queued again."""
    ensure_writable(plan.results)
    near: list[int] = []
    pool = Pool(plan, 1, gpus_of(plan, indices), force=force, job=job or slurm_job(), watcher=watcher)

    def limit(number, frame) -> None:
        near.append(number)
        pool.signals.append(signal.SIGTERM)

    before = signal.signal(signal.SIGUSR1, limit)
    try:
        pool.run(indices)
    except Interrupted:
        ours = plan.launcher.name == "slurm" and plan.launcher.requeue
        again = near and ours and not force  # with force it would begin again and again
        if not (again and _requeue(plan.launcher.requeues)):
            raise
    finally:
        signal.signal(signal.SIGUSR1, before)


def gpus_of(plan: Plan, indices: Sequence[int]) -> list[str]:
    """The GPUs that the cluster gave this job, all for its one process; none if no unit is to use one."""
    chosen = {plan.units[i].config for i in indices}
    wanted = any(plan.configs[c]["device"] != "cpu" and getattr(plan.settings[c], "gpus", 1) for c in chosen)
    found = ",".join(visible_gpus()) if wanted else ""
    return [found] if found else []


def slurm_job() -> str | None:
    """This job as squeue names it: 123, or 123_4 in an array."""
    array, task = (os.environ.get(f"SLURM_ARRAY_{name}") for name in ("JOB_ID", "TASK_ID"))
    return f"{array}_{task}" if array else os.environ.get("SLURM_JOB_ID")


def _requeue(limit: int) -> bool:
    """Ask SLURM to queue this job again, if it has not been for `limit` times; whether it will be."""
    if int(os.environ.get("SLURM_RESTART_COUNT") or 0) >= limit:
        return False
    command = ["scontrol", "requeue", os.environ.get("SLURM_JOB_ID", "")]
    try:
        return subprocess.run(command, capture_output=True, timeout=30).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def record_outcome(
    plan: Plan, index: int, status: str, reason: str, seconds: float | None = None, **details
) -> Unit:
    """Store how a unit ended; returns the record that stands, a done one if there was one after all.

    An interrupted unit has written sizes, notes and more itself: those stay, the verdict is ours.
    """
    cfg = plan.config(index)
    standing = find_record(plan, index)
    fields: dict[str, Any] = {"status": status, "reason": reason, "wall_seconds": seconds, "details": details}
    if standing and standing.record.status == "interrupted":
        kept = ("sizes", "notes", "training", "threads", "device", "deviations")
        fields |= {name: standing.record[name] for name in kept}
        cfg, key = standing.record.config, standing.record.key
    else:
        fields |= {"threads": cfg["threads"]}
        key = plan.units[index].key
        if timed(cfg):  # the unit did not live to say on what; most likely it was the processor
            cfg = cfg | {"device": f"cpu {processor()}"}
            key = run_key(cfg, plan.data_hash(index))
    record = build_record(
        cfg,
        key=key,
        config_key=plan.config_key(index),
        data_hash=plan.data_hash(index),
        versions=versions(),
        git_commit=git_commit(),
        **fields,
    )
    return write_unit(plan.results, record)


def record_lost(plan: Plan, index: int, status: str, reason: str) -> Unit:
    """Record the end of a unit whose whole job has gone, and drop its lease."""
    unit = record_outcome(plan, index, status, reason)
    drop_stale(plan.results, plan.units[index].key)
    return unit
