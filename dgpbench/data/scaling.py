"""Column means and standard deviations, in one piece for small data and in blocks for large."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dgpbench.config.classes import likelihood_class
from dgpbench.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from dgpbench.data.split import Split

DIRECT_BYTES = (
    64 << 20
)  # up to here numpy's own mean and std: bit-identical to what the papers' code computes
_BLOCK_VALUES = 1 << 20
LARGEST, SMALLEST = 1e100, 1e-100  # of values, and of standard deviations: squares and ratios stay finite
EPSILON = 1e-6  # bayesian_benchmarks adds this to the standard deviation


@dataclass(frozen=True)
class Moments:
    mean: np.ndarray  # D
    std: np.ndarray  # D, plain (ddof 0)
    constant: np.ndarray  # D, True where a column has one value only


def moments(A: np.ndarray, rows: np.ndarray | None = None, what: str = "column") -> Moments:
    """Moments of A[rows] (all rows when None) without holding more than a block of a large array; UserError,
    calling the column `what`, where numbers are too large or too close together to have any."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        found = _moments(A, rows)
    usable = np.isfinite(found.mean) & np.isfinite(found.std) & ((found.std > SMALLEST) | found.constant)
    if not usable.all():
        i = int(np.flatnonzero(~usable)[0])
        raise UserError(
            f"{what} {i} has mean {found.mean[i]:g} and standard deviation {found.std[i]:g}, which cannot be "
            f"standardised; rescale it to numbers between {SMALLEST:g} and {LARGEST:g}"
        )
    return found


def _moments(A: np.ndarray, rows: np.ndarray | None) -> Moments:
    n = len(A) if rows is None else len(rows)
    if n * A.shape[1] * 8 <= DIRECT_BYTES:
        part = np.asarray(A if rows is None else A[rows])
        return Moments(part.mean(axis=0), part.std(axis=0), part.min(axis=0) == part.max(axis=0))
    ordered = None if rows is None else np.sort(rows)  # in file order: far fewer page reads
    total, low, high = 0.0, np.inf, -np.inf
    for block in _blocks(A, ordered):
        total = total + block.sum(axis=0)
        low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
    mean = total / n
    square = sum(((block - mean) ** 2).sum(axis=0) for block in _blocks(A, ordered))
    return Moments(mean, np.sqrt(square / n), low == high)


def _blocks(A: np.ndarray, rows: np.ndarray | None):
    step = max(1, _BLOCK_VALUES // A.shape[1])
    for start in range(0, len(A) if rows is None else len(rows), step):
        yield np.asarray(A[start : start + step] if rows is None else A[rows[start : start + step]])


def scale(found: Moments, scaling: str) -> tuple[np.ndarray, np.ndarray]:
    """(mean, std) to apply. `all` adds 1e-6 like bayesian_benchmarks; `train` maps constant columns to 0;
    `none` leaves all as they are."""
    if scaling == "none":
        return np.zeros_like(found.mean), np.ones_like(found.std)
    if scaling == "all":
        return found.mean, found.std + EPSILON
    return found.mean, np.where(found.constant, 1.0, found.std)


MARGIN = 1e-6  # distance from 0 and 1 that a rescaled target keeps
MAX_LEVELS = 1000


def scale_targets(
    Y: np.ndarray,
    rows: np.ndarray | None,
    scaling: str,
    likelihood: dict,
    seen: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return shift and scale of a regression's targets for their likelihood: y -> (y - shift) / scale.

    Standardised like inputs, or as the likelihood's `scaling` says: unchanged (none), divided by their mean
    (mean), with their range mapped to (0, 1) (range), or levels as 0, 1, 2 ... (levels). Range and levels are
    those of all rows (of the rows `seen`): they say what can be measured, not what was.
    """
    P, how = Y.shape[1], "standard"
    if likelihood["name"] != "auto":
        how = likelihood_class(likelihood).target_scaling(likelihood)
    if how == "none":
        return np.zeros(P), np.ones(P)
    if how == "mean":
        mean = moments(Y, rows, "target").mean
        return np.zeros(P), np.where(mean > 0, mean, 1.0)
    if how == "range":
        Y = Y if seen is None else Y[seen]
        low, high = np.min(Y, 0), np.max(Y, 0)
        if (low == high).any():
            raise UserError("likelihood.rescale=true: the targets have one value only, and so no range")
        width = (high - low) / (1.0 - 2.0 * MARGIN)
        return low - MARGIN * width, width
    if how == "levels":
        return _levels(Y if seen is None else Y[seen])
    return scale(moments(Y, rows, "target"), scaling)


def _levels(Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lowest level and the distance between levels, which must be evenly spaced; some may be absent."""
    values = np.unique(np.asarray(Y))
    gaps = np.diff(values)
    step = gaps[gaps > 1e-9 * np.abs(values).max()].min(initial=np.inf)
    places = (values - values[0]) / step
    if not np.isfinite(step) or np.abs(places - np.round(places)).max() > 1e-3 or places[-1] >= MAX_LEVELS:
        raise UserError(
            f"likelihood=ordinal needs targets on 2 to {MAX_LEVELS} evenly spaced levels; these have "
            f"{len(values)} different values from {values[0]:g} to {values[-1]:g}: use likelihood=gaussian"
        )
    step = (values[-1] - values[0]) / np.round(places[-1])  # less rounding than in one gap
    return np.full(Y.shape[1], values[0]), np.full(Y.shape[1], step)


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
