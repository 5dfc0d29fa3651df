"""Output of a run: its plan, a live line, notes, and a small table at the end.

The result goes to standard output, everything else to standard error.
"""

from __future__ import annotations

import math
import sys
import time
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from dgpbench.engine.context import Silent
from dgpbench.evaluate.metric_table import known_metrics

if TYPE_CHECKING:
    from dgpbench.store.record import Record

PLAIN_SECONDS = 10.0  # between lines when standard error is no terminal


def in_notebook() -> bool:
    """Return whether this is a Jupyter kernel, where a live line is drawn in HTML."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class NotebookBar:
    """A progress bar below the cell of a notebook; needs no widgets."""

    def __init__(self, total: float | None) -> None:
        from IPython.display import HTML, display

        self.total, self._html = total, HTML
        self._handle = display(HTML(""), display_id=True)

    def update(self, task: Any = None, *, completed: float, description: str) -> None:
        """Show how much is done and a line of text."""
        share = f' value="{min(completed / self.total, 1.0):.4f}" max="1"' if self.total else ""
        text = f"<progress{share}></progress> <code>{escape(description)}</code>"
        self._handle.update(self._html(text))

    def stop(self) -> None:
        """Remove the bar until the next update."""
        self._handle.update(self._html(""))


class Reporter(Silent):
    """verbosity -1: the result only; 0: normal; 1 and more: more notes and lines."""

    def __init__(
        self,
        verbosity: int = 0,
        out: Console | None = None,
        err: Console | None = None,
        expects: bool = False,
    ):
        self.verbosity, self.expects = verbosity, expects and verbosity >= 0
        self._out = out or Console(highlight=False)
        self._err = err or Console(stderr=True, highlight=False)
        self._bar: Any = None
        self._task: Any = None
        self._steps: int | None = None
        self._seconds: float | None = None
        self._began = self._last = 0.0
        self._line = ""

    def plan(self, lines: list[tuple[str, str]]) -> None:
        """Print the plan, given as (name, text) pairs."""
        if self.verbosity < 0:
            return
        width = max((len(name) for name, _ in lines), default=0)
        for name, text in lines:
            self._print(f"{name:<{width}}  {text}")

    def note(self, text: str) -> None:
        if self.verbosity >= 0:
            self._print(text)

    def start(self, total_steps: int | None, total_seconds: float | None) -> None:
        self._steps, self._seconds = total_steps, total_seconds
        self._began, self._last, self._line = time.monotonic(), -math.inf, ""
        self._open("compiling", total_steps if total_steps else total_seconds)

    def _open(self, text: str, total: float | None) -> None:
        """Open a live line on a terminal, or a bar in a notebook."""
        if self.verbosity < 0:
            return
        if in_notebook():
            self._bar = NotebookBar(total)
            self._bar.update(completed=0, description=text)
        elif self._err.is_terminal:
            from rich.progress import BarColumn, Progress, TextColumn

            columns = (BarColumn(20), TextColumn("{task.description}"))
            self._bar = Progress(*columns, console=self._err, transient=True)
            self._task = self._bar.add_task(text, total=total)
            self._bar.start()

    def update(self, step: int, bound: float, steps_per_second: float, seconds_left: float | None) -> None:
        """One look at the training: called by the engine after each block of steps."""
        if self.verbosity < 0:
            return
        self._line = self._describe(step, bound, steps_per_second, seconds_left)
        if self._bar is not None:
            done = step if self._steps else time.monotonic() - self._began
            self._bar.update(self._task, completed=done, description=self._line)
        elif time.monotonic() - self._last >= PLAIN_SECONDS / (5 if self.verbosity > 0 else 1):
            self._plain()

    def rows(self, done: int, total: int) -> None:
        """One look at the evaluation: called before it and after each chunk of test rows. A short one leaves
        no line behind."""
        if self.verbosity < 0:
            return
        text = f"evaluating  {done:,}/{total:,} test rows"
        if done == 0:
            self._began = self._last = time.monotonic()
            self._open(text, total)
            return
        passed = time.monotonic() - self._began
        text += f"  {done / max(passed, 1e-9):,.0f} rows/s  {clock(passed * (total - done) / done)} left"
        if self._bar is not None:
            self._bar.update(self._task, completed=done, description=text)
            if done >= total:
                self._bar.stop()
                self._bar = None
        elif time.monotonic() - self._last >= PLAIN_SECONDS / (5 if self.verbosity > 0 else 1):
            self._line = text
            self._plain()

    def stop(self) -> None:
        """End of the live line; the last state stays as a plain line. May be called twice."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        if self._line:
            self._plain()

    def result(self, record: Record, path: str | Path) -> None:
        """The metrics in the record and where it lies."""
        rows = metric_rows(record.metrics)
        if rows:
            from rich.table import Table

            table = Table(box=None, pad_edge=False, header_style="bold")
            table.add_column("test", no_wrap=True)
            units = ("original units", "standardised") if any(row[2] for row in rows) else ("",)
            for name in units:  # class probabilities have no units
                table.add_column(name, justify="right", no_wrap=True)
            for row in rows:
                table.add_row(*row[: 1 + len(units)])
            self._out.print(table)
        if text := times(record):
            self._show(self._out, text)
        self._show(self._out, f"record: {path}")

    def _describe(self, step: int, bound: float, rate: float, left: float | None) -> str:
        of = f"/{self._steps:,}" if self._steps else ""
        parts = [f"step {step:,}{of}", f"bound {bound:.6g}"]
        if rate:
            parts.append(f"{rate:,.4g} steps/s" if rate < 1000 else f"{rate:,.0f} steps/s")
        if left is not None and math.isfinite(left):
            parts.append(f"{clock(left)} left")
        return "  ".join(parts)

    def _plain(self) -> None:
        self._print(self._line)
        self._line, self._last = "", time.monotonic()

    def _print(self, text: str) -> None:
        self._show(self._err, text)

    @staticmethod
    def _show(console: Console, text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)


def times(record: Record) -> str:
    """'training 12.3 s, evaluation 1.4 s, in all 15.9 s', as far as the record tells."""
    parts = (
        ("training", record.training_seconds),
        ("evaluation", record.evaluate_seconds),
        ("in all", record.wall_seconds),
    )
    return ", ".join(f"{name} {value:.3g} s" for name, value in parts if value is not None)


def clock(seconds: float) -> str:
    """1:05 or 2:03:04."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def metric_rows(metrics: dict) -> list[tuple[str, str, str]]:
    """(name, value in original units, value in standardised units); a metric without units has one value."""
    bases = dict.fromkeys(name.removesuffix("_std") for name in metrics)
    names = {name: known.short for name, known in known_metrics().items() if known.short}
    order = [b for b in names if b in bases] + [b for b in bases if b not in names]
    rows = [(names.get(b, b), _number(metrics.get(b)), _number(metrics.get(f"{b}_std"))) for b in order]
    return [row for row in rows if row[1] or row[2]]


def _number(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return ""
    return f"{value:.4f}" if abs(value) >= 0.01 or value == 0 else f"{value:.3g}"
