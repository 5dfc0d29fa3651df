"""Split: one train/test division of one dataset, standardised as the protocol says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dgpbench.data.prepare import Recipe


@dataclass
class Split:
    """Holds the parsed arrays (memory-mapped when large) and row numbers; scaled rows are made on demand.

    `take_train` gives scaled rows without building the whole train part; `X_train` and its kin build it once.
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
    traps: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)  # the labels that codes 0 .. C-1 in Y stand for
    log_density: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None  # original units
    bin_size: float = 1.0  # length or area over which a row counts, where the task is counts
    levels: int = 0  # fidelities, where the last input is the level of a row (data/levels.py)
    image: tuple[int, int] | None = None  # rows and columns, where the outputs are pixels (data/images.py)
    recipe: Recipe | None = None  # how the inputs were made of a user's table (data/prepare.py)

    @classmethod
    def from_arrays(
        cls, X_train, Y_train, X_test=None, Y_test=None, dataset="arrays", task="regression", n_classes=0
    ) -> Split:
        """Wrap arrays that are already scaled, e.g. those another package hands to `fit`."""
        from dgpbench.data.arrays import data_hash

        X_train, Y_train = (np.asarray(a, dtype=np.float64) for a in (X_train, Y_train))
        X_test = X_train[:0] if X_test is None else np.asarray(X_test, dtype=np.float64)
        Y_test = Y_train[:0] if Y_test is None else np.asarray(Y_test, dtype=np.float64)
        X, Y, n = np.vstack([X_train, X_test]), np.vstack([Y_train, Y_test]), len(X_train)
        D, P = X.shape[1], Y.shape[1]
        return cls(
            X,
            Y,
            np.arange(n),
            np.arange(n, len(X)),
            np.zeros(D),
            np.ones(D),
            np.zeros(P),
            np.ones(P),
            "train",
            dataset,
            data_hash(X, Y),
            task=task,
            n_classes=n_classes,
        )

    def on_validation(self) -> Split:
        """The same training rows, with the validation rows in place of the test rows."""
        if self.rows_valid is None:
            raise ValueError("no rows are held out: protocol.validation is 0")
        return replace(self, rows_test=self.rows_valid, rows_valid=None)

    def with_levels(self, levels: int) -> Split:
        """The same with so many levels in the last input, which then stays as it is."""
        mean, std = self.x_mean.copy(), self.x_std.copy()
        mean[-1], std[-1] = 0.0, 1.0
        traps = [trap for trap in self.traps if f"input {self.dim - 1} is constant" not in trap]
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
        """Scaled (X, Y) of source rows, read in file order and returned in the order asked for."""
        order = np.argsort(source_rows, kind="stable")
        X, Y = (np.empty((len(source_rows), A.shape[1])) for A in (self.X, self.Y))
        X[order], Y[order] = self.X[source_rows[order]], self.Y[source_rows[order]]
        X -= self.x_mean
        X /= self.x_std
        Y -= self.y_mean
        Y /= self.y_std
        return X, Y

    def take_train(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scaled rows of the train part by position 0 .. n_train - 1."""
        return self.take(self.rows_train[np.asarray(rows)])

    def take_test(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
