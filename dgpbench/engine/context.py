"""What a run and its training exchange: settings, stopping rule and report. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dgpbench.engine import checkpoint

BEST = "stop/best/"  # before the names of the best state so far in a checkpoint


@dataclass(frozen=True)
class StopRule:
    """When to stop before the end of the budget.

    `converged` checks the mean bound of a window per training row. `validation` checks the log-likelihood of
    held-out rows, and the best parameters become the result.
    """

    rule: str  # converged | validation
    window: int = 1000  # steps between checks
    tolerance: float = 0.002  # smallest gain in nats per row
    patience: int = 2  # checks in a row without a gain

    @classmethod
    def of(cls, budget: dict[str, Any]) -> StopRule | None:
        """Return the rule of a budget section; None if it has none."""
        if budget.get("stop", "none") == "none":
            return None
        return cls(budget["stop"], budget["window"], budget["tolerance"], budget["patience"])


class Stopping:
    """The stop rule applied to one run. Without a rule it never stops the run."""

    def __init__(self, rule: StopRule | None, score: Callable[[int], float] | None = None):
        self.rule, self.score = rule, score
        self.looks: list[list[float]] = []  # step, value
        self.gained, self.level = 0, -np.inf  # step and value of the last gain
        self.best_state: dict[str, np.ndarray] = {}

    @property
    def over(self) -> bool:
        """Whether the last gain is more checks ago than the patience allows."""
        if self.rule is None or not self.looks:
            return False
        return self.looks[-1][0] - self.gained >= self.rule.patience * self.rule.window

    def until(self, done: int, total: int | None) -> int | None:
        """Return the last step that the next block may contain."""
        if self.rule is None:
            return total
        following = (done // self.rule.window + 1) * self.rule.window
        return following if total is None else min(following, total)

    def after(self, step: int, trainer) -> None:
        """Apply the rule if `step` is the end of a window."""
        if self.rule is None or step % self.rule.window:
            return
        value = trainer.take_bound_sum() / (self.rule.window * trainer.num_data)
        if self.rule.rule == "validation":
            value = self.score(step)
            if all(value > seen for _, seen in self.looks):
                self.best_state = {
                    n: v for n, v in trainer.state().items() if n.startswith(("raw/", "jitter"))
                }
        self.looks.append([step, value])
        if value >= self.level + self.rule.tolerance:
            self.gained, self.level = step, value

    def finish(self, trainer) -> dict:
        """Restore the best parameters if they are the result; return the checks for the record."""
        if self.rule is None:
            return {}
        if self.best_state:
            trainer.restore(trainer.state() | self.best_state)
        found = {"rule": self.rule.rule, "stopped": self.over, "looks": self.looks, "gained": self.gained}
        if self.rule.rule == "validation" and self.looks:
            found["best_step"] = int(max(self.looks, key=lambda look: look[1])[0])
        return found

    # ---- checkpoints ---------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        if self.rule is None:
            return {}
        numbers = {"looks": np.reshape(self.looks, (-1, 2)), "gained": self.gained, "level": self.level}
        state = {f"stop/{name}": np.asarray(value, float) for name, value in numbers.items()}
        return state | {BEST + name: value for name, value in self.best_state.items()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        if self.rule is None or "stop/looks" not in state:
            return
        self.looks = [[int(step), value] for step, value in state["stop/looks"].tolist()]
        self.gained, self.level = int(state["stop/gained"]), float(state["stop/level"])
        self.best_state = {n.removeprefix(BEST): v for n, v in state.items() if n.startswith(BEST)}


class Silent:
    """A reporter without output; progress.py has the one that prints."""

    expects = False  # whether the plan states the expected time

    def plan(self, lines: list[tuple[str, str]]) -> None: ...

    def note(self, text: str) -> None: ...

    def training(self, trainer) -> None:
        """Receive the trainer whose steps are about to run."""

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
    """What the engine must know about a run in addition to its model and data."""

    key: str
    folder: Path
    seed: int
    steps: int | None
    seconds: float | None
    reporter: Silent  # or one that prints
    note: Callable[[str], None]  # a line for the user that also goes into the record
    block_seconds: float = 1.0
    checkpoint_seconds: float = 120.0
    log: Callable[[int, Mapping[str, float | None]], None] = no_tracker  # metrics of a step, for trackers
    stop: StopRule | None = None  # may end the run before its budget
    recoveries: list[dict] = field(default_factory=list)  # kept here too, for a run that diverges

    def forget(self) -> None:
        """Remove the checkpoint."""
        checkpoint.remove(self.folder)


@dataclass
class TrainResult:
    """Facts about the training for the record.

    `seconds` is the time spent in steps, without compilation. `cpu_seconds` is their processor time, which
    does not depend on the machine's other load.
    """

    steps: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    compile_seconds: float = 0.0
    steps_per_second: float | None = None
    bound: float | None = None  # mean over the last block
    refused: int = 0
    resumed_from: list[int] = field(default_factory=list)
    recoveries: list[dict] = field(default_factory=list)
    stopping: dict = field(default_factory=dict)  # checks of the stop rule, and whether it ended the training
    checks: dict = field(default_factory=dict)  # the model's checks of its own numerics after training
    # step, seconds, mean bound of the block; then, if any, the last step's size and the test log-likelihood
    trace: list[list[float | None]] = field(default_factory=list)
