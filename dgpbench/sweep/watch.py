"""Output of a running sweep: a live line with rate and time left, and a line for each unit that fails."""

from __future__ import annotations

import sys
import time
from collections import Counter

from dgpbench.plain_text import visible
from dgpbench.progress import NotebookBar, clock, in_notebook
from dgpbench.sweep.plan import Plan
from dgpbench.sweep.table import REASON, steps_text

LINE_SECONDS = 10.0  # between lines when stderr is no terminal
LIVE_SECONDS = 0.5


class Watcher:
    """Watcher of a sweep: the pool tells it of each start and end, launchers that only look on of numbers."""

    def __init__(self, plan: Plan, total: int, quiet: bool = False, verbose: bool = False):
        self.plan, self.total, self.quiet, self.verbose = plan, total, quiet, verbose
        self.ends: Counter[str] = Counter()
        self.began = self._shown = time.monotonic()
        self._live = sys.stderr.isatty() and not quiet
        self._bar = NotebookBar(total) if in_notebook() and not quiet else None

    # ---- told by the pool ----------------------------------------------------------------------------

    def started(self, index: int, slot) -> None:
        if self.verbose:
            self.say(f"started: {self.plan.label(index)} in process {slot.child.pid}")

    def ended(self, index: int, status: str, reason: str | None) -> None:
        self.ends[status] += 1
        if status != "done" or self.verbose:
            why = f": {visible(reason, REASON)}" if reason else ""
            self.say(f"{status}: {self.plan.label(index)}{why}")

    def again(self, index: int, status: str, reason: str | None) -> None:
        self.say(f"{status}: {self.plan.label(index)}: {visible(reason or '', REASON)}; trying again")

    def tick(self, slots) -> None:
        busy = [slot for slot in slots if slot.index is not None]
        self.show(len(busy), "".join(steps_text(slot.progress) for slot in busy[:2]))

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
        ended, seconds = sum(self.ends.values()), now - self.began
        others = "".join(f", {n} {status}" for status, n in sorted(self.ends.items()) if status != "done")
        text = f"{self.ends['done']:,}/{self.total:,} done{others}, {running} running"
        if ended:
            rate = ended / seconds
            per = f"{rate:.2g}/s" if rate > 1 else f"{rate * 60:.2g}/min"
            text += f", {per}, about {clock((self.total - ended) / rate)} left"
        return text

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
