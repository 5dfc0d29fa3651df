"""Does the speed hold in `dgpbench run`? Its steps per second beside the bare step of the same structure.

Short units through the whole experiment take turns with blocks of steps on the very trainer that they
compiled. Two rates of a unit count: the recorded one (time in blocks of steps), and steps over wall time from
the end of the first block to the end of training, with progress, checkpoints and minibatch drawing.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from dgpbench.engine.context import Silent

LEAST = 0.95  # of the bare rate
ROWS = 8192  # as many as kin8nm has, with as many inputs
TURNS = 4


@dataclass(frozen=True)
class Overhead:
    """Steps per second, medians over the turns, and those of `run` over the bare ones."""

    bare: float
    recorded: float
    wall: float

    @property
    def recorded_ratio(self) -> float:
        return self.recorded / self.bare

    @property
    def wall_ratio(self) -> float:
        return self.wall / self.bare

    @property
    def met(self) -> bool:
        return LEAST <= self.recorded_ratio <= 2 - LEAST and self.wall_ratio >= LEAST

    def to_dict(self) -> dict:
        ratios = {"recorded_ratio": self.recorded_ratio, "wall_ratio": self.wall_ratio}
        return asdict(self) | ratios | {"met": self.met}

    def line(self) -> str:
        return (
            f"run against bare step ({self.bare:.2f} steps/s): recorded {self.recorded:.2f} "
            f"({self.recorded_ratio:.1%}), by wall clock {self.wall:.2f} ({self.wall_ratio:.1%}), "
            f"within 5 %: {'met' if self.met else 'not met'}"
        )


class Clock(Silent):
    """A reporter that notes when training passed which step."""

    def __init__(self):
        self.first: tuple[float, int] | None = None
        self.last: tuple[float, int] | None = None
        self.trainer = None

    def training(self, trainer) -> None:
        self.trainer = trainer

    def update(self, step, bound, steps_per_second, seconds_left) -> None:
        self.last = time.perf_counter(), step
        self.first = self.first or self.last

    @property
    def rate(self) -> float:
        """Steps per second of wall time after the first block, which compiles."""
        (began, done), (ended, steps) = self.first, self.last
        return (steps - done) / (ended - began)


def check_run_overhead(overrides: Sequence[str] = (), seconds: float = 20.0, turns: int = TURNS) -> Overhead:
    """On a synthetic set of the shape of kin8nm: `seconds` of training in all, and as many of bare steps."""
    from dgpbench.config import compose
    from dgpbench.experiment import run_unit

    recorded, wall, bare = [], [], []
    with tempfile.TemporaryDirectory(prefix="dgpbench-perf-") as folder:
        for turn in range(turns + 1):  # the first one compiles and does not count
            clock = Clock()
            cfg = compose(
                [
                    "dataset=arm8",
                    f"dataset.n={ROWS}",
                    "model=dgp2",
                    "inference.batch=1000",
                    "protocol.test_samples=2",
                    "protocol.draws=20",
                    "protocol.max_test=50",
                    *overrides,
                    "budget.steps=null",
                    f"budget.seconds={seconds / turns}",
                    f"seed={turn}",
                    f"paths.results={folder}",
                    f"paths.datasets={folder}",
                ]
            )
            unit, _ = run_unit(cfg, reporter=clock)
            if unit.record["status"] != "done":
                raise RuntimeError(f"the unit ended as {unit.record['status']}: {unit.record.get('reason')}")
            rate = bare_rate(clock.trainer, seconds / turns, int(clock.rate * cfg["engine"]["block_seconds"]))
            if turn:
                recorded.append(unit.record["steps_per_second"])
                wall.append(clock.rate)
                bare.append(rate)
    return Overhead(*(statistics.median(rates) for rates in (bare, recorded, wall)))


def bare_rate(trainer, seconds: float, block: int) -> float:
    """Steps per second of blocks of steps on the trainer of a finished run, after one block to warm up."""
    import numpy as np

    num_data = trainer.num_data
    block = max(1, block)
    batch = 0 if trainer.spec.full_batch else trainer.spec.batch
    rows = np.random.RandomState(0).randint(0, num_data, (block, batch), np.int32)
    trainer.run(0, rows)
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        trainer.run(block + steps, rows)
        steps += block
    return steps / (time.perf_counter() - began)
