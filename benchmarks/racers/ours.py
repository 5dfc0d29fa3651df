"""dgpbench by the engine of `dgpbench run`, with the settings of a command line."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.stopwatch import BLOCK, Over, Stopwatch
from dgpbench.config import compose
from dgpbench.data.split import Split
from dgpbench.engine.context import RunContext, Silent
from dgpbench.engine.platform import set_threads
from dgpbench.errors import Diverged
from dgpbench.evaluate.evaluation import mean_loglik
from dgpbench.models.base import create

__all__ = ["race", "set_threads"]


class Pace(Silent):
    """A reporter that keeps the time."""

    def __init__(self, watch: Stopwatch):
        self.watch = watch
        self.trainer = None

    def training(self, trainer) -> None:
        self.trainer = trainer

    def start(self, steps, seconds) -> None:
        self.watch.go()

    def update(self, step, bound, steps_per_second, seconds_left) -> None:
        self.watch.stop(step)
        self.watch.go()


def race(data: dict, settings: dict, seed: int, seconds: float) -> tuple[Stopwatch, str | None]:
    cfg = compose([*settings["words"], f"seed={seed}", "threads=1"])
    split = Split.from_arrays(data["X"], data["Y"], data["X_test"], data["Y_test"])
    scorer = create(cfg)

    def score() -> float:
        scorer.load_parameters(pace.trainer.values())
        return mean_loglik(scorer.predict, split, settings["test_samples"], seed, scorer.log_density)

    watch = Stopwatch(score, seconds)
    pace = Pace(watch)
    with tempfile.TemporaryDirectory(prefix="dgpbench-race-") as folder:
        run = RunContext(
            key="",
            folder=Path(folder),
            seed=seed,
            steps=None,
            seconds=None,
            reporter=pace,
            note=lambda text: None,
            block_seconds=BLOCK,
            checkpoint_seconds=float("inf"),
        )
        try:
            create(cfg).fit(split, run)
        except Over as end:
            return watch, str(end) or None
        except Diverged as error:
            return watch, str(error)
    raise AssertionError("training without a budget has no end")
