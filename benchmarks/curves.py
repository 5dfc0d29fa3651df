"""Curve of one run: how well a model predicts after how many seconds of training.

The engine tells its reporter after every block of steps; what happens in the reporter is not training time.
There the parameters are taken out and scored on held-out rows, at times that grow geometrically.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dgpbench.engine.context import RunContext, Silent

FIRST = 0.5  # seconds of training until the first score
IN_A_ROW = 2  # scores at or above the target before a run counts as there: the first of them is when
PREDICT_ROWS = 1000


class Enough(Exception):
    """The target or the end of the time has been reached."""


@dataclass
class Curve:
    """Scores [step, training seconds, mean log-likelihood]; `compile_seconds` is the first block of steps."""

    compile_seconds: float = 0.0
    points: list[list[float]] = field(default_factory=list)
    reason: str | None = None  # why it ended early

    def reached(self, target: float) -> tuple[int, float] | None:
        """Step and seconds of the first of IN_A_ROW scores in a row at or above the target."""
        for i in range(len(self.points) - IN_A_ROW + 1):
            if all(value >= target for _, _, value in self.points[i : i + IN_A_ROW]):
                return int(self.points[i][0]), self.points[i][1]
        return None

    def at(self, seconds: float) -> float | None:
        """The last score of at most so many seconds of training."""
        known = [value for _, used, value in self.points if used <= seconds]
        return known[-1] if known else None

    @property
    def last(self) -> list[float]:
        return self.points[-1] if self.points else [0, 0.0, float("nan")]

    def to_dict(self) -> dict:
        return asdict(self)


@dataclass(frozen=True)
class Race:
    """Rules of a curve: for how long, by which clock, on which rows, and until which value it is measured."""

    seconds: float
    target: float | None = None
    part: str = "test"  # rows to score on; valid: some that are taken out of the training rows
    clock: Callable[[], float] = time.perf_counter
    growth: float = 1.15  # factor from the time of one score to that of the next


@dataclass(frozen=True)
class Variation:
    """What a study tries that no config says: for a `share` of the seconds training goes by the words of a
    `first` stage too, and what it found is the start of the rest; what is scored is an average of the
    parameters over about so many steps (0: the last ones)."""

    first: tuple[str, ...] = ()
    share: float = 0.0
    average: float = 0.0


PLAIN = Variation()


class StageOver(Exception):
    """The seconds of the first stage are over."""


class Watch(Silent):
    """A reporter with a stopwatch that stands still while it scores."""

    def __init__(self, score: Callable[[], float], race: Race, variation: Variation = PLAIN):
        self.score, self.race, self.curve = score, race, Curve()
        self.seconds, self.due = 0.0, FIRST
        self.variation, self.first_stage = variation, bool(variation.first)
        self._since = 0.0
        self._earlier = 0  # steps of the first stage
        self._found: dict[str, np.ndarray] = {}  # by it: unconstrained parameters
        self._average: dict[str, np.ndarray] = {}
        self._averaged = 0  # steps
        self.trainer: Any = None

    def training(self, trainer) -> None:
        self.trainer = trainer
        for name, value in self._found.items():
            trainer.oracle.raw[name].assign(value)

    def _raw(self) -> dict[str, np.ndarray]:
        return {name: variable.numpy() for name, variable in self.trainer.oracle.raw.items()}

    def _follow(self, step: int) -> None:
        """Average the parameters, with weights that fall with their age in steps."""
        now = self._raw()
        kept, before = math.exp((self._averaged - step) / self.variation.average), self._average or now
        self._average = {name: value + kept * (before[name] - value) for name, value in now.items()}
        self._averaged = step

    def start(self, steps, seconds) -> None:
        self._since = self.race.clock()

    def update(self, step, bound, steps_per_second, seconds_left) -> None:
        elapsed = self.race.clock() - self._since
        if steps_per_second:
            self.seconds += elapsed
        else:  # no rate yet: the first block, which compiles
            self.curve.compile_seconds += elapsed
        step += self._earlier
        if self.variation.average:
            self._follow(step)
        over = self.seconds >= self.race.seconds
        if self.seconds >= self.due or over:
            self.curve.points.append([step, self.seconds, self.score()])
            self.due = self.seconds * self.race.growth
            if over or (self.race.target is not None and self.curve.reached(self.race.target)):
                raise Enough
        if self.first_stage and self.seconds >= self.variation.share * self.race.seconds:
            self.first_stage, self._earlier, self._found = False, step, self._raw()
            raise StageOver
        self._since = self.race.clock()

    def values(self) -> dict[str, np.ndarray]:
        """Parameters to score, constrained."""
        if not self._average:
            return self.trainer.values()
        import tensorflow as tf

        from dgpbench.gp.parameters import constrain

        given = {name: tf.constant(value) for name, value in self._average.items()}
        found = constrain(given, self.trainer.spec.bound.constraints())
        return self.trainer.values() | {name: value.numpy() for name, value in found.items()}


def curve_of(overrides: Sequence[str], race: Race, variation: Variation = PLAIN) -> Curve:
    """Train as `overrides` and the variation say, and score on the way."""
    from dgpbench.config import compose
    from dgpbench.data import load_split
    from dgpbench.errors import Diverged
    from dgpbench.experiment import run_seed
    from dgpbench.models.base import create

    words = [*overrides, *(["protocol.validation=0.1"] if race.part == "valid" else [])]
    cfg = compose(words)
    split, seed = load_split(cfg), run_seed(cfg)
    held_out = replace(split, rows_test=split.rows_valid) if race.part == "valid" else split
    scorer = create(cfg)

    def score() -> float:
        scorer.load_parameters(watch.values())
        return log_likelihood(scorer.predict, held_out, cfg["protocol"]["test_samples"], seed)

    watch = Watch(score, race, variation)
    try:
        if variation.first:
            with suppress(StageOver):
                _train(compose([*words, *variation.first]), split, seed, watch)
        _train(cfg, split, seed, watch)
    except Enough:
        pass
    except Diverged as error:
        watch.curve.reason = str(error)
    return watch.curve


def _train(cfg: dict, split, seed: int, watch: Watch) -> None:
    """Train until the watch ends it."""
    from dgpbench.models.base import create

    with tempfile.TemporaryDirectory(prefix="dgpbench-perf-") as folder:
        run = RunContext(
            key="",
            folder=Path(folder),
            seed=seed,
            steps=None,
            seconds=None,
            reporter=watch,
            note=lambda text: None,
            block_seconds=FIRST / 8 if watch.variation.average else FIRST / 2,
            checkpoint_seconds=float("inf"),
        )
        create(cfg).fit(split, run)


def log_likelihood(predict, split, samples: int, seed: int) -> float:
    """Mean log density of the test rows in original units, as the metrics have it, and nothing else."""
    from dgpbench.evaluate.evaluation import chunk_seed

    total = 0.0
    for index, start in enumerate(range(0, split.n_test, PREDICT_ROWS)):
        part = slice(start, start + PREDICT_ROWS)
        predictive = predict(split.X_test[part], samples, chunk_seed(seed, index))
        total += predictive.log_density(split.Y_test[part]).sum()
    return float(total / split.n_test - np.log(split.y_std).sum())
