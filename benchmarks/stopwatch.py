"""Time of a training run that is scored on the way: scoring stops the clocks. Needs nothing but Python."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

FIRST = 0.5  # processor seconds until the first score
GROWTH = 1.15  # factor from the time of one score to that of the next
BLOCK = 0.25  # processor seconds of training between two looks


class Over(Exception):
    """The time is up, or the numbers are."""


class Stopwatch:
    """Processor and wall seconds of training. The first block of steps is start-up: it compiles, and all
    processor time of the process until its end belongs to it."""

    def __init__(self, score: Callable[[], float], seconds: float):
        self.score, self.seconds = score, seconds
        self.startup: list[float] = []  # processor, wall
        self.cpu = self.wall = 0.0
        self.points: list[list[float]] = []  # step, processor seconds, wall seconds, score
        self.due, self._born = FIRST, time.perf_counter()

    def go(self) -> None:
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def stop(self, step: int) -> None:
        """After a block that ended with this step; Over when there is to be no other."""
        cpu, wall = time.process_time(), time.perf_counter()
        if not self.startup:
            self.startup = [cpu, wall - self._born]
            return
        self.cpu, self.wall = self.cpu + cpu - self._cpu, self.wall + wall - self._wall
        over = self.cpu >= self.seconds
        if self.cpu >= self.due or over:
            value = self.score()
            if not math.isfinite(value):
                raise Over(f"the log-likelihood is {value} after {step} steps")
            self.points.append([step, self.cpu, self.wall, value])
            self.due = self.cpu * GROWTH
        if over:
            raise Over

    def run(self, advance: Callable[[int], None]) -> str | None:
        """Advance in blocks until the time is up; why it ended before, or None."""
        step, block = 0, 1
        try:
            while True:
                before = self.cpu
                self.go()
                advance(block)
                step += block
                self.stop(step)
                used = self.cpu - before
                block = max(1, int(block * min(4.0, BLOCK / used))) if used > 0 else 1
        except Over as end:
            return str(end) or None
