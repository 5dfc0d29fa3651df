"""Split: one train/test division of one dataset, standardised as the protocol says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dgpbench.data.scaling import moments
from dgpbench.errors import UserError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dgpbench.data.catalogue import Entry
    from dgpbench.data.prepare import Recipe


@dataclass(frozen=True, eq=False)
class Split:
    """Hold the parsed arrays (memory-mapped when large) and row numbers; scaled rows are made on demand.

    `take_train` gives scaled rows without building the whole train part; `X_train` builds it once.
    """

    X: np.ndarray  # N, D, original units, all rows of the source
    Y: np.ndarray  # N, P
    rows_train: np.ndarray  # row numbers of the parsed source file
    rows_test: np.ndarray
    x_mean: np.ndarray  # D
    x_std: np.ndarray
    y_mean: np.ndarray  # P
    y_std: np.ndarray
    scaling: str  # train | all: which rows gave mean and std
    dataset: str
    data_hash: str
    index: int = 0
    task: str = "regression"
    n_classes: int = 0
    rows_valid: np.ndarray | None = None
    traps: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()  # labels of the codes 0 .. C-1 in Y
    log_density: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None  # original units
    bin_size: float = 1.0  # length or area over which a row counts, where the task is counts
    levels: int = 0  # fidelities, where the last input is the level of a row
    image: tuple[int, int] | None = None  # rows and columns, where the outputs are pixels
    recipe: Recipe | None = None  # how the inputs were made of a user's table

    @classmethod
    def from_arrays(
        cls,
        X_train: ArrayLike,
        Y_train: ArrayLike,
        X_test: ArrayLike | None = None,
        Y_test: ArrayLike | None = None,
        dataset: str = "arrays",
        task: str = "regression",
        n_classes: int = 0,
        classes: tuple[str, ...] = (),
    ) -> Split:
        """Return a split of arrays that are already scaled."""
        from dgpbench.data.cache import data_hash

        X_train, Y_train = (np.asarray(a, dtype=np.float64) for a in (X_train, Y_train))
        X_test = X_train[:0] if X_test is None else np.asarray(X_test, dtype=np.float64)
        Y_test = Y_train[:0] if Y_test is None else np.asarray(Y_test, dtype=np.float64)
        X, Y, n = np.vstack([X_train, X_test]), np.vstack([Y_train, Y_test]), len(X_train)
        D, P = X.shape[1], Y.shape[1]
        return cls(
            X=X,
            Y=Y,
            rows_train=np.arange(n),
            rows_test=np.arange(n, len(X)),
            x_mean=np.zeros(D),
            x_std=np.ones(D),
            y_mean=np.zeros(P),
            y_std=np.ones(P),
            scaling="train",
            dataset=dataset,
            data_hash=data_hash(X, Y),
            task=task,
            n_classes=n_classes,
            classes=classes,
        )

    def on_validation(self) -> Split:
        """Return a split that tests on the validation rows."""
        if self.rows_valid is None:
            raise ValueError("no rows are held out: protocol.validation is 0")
        return replace(self, rows_test=self.rows_valid, rows_valid=None)

    def with_levels(self, levels: int) -> Split:
        """Return a split with `levels` levels in the last input, which is not scaled."""
        mean, std = self.x_mean.copy(), self.x_std.copy()
        mean[-1], std[-1] = 0.0, 1.0
        traps = tuple(trap for trap in self.traps if f"input {self.dim - 1} is constant" not in trap)
        return replace(self, x_mean=mean, x_std=std, traps=traps, levels=levels)

    @property
    def n_train(self) -> int:
        return len(self.rows_train)

    @property
    def n_test(self) -> int:
        return len(self.rows_test)

    @property
    def dim(self) -> int:
        return self.X.shape[1]

    @property
    def outputs(self) -> int:
        return self.Y.shape[1]

    def take(self, source_rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return scaled (X, Y) of source rows, in the order of `source_rows`."""
        order = np.argsort(source_rows, kind="stable")
        X, Y = (np.empty((len(source_rows), A.shape[1])) for A in (self.X, self.Y))
        X[order], Y[order] = self.X[source_rows[order]], self.Y[source_rows[order]]
        X -= self.x_mean
        X /= self.x_std
        Y -= self.y_mean
        Y /= self.y_std
        return X, Y

    def take_train(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return scaled training rows by position 0 .. n_train - 1."""
        return self.take(self.rows_train[np.asarray(rows)])

    def take_test(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return scaled test rows by position 0 .. n_test - 1."""
        return self.take(self.rows_test[np.asarray(rows)])

    @cached_property
    def _train(self) -> tuple[np.ndarray, np.ndarray]:
        return self.take(self.rows_train)

    @cached_property
    def _test(self) -> tuple[np.ndarray, np.ndarray]:
        return self.take(self.rows_test)

    @cached_property
    def _valid(self) -> tuple[np.ndarray, np.ndarray]:
        return self.take(self.rows_valid)

    @property
    def X_train(self) -> np.ndarray:
        return self._train[0]

    @property
    def Y_train(self) -> np.ndarray:
        return self._train[1]

    @property
    def X_test(self) -> np.ndarray:
        return self._test[0]

    @property
    def Y_test(self) -> np.ndarray:
        return self._test[1]

    @property
    def X_valid(self) -> np.ndarray | None:
        return None if self.rows_valid is None else self._valid[0]

    @property
    def Y_valid(self) -> np.ndarray | None:
        return None if self.rows_valid is None else self._valid[1]


_LIMIT = 104729  # second seed words, so that choices do not repeat the train/test shuffle
_VALIDATION = 7919


def shuffle_rows(n: int, split: int, train_fraction: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
    """The rule of bayesian_benchmarks: RandomState(split) shuffles arange(n); the first int(0.9 n) train."""
    rows = np.arange(n)
    np.random.RandomState(split).shuffle(rows)
    cut = int(n * train_fraction)
    return rows[:cut], rows[cut:]


def stratified_rows(
    codes: np.ndarray, split: int, train_fraction: float = 0.9
) -> tuple[np.ndarray, np.ndarray]:
    """Rows by the same shuffle, cut within each class (codes 0 .. C-1, N): shares of the classes are kept.

    Class c gives floor(fraction n_c) rows to train, and one more in order of the largest remainder until
    int(fraction n) train; each class gives at least one.
    """
    rows, _ = shuffle_rows(len(codes), split, 1.0)
    sizes = np.bincount(codes)
    quota = train_fraction * sizes
    counts = np.minimum(np.maximum(np.floor(quota).astype(int), 1), sizes)
    short = max(0, int(len(codes) * train_fraction) - counts.sum())
    counts[np.argsort(counts - quota, kind="stable")[:short]] += 1
    rank = np.empty(len(codes), dtype=int)  # of a row among those of its class, in shuffled order
    for c in range(len(sizes)):
        own = rows[codes[rows] == c]
        rank[own] = np.arange(len(own))
    trains = (rank < counts[codes])[rows]
    return rows[trains], rows[~trains]


def extrapolation_rows(
    X: np.ndarray, split: int, train_fraction: float = 0.5
) -> tuple[np.ndarray, np.ndarray]:
    """The rule of Lindinger et al. (2020): standardised inputs X (N, D) are projected on a direction that
    RandomState(split) draws; the lower end is tested, int((1 - fraction) N) rows, the upper trained on."""
    direction = np.random.RandomState(split).standard_normal(X.shape[1])
    found = moments(X, what="input")
    direction = np.where(found.constant, 0.0, direction / np.where(found.constant, 1.0, found.std))
    order = np.argsort(X @ direction, kind="stable")
    cut = int(len(X) * (1.0 - train_fraction))
    return order[cut:], order[:cut]


def covering_rows(X: np.ndarray, split: int, test_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The rule of thesis section 4.4: test rows cover the standardised inputs X (N, D).

    RandomState(split) draws the first; each next one is the row whose least distance from those before is
    greatest (of equals the first in the file). The others train, in the order of the file.
    """
    found = moments(X, what="input")
    std = np.where(found.constant, np.inf, found.std)
    Z = np.ascontiguousarray(((X - found.mean) / std).T)  # D, N
    chosen = np.empty(test_rows, dtype=int)
    nearest = np.full(len(X), np.inf)  # squared distance of each row from those chosen
    last = np.random.RandomState(split).randint(len(X))
    for i in range(test_rows):
        chosen[i] = last
        np.minimum(nearest, ((Z - Z[:, last : last + 1]) ** 2).sum(0), out=nearest)
        nearest[last] = -1.0
        last = int(nearest.argmax())
    trains = np.ones(len(X), dtype=bool)
    trains[chosen] = False
    return np.flatnonzero(trains), chosen


def limit_training(train: np.ndarray, split: int, rows: int) -> np.ndarray:
    """So many of the training rows, chosen and ordered by RandomState([split, 104729])."""
    if rows > len(train):
        raise UserError(f"protocol.train_rows={rows} is more than the {len(train)} rows that train; lower it")
    return np.random.RandomState([split, _LIMIT]).permutation(train)[:rows]


def check_index(split: int, splits: int, protocol: str) -> None:
    if isinstance(split, bool) or not isinstance(split, int) or not 0 <= split < splits:
        raise UserError(f"split={split} is out of range; protocol {protocol} has splits 0 to {splits - 1}")


def carve_validation(rows_train: np.ndarray, split: int, fraction: float) -> tuple[np.ndarray, np.ndarray]:
    """Set round(fraction * n) train rows aside, chosen by RandomState([split, 7919]); order is kept."""
    count = max(1, round(fraction * len(rows_train)))
    if count >= len(rows_train):
        raise UserError(
            f"protocol.validation={fraction} leaves no training rows of {len(rows_train)}; lower it"
        )
    chosen = np.zeros(len(rows_train), dtype=bool)
    chosen[np.random.RandomState([split, _VALIDATION]).permutation(len(rows_train))[:count]] = True
    return rows_train[~chosen], rows_train[chosen]


def count_levels(entry: Entry, level: np.ndarray) -> int:
    """The number of levels in the column; UserError unless they are 0, 1, ... without a gap."""
    found = np.unique(np.asarray(level))
    name = f"dataset {entry.name}, level column {entry.level!r}"
    if not np.array_equal(found, np.round(found)) or found[0] < 0 or len(found) > 100:
        shown = ", ".join(f"{v:g}" for v in found[:5])
        raise UserError(
            f"{name}: levels must be whole numbers 0, 1, ..., the highest last; found {shown}"
            + (", ..." if len(found) > 5 else "")
        )
    missing = sorted(set(range(int(found[-1]) + 1)) - set(found.astype(int)))
    if missing:
        raise UserError(
            f"{name}: level {missing[0]} has no rows, though the highest is {int(found[-1])}; number the "
            "levels 0, 1, ... without a gap"
        )
    return len(found)


def divide_levels(entry: Entry, level: np.ndarray, protocol: dict, split: int) -> tuple:
    """Rows to train, test and validate (None where nothing is held out)."""
    if entry.train_rows is not None:
        raise UserError("dataset.train_rows does not go with dataset.level, whose highest rows are divided")
    chosen = entry.settings.get("train_levels", "all")
    level = np.asarray(level)
    high, below = np.flatnonzero(level == level.max()), np.flatnonzero(level < level.max())
    number = 0 if protocol["split_rule"] == "fixed_zero" else split
    train, test = (high[part] for part in shuffle_rows(len(high), number, protocol["train_fraction"]))
    if min(len(train), len(test)) < 1:
        raise UserError(
            f"dataset {entry.name} has {len(high)} rows of its highest level: protocol {protocol['name']} "
            f"leaves {len(train)} to train and {len(test)} to test; change protocol.train_fraction"
        )
    valid = None
    if protocol.get("validation"):
        train, valid = carve_validation(train, split, protocol["validation"])
    return (np.concatenate([below, train]) if chosen == "all" else train), test, valid
