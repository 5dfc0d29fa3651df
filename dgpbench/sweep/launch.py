"""Start the units of a plan on its launcher (this machine, SLURM or Ray), and show how far they are."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from statistics import median

from dgpbench.machine import usable_cores, visible_gpus
from dgpbench.plain_text import visible
from dgpbench.progress import NotebookBar, clock, in_notebook
from dgpbench.store.scan import Unit
from dgpbench.store.write import ensure_writable
from dgpbench.sweep.costs import Costs
from dgpbench.sweep.plan import Plan
from dgpbench.sweep.pool import Pool, Slot
from dgpbench.sweep.state import Observer, find_record, to_run
from dgpbench.sweep.status_table import REASON, steps_text
from dgpbench.trackers import check_tracker

LINE_SECONDS = 10.0  # between lines when stderr is no terminal
LIVE_SECONDS = 0.5


def launch(
    plan: Plan,
    todo: Sequence[int],
    *,
    force: bool = False,
    quiet: bool = False,
    verbose: bool = False,
    detach: bool = False,
) -> bool:
    """Run or submit the units; return False if they were only submitted."""
    watcher = Watcher(plan, todo, quiet, verbose)
    name = plan.launcher.name
    try:
        if name == "local":
            run_local(plan, todo, force=force, watcher=watcher)
        elif name == "slurm":
            from dgpbench.sweep.slurm import run_slurm

            return run_slurm(plan, todo, force=force, watcher=watcher, detach=detach)
        else:
            from dgpbench.sweep.ray import run_ray

            run_ray(plan, todo, force=force, watcher=watcher)
    finally:
        watcher.clear()
    return True


def complete(
    plan: Plan, *, retry: str = "missing", quiet: bool = True, verbose: bool = False
) -> list[Unit | None]:
    """Run the missing units of a plan; return the record of each unit, or None."""
    states = Observer(plan).look()
    todo = to_run(states, retry)
    if plan.launcher.name == "local" and retry != "none":  # their process may be about to let them go
        todo += [index for index, state in states.items() if state.status == "running"]
    if todo:
        from dgpbench.sweep.trial import check_models

        check_tracker(plan.configs[0])
        check_models(plan, todo, lambda text: None)
        ensure_writable(plan.results)
        plan.save()
        launch(plan, todo, force=retry == "all", quiet=quiet, verbose=verbose)
    return [find_record(plan, index) for index in range(len(plan.units))]


class Watcher:
    """Output of a running sweep: a live line with the time left, and a line for each unit that fails.

    The pool reports each start and end; SLURM and Ray report ends and how many units run. The time left is
    that of the units to come, each by the runs of its own model (`Costs`).
    """

    def __init__(
        self,
        plan: Plan,
        todo: Sequence[int],
        quiet: bool = False,
        verbose: bool = False,
        costs: Costs | None = None,
    ):
        self.plan, self.quiet, self.verbose = plan, quiet, verbose
        self.costs = costs or Costs(plan)
        self.total, self.ends = len(todo), Counter[str]()
        self._to_come = {number: set[int]() for number in {plan.units[i].config for i in todo}}
        for index in todo:
            self._to_come[plan.units[index].config].add(index)
        self.running: dict[int, float] = {}  # when each unit began
        self._told: dict[int, tuple[dict, float]] = {}  # what each unit last said, and when it will be done
        self._shown = time.monotonic()
        self._live = sys.stderr.isatty() and not quiet
        self._bar = NotebookBar(self.total) if in_notebook() and not quiet else None

    # ---- told by the pool ----------------------------------------------------------------------------

    def started(self, index: int, slot: Slot) -> None:
        self.running[index] = time.monotonic()
        if self.verbose:
            self.say(f"started: {self.plan.label(index)} in process {slot.busy[1].pid}")

    def ended(self, index: int, status: str, reason: str | None) -> None:
        self.ends[status] += 1
        self._to_come.get(self.plan.units[index].config, set()).discard(index)
        self._learn(index, status)
        if status != "done" or self.verbose:
            why = f": {visible(reason, REASON)}" if reason else ""
            self.say(f"{status}: {self.plan.label(index)}{why}")

    def again(self, index: int, status: str, reason: str | None) -> None:
        self.running.pop(index, None)
        self._told.pop(index, None)
        self.say(f"{status}: {self.plan.label(index)}: {visible(reason or '', REASON)}; trying again")

    def tick(self, slots: Sequence[Slot]) -> None:
        busy = [(slot.index, slot) for slot in slots if slot.index is not None]
        for index, slot in busy:
            self.running[index] = slot.began  # without the start of the process
            left, before = slot.progress.get("left"), self._told.get(index)
            if left is not None and (before is None or before[0] is not slot.progress):
                self._told[index] = slot.progress, time.monotonic() + left
        self.show(len(busy), "".join(steps_text(slot.progress) for _, slot in busy[:2]))

    def _learn(self, index: int, status: str) -> None:
        """Pass the time of a finished unit to the cost estimates: as measured here, else as recorded."""
        began, _ = self.running.pop(index, None), self._told.pop(index, None)
        if status != "done" or self.quiet:
            return
        seconds = None if began is None else time.monotonic() - began
        if seconds is None and (unit := find_record(self.plan, index)):
            seconds = unit.record.wall_seconds
        if seconds:
            self.costs.learn(index, seconds)

    # ---- showing -------------------------------------------------------------------------------------

    def show(self, running: int, detail: str = "") -> None:
        now = time.monotonic()
        if self.quiet or now - self._shown < (LIVE_SECONDS if self._live or self._bar else LINE_SECONDS):
            return
        self._shown = now
        line = self.line(running, now) + detail
        if self._bar:
            self._bar.update(completed=sum(self.ends.values()), description=line)
            return
        _write(f"\r\033[K{line}" if self._live else f"{line}\n")

    def line(self, running: int, now: float) -> str:
        others = "".join(f", {n} {status}" for status, n in sorted(self.ends.items()) if status != "done")
        text = f"{self.ends['done']:,}/{self.total:,} done{others}, {running} running"
        return text + self._left(max(1, running), now)

    def _left(self, workers: int, now: float) -> str:
        """', about 12:00 left', with how many units it does not include."""
        total = longest = 0.0
        known = unknown = 0
        for indices in self._to_come.values():
            if not indices:
                continue
            running = [index for index in indices if index in self.running]
            told = {index: self._told[index][1] for index in running if index in self._told}
            seconds = self.costs.one(next(iter(indices)))
            if told and self.plan.units[running[0]].config not in self.costs.here:
                seconds = median(end - self.running[index] for index, end in told.items())
            if seconds is None:
                unknown += len(indices)
                continue
            ends = [told.get(index, self.running[index] + seconds) for index in running]
            left = [max(0.0, end - now) for end in ends]
            waiting = len(indices) - len(running)
            known += len(indices)
            total += waiting * seconds + sum(left)
            longest = max(longest, seconds if waiting else max(left))
        text = f", about {clock(max(total / workers, longest))} left" if known else ""
        return text + (f", {unknown:,} unit{'' if unknown == 1 else 's'} of unknown cost" if unknown else "")

    def say(self, text: str) -> None:
        if not self.quiet:
            self.clear()
            _write(f"{text}\n")

    def clear(self) -> None:
        """Remove the live line or bar until it is shown again."""
        if self._bar:
            self._bar.stop()
        if self._live:
            _write("\r\033[K")


def _write(text: str) -> None:
    """Write to standard error; continue if it is closed (`2>&1 | head`, a closed terminal)."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        pass


def run_local(
    plan: Plan, indices: Sequence[int], *, force: bool, watcher: Watcher, until: float = float("inf")
) -> None:
    """Run the units on this machine, at most until a time of time.monotonic()."""
    workers, gpus = capacity(plan, len(indices))
    Pool(plan, workers, gpus, force=force, watcher=watcher, until=until).run(indices)


def capacity(plan: Plan, units: int) -> tuple[int, list[str]]:
    """Return the number of workers, and the GPU of each if there are GPUs.

    Without GPUs there are as many workers as cores and memory allow.
    """
    wanted = plan.launcher.workers
    gpus = [] if all(cfg["device"] == "cpu" for cfg in plan.configs) else visible_gpus()
    if gpus:
        count = min(wanted or len(gpus), units)
        return count, [gpus[i % len(gpus)] for i in range(count)]
    count = wanted or max(1, usable_cores() // max(cfg["threads"] for cfg in plan.configs))
    limits = [settings.memory for settings in plan.settings if settings.memory]
    if limits and not wanted:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
        count = max(1, min(count, int(total // max(limits))))
    return max(1, min(count, units)), []
