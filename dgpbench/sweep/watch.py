"""Output of a running sweep: a live line with the time left, and a line for each unit that fails."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from statistics import median

from dgpbench.plain_text import visible
from dgpbench.progress import NotebookBar, clock, in_notebook
from dgpbench.sweep.costs import Costs
from dgpbench.sweep.plan import Plan
from dgpbench.sweep.state import find_record
from dgpbench.sweep.table import REASON, steps_text

LINE_SECONDS = 10.0  # between lines when stderr is no terminal
LIVE_SECONDS = 0.5


class Watcher:
    """Watcher of a sweep.

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

    def started(self, index: int, slot) -> None:
        self.running[index] = time.monotonic()
        if self.verbose:
            self.say(f"started: {self.plan.label(index)} in process {slot.child.pid}")

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

    def tick(self, slots) -> None:
        busy = [slot for slot in slots if slot.index is not None]
        for slot in busy:
            self.running[slot.index] = slot.began  # without the start of the process
            left, before = slot.progress.get("left"), self._told.get(slot.index)
            if left is not None and (before is None or before[0] is not slot.progress):
                self._told[slot.index] = slot.progress, time.monotonic() + left
        self.show(len(busy), "".join(steps_text(slot.progress) for slot in busy[:2]))

    def _learn(self, index: int, status: str) -> None:
        """Take the time of a finished unit: as seen here, else as recorded."""
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
    """Tell the user. Where nobody listens any more (`2>&1 | head`, a terminal that was closed) the sweep goes
    on."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        pass
