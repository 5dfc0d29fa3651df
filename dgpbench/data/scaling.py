"""Column means and standard deviations, in one piece for small data and in blocks for large."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

DIRECT_BYTES = (
    64 << 20
)  # up to here numpy's own mean and std: bit-identical to what the papers' code computes
_BLOCK_VALUES = 1 << 20
EPSILON = 1e-6  # bayesian_benchmarks adds this to the standard deviation


@dataclass(frozen=True)
class Moments:
    mean: np.ndarray  # D
    std: np.ndarray  # D, plain (ddof 0)
    constant: np.ndarray  # D, True where a column has one value only


def moments(A: np.ndarray, rows: np.ndarray | None = None) -> Moments:
    """Moments of A[rows] (all rows when None) without holding more than a block of a large array."""
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
    """(mean, std) to apply. `all` adds 1e-6 like bayesian_benchmarks; `train` maps constant columns to 0."""
    if scaling == "all":
        return found.mean, found.std + EPSILON
    return found.mean, np.where(found.constant, 1.0, found.std)
