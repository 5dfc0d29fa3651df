"""Which rows train and which test: by N and the split index only, never by the model's seed."""

from __future__ import annotations

import numpy as np

from dgpbench.errors import UserError

RULES = ("shuffle", "published", "fixed_zero")
_VALIDATION = 7919  # second seed word, so that validation rows do not repeat the train/test shuffle


def shuffle_rows(n: int, split: int, train_fraction: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
    """The rule of bayesian_benchmarks: RandomState(split) shuffles arange(n); the first int(0.9 n) train."""
    rows = np.arange(n)
    np.random.RandomState(split).shuffle(rows)
    cut = int(n * train_fraction)
    return rows[:cut], rows[cut:]


def check_index(split: int, splits: int, protocol: str) -> None:
    if isinstance(split, bool) or not isinstance(split, int) or not 0 <= split < splits:
        raise UserError(f"split={split} is out of range: protocol {protocol} has splits 0 to {splits - 1}")


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
