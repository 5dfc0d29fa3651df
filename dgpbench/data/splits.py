"""Rows to train and to test: by N and the split index only, never by the model's seed."""

from __future__ import annotations

import numpy as np

from dgpbench.data.scaling import moments
from dgpbench.errors import UserError

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
