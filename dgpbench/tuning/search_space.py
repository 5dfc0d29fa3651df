"""The search space: `log(a,b)`, `uniform(a,b)`, `int(a,b)` and lists, among overrides that stay fixed."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Protocol

import numpy as np

from dgpbench.config.composition import plain_override
from dgpbench.config.tree import config_folders, groups, options
from dgpbench.errors import UserError

RANGE = re.compile(r"(?P<kind>log|uniform|int)\((?P<low>[^,()]*),(?P<high>[^,()]*)\)")
CALL = re.compile(r"(\w+)\(")
KNOWN = ("log", "uniform", "int", "range", "glob", "choice")  # int( with one number is refused by the range
FIXED = ("dataset", "protocol", "launcher", "tracker", "paths", "seed", "experiment", "tuned")
DIGITS = 6  # significant ones of a number that was drawn: it can be typed again


@dataclass(frozen=True)
class Axis:
    """One setting that is searched over: a range, or the values of a list as they are written."""

    name: str
    kind: str  # log, uniform, int or list
    low: float = 0.0
    high: float = 0.0
    values: tuple[str, ...] = ()

    def at(self, u: float) -> str:
        """The value at u in [0, 1), as it is written in an override."""
        if self.kind == "list":
            return self.values[int(u * len(self.values))]
        if self.kind == "int":
            return str(int(self.low + math.floor(u * (self.high - self.low + 1))))
        if self.kind == "log":
            return f"{math.exp(math.log(self.low) + u * math.log(self.high / self.low)):.{DIGITS}g}"
        return f"{self.low + u * (self.high - self.low):.{DIGITS}g}"

    @property
    def count(self) -> float:
        """How many values there are."""
        sizes = {"list": len(self.values), "int": self.high - self.low + 1}
        return sizes.get(self.kind, math.inf)

    @property
    def all_values(self) -> tuple[str, ...]:
        """Each value, of a list or of whole numbers."""
        return self.values or tuple(str(n) for n in range(int(self.low), int(self.high) + 1))


@dataclass(frozen=True)
class Space:
    """What is searched, what is fixed, and on which splits (None: all of the protocol)."""

    axes: tuple[Axis, ...]
    fixed: tuple[str, ...]
    splits: tuple[int, ...] | None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(axis.name for axis in self.axes)

    def candidates(self, trials: int, seed: int) -> list[tuple[str, ...]]:
        """Values of the axes, one tuple per trial: random, or all of them where there are no more.

        Trial i depends on `seed` and i alone: more trials later go on with the same list.
        """
        if math.prod(axis.count for axis in self.axes) <= trials:
            return list(product(*(axis.all_values for axis in self.axes)))
        draws = (np.random.default_rng([seed, trial]).random(len(self.axes)) for trial in range(trials))
        return [tuple(axis.at(u) for axis, u in zip(self.axes, row, strict=True)) for row in draws]

    def overrides(self, values: Sequence[str]) -> list[str]:
        """The override of each axis at these values."""
        return [f"{axis.name}={value}" for axis, value in zip(self.axes, values, strict=True)]


def parse(overrides: Sequence[str], config_dirs: Sequence[str | Path] = ()) -> Space:
    """The space that command-line words describe; UserError where a word cannot be part of one."""
    from dgpbench.sweep.planner import whole_numbers

    folders = config_folders(config_dirs)
    axes: dict[str, Axis] = {}
    fixed: list[str] = []
    splits: tuple[int, ...] | None = (0,)
    for given in overrides:
        text = plain_override(given)
        name, _, value = text.partition("=")
        found = _range(name, value) or _list(text, folders)
        if name == "split":
            words = list(found.values) if found else [value]
            splits = None if words == ["all"] else tuple(dict.fromkeys(whole_numbers("split", words)))
        elif found is None:
            fixed.append(text)
        elif name.split(".")[0] in FIXED:
            raise UserError(
                f"'{text}' cannot be tuned; give one {name}, and what to choose in other settings"
            )
        elif name in axes:
            raise UserError(f"'{name}' is given twice; list its values, or give one range")
        else:
            axes[name] = found
    if not axes:
        raise UserError(
            "nothing to tune; give a setting as a list or a range, e.g. model.num_inducing=50,100,200 or "
            "inference.adam.learning_rate=log(1e-3,1e-1)"
        )
    return Space(tuple(axes.values()), tuple(fixed), splits)


def _range(name: str, value: str) -> Axis | None:
    match = RANGE.fullmatch(value.strip())
    if not match:
        other = CALL.match(value.strip())
        if other and other[1] not in KNOWN:
            raise UserError(
                f"cannot read '{name}={value}'; a range is log(a,b), uniform(a,b) or int(a,b), a list a,b,c"
            )
        return None
    kind = match["kind"]
    try:
        low, high = (int(match[end]) if kind == "int" else float(match[end]) for end in ("low", "high"))
    except ValueError:
        numbers = "whole numbers" if kind == "int" else "numbers"
        raise UserError(f"cannot read '{name}={value}'; {kind}(a,b) takes two {numbers}") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UserError(f"'{name}={value}' is no range; {kind}(a,b) needs a below b")
    if kind == "log" and low <= 0:
        raise UserError(f"'{name}={value}' is no range; log(a,b) needs a above 0")
    return Axis(name, kind, low, high)


def _list(text: str, folders: Sequence[Path]) -> Axis | None:
    """The values of a list, range() or glob() as in a sweep; None where there is one value."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    from dgpbench.config import compose
    from dgpbench.sweep.planner import values_of

    try:
        override = OverridesParser.create().parse_override(text)
    except HydraException:
        compose([text])  # explains what is wrong with it
        raise
    name = override.key_or_group
    if not override.is_sweep_override():
        return None
    values = values_of(override, text, list(options(name, folders)) if name in groups(folders) else [])
    return Axis(name, "list", values=tuple(values))


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
