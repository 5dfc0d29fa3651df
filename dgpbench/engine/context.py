"""What passes between a run and its training: the orders and the report. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dgpbench.engine import checkpoint
from dgpbench.engine.stopping import StopRule


class Silent:
    """A reporter that says nothing; progress.py has the one that talks."""

    expects = False  # whether the plan is to tell the expected time

    def plan(self, lines: list[tuple[str, str]]) -> None: ...

    def note(self, text: str) -> None: ...

    def training(self, trainer) -> None:
        """The trainer whose steps are about to run, for a look at a run from outside."""

    def start(self, steps: int | None, seconds: float | None) -> None: ...

    def update(
        self, step: int, bound: float, steps_per_second: float, seconds_left: float | None
    ) -> None: ...

    def rows(self, done: int, total: int) -> None: ...

    def stop(self) -> None: ...


def no_tracker(step: int, metrics: Mapping[str, float | None]) -> None:
    """Log to no tracker."""


@dataclass
class RunContext:
    """What the engine must know about a run besides its model and data."""

    key: str
    folder: Path
    seed: int
    steps: int | None
    seconds: float | None
    reporter: Silent  # or one that talks
    note: Callable[[str], None]  # a line for the user that also goes into the record
    block_seconds: float = 1.0
    checkpoint_seconds: float = 120.0
    log: Callable[[int, Mapping[str, float | None]], None] = no_tracker  # metrics of a step, for trackers
    stop: StopRule | None = None  # an end before the end of the budget
    recoveries: list[dict] = field(default_factory=list)  # kept here too, for a run that diverges

    def forget(self) -> None:
        """Remove the checkpoint."""
        checkpoint.remove(self.folder)


@dataclass
class TrainResult:
    """What training did, for the record. `seconds` is time in steps, without compilation; `cpu_seconds` the
    processor time of the same, which does not depend on what else the machine does."""

    steps: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    compile_seconds: float = 0.0
    steps_per_second: float | None = None
    bound: float | None = None  # mean over the last block
    refused: int = 0
    resumed_from: list[int] = field(default_factory=list)
    recoveries: list[dict] = field(default_factory=list)
    stopping: dict = field(default_factory=dict)  # what the stop rule saw, and whether it ended the training
    checks: dict = field(default_factory=dict)  # what the model verified of its own numerics after training
    # step, seconds, mean bound of the block; then, if any, the last step's size and the test log-likelihood
    trace: list[list[float | None]] = field(default_factory=list)
