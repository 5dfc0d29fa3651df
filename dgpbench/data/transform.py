"""The scaling of a run as arrays beside its parameters: what predictions at new inputs need of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dgpbench.data.split import Split
from dgpbench.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

PREFIX = "scaling/"  # of these arrays' names among the parameters


@dataclass(frozen=True)
class Transform:
    """Means and deviations of inputs (D,) and targets (P,), class labels, and names of the input columns."""

    x_mean: np.ndarray
    x_std: np.ndarray
    y_mean: np.ndarray
    y_std: np.ndarray
    classes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, split: Split, names: tuple[str, ...] = ()) -> Transform:
        moments = (np.reshape(a, -1) for a in (split.x_mean, split.x_std, split.y_mean, split.y_std))
        return cls(*moments, tuple(split.classes), tuple(names))

    @property
    def outputs(self) -> int:
        return len(self.y_mean)

    def inputs(self, X: np.ndarray | pd.DataFrame) -> np.ndarray:
        """Return inputs (N, D), given in original units, scaled; UserError where they do not fit."""
        if isinstance(X, np.ndarray) or not hasattr(X, "columns"):
            X = np.asarray(X, np.float64)
        else:  # a DataFrame: by name, where all names are known
            known = bool(self.names) and set(self.names) <= set(X.columns)
            X = np.asarray(X[list(self.names)] if known else X, np.float64)
        X = X[:, None] if X.ndim == 1 and len(self.x_mean) == 1 else X
        if X.ndim != 2 or X.shape[1] != len(self.x_mean):
            raise UserError(f"inputs have shape {X.shape}; this model takes (N, {len(self.x_mean)})")
        if not np.isfinite(X).all():
            row, column = np.argwhere(~np.isfinite(X))[0]
            raise UserError(
                f"input {column} of row {row} is {X[row, column]}; only finite numbers are allowed"
            )
        return (X - self.x_mean) / self.x_std

    def arrays(self) -> dict[str, np.ndarray]:
        """By name, ready to be stored."""
        fields = {name: getattr(self, name) for name in ("x_mean", "x_std", "y_mean", "y_std")}
        fields |= {name: np.array(getattr(self, name), dtype=np.str_) for name in ("classes", "names")}
        return {PREFIX + name: np.asarray(value) for name, value in fields.items()}


def separate(values: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], Transform | None]:
    """Stored arrays as the model's own parameters and the scaling; older runs have stored none."""
    own = {name: value for name, value in values.items() if not name.startswith(PREFIX)}
    kept = {name.removeprefix(PREFIX): value for name, value in values.items() if name.startswith(PREFIX)}
    if not kept:
        return own, None
    words = {name: tuple(str(word) for word in kept.pop(name)) for name in ("classes", "names")}
    return own, Transform(**kept, **words)
