"""Which values to try next: all at random at once, or in rounds by Optuna from what was seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dgpbench.errors import UserError
from dgpbench.tuning.space import Axis, Space

ROUND = 4  # trials that Optuna proposes at once: fixed, so that the same search has the same trials anywhere
SAMPLERS = ("random", "optuna")
Values = tuple[str, ...]


class Sampler(Protocol):
    """One search on one split."""

    def ask(self) -> list[Values]:
        """The next values to try; none when the search is over."""

    def tell(self, scores: Sequence[float | None]) -> None:
        """The scores of what was asked for last, larger is better; None: the trial failed."""


class Random:
    """Every trial at once."""

    def __init__(self, space: Space, trials: int, seed: int):
        self._left = space.candidates(trials, seed)

    def ask(self) -> list[Values]:
        asked, self._left = self._left, []
        return asked

    def tell(self, scores: Sequence[float | None]) -> None:
        pass


class Optuna:
    """Optuna's TPE sampler. It is asked and told in the same order whenever the search is repeated."""

    def __init__(self, space: Space, trials: int, seed: int):
        try:
            import optuna
        except ModuleNotFoundError:
            raise UserError(
                "--sampler optuna needs Optuna, which is not installed; pip install 'dgpbench[tune]', or use "
                "--sampler random"
            ) from None
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._failed = optuna.trial.TrialState.FAIL
        self._space, self._left = space, trials
        self._asked: list = []

    def ask(self) -> list[Values]:
        count = min(ROUND, self._left)
        self._left -= count
        self._asked = [self._study.ask() for _ in range(count)]
        return [tuple(_suggest(trial, axis) for axis in self._space.axes) for trial in self._asked]

    def tell(self, scores: Sequence[float | None]) -> None:
        for trial, score in zip(self._asked, scores, strict=True):
            if score is None:
                self._study.tell(trial, state=self._failed)
            else:
                self._study.tell(trial, score)


def _suggest(trial, axis: Axis) -> str:
    if axis.kind == "list":
        return trial.suggest_categorical(axis.name, list(axis.values))
    if axis.kind == "int":
        return str(trial.suggest_int(axis.name, int(axis.low), int(axis.high)))
    return f"{trial.suggest_float(axis.name, axis.low, axis.high, log=axis.kind == 'log'):.6g}"


def create(name: str, space: Space, trials: int, seed: int) -> Sampler:
    """The sampler of that name."""
    if name not in SAMPLERS:
        raise UserError(f"no sampler '{name}'; allowed: {', '.join(SAMPLERS)}")
    return Optuna(space, trials, seed) if name == "optuna" else Random(space, trials, seed)
