"""Where things start: cluster centres, principal axes, residual scores. NumPy only."""

from __future__ import annotations

import warnings

import numpy as np

DISTANCE_ROWS = 1000
MANY_COLUMNS = 500  # from here on axes come from the covariance: 60,000 images take seconds, not a minute
KMEANS_ROWS_PER_CENTRE = 100  # k-means sees at most this many random rows per inducing point


def kmeans(X: np.ndarray, count: int, rng: np.random.RandomState) -> np.ndarray:
    """k-means centres of (a random subset of) the rows of X, started from random rows."""
    from scipy.cluster.vq import kmeans2

    if not X.shape[1]:
        return np.zeros((count, 0))
    rows = KMEANS_ROWS_PER_CENTRE * count
    subset = X if len(X) <= rows else X[rng.choice(len(X), rows, replace=False)]
    start = subset[rng.choice(len(subset), count, replace=False)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty cluster keeps its starting row
        return kmeans2(subset, start, minit="matrix", iter=10, missing="warn", check_finite=False)[0]


def grid(X: np.ndarray, count: int) -> np.ndarray:
    """An even grid (count, D) over the range of each column of X; ValueError unless count is k^D."""
    k, D = round(count ** (1.0 / max(X.shape[1], 1))), X.shape[1]
    if k**D != count or k < 2:
        raise ValueError(f"{count} points make no grid in {D} dimensions")
    axes = [np.linspace(low, high, k) for low, high in zip(X.min(0), X.max(0), strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(count, D)


def count_inducing(asked: float, rows: int) -> int:
    """Inducing points asked for; a number below 1 is a share of the training rows."""
    return max(1, round(asked * rows)) if asked < 1 else int(asked)


def padded(X: np.ndarray, count: int, rng: np.random.RandomState) -> np.ndarray:
    """All rows of X, filled up with standard normal rows to `count`, as the released IWVI code does."""
    return np.concatenate([X, rng.randn(count - len(X), X.shape[1])])


def principal_axes(H: np.ndarray, count: int) -> np.ndarray:
    """The first `count` principal axes of H as columns (D, count); zeros where there are fewer rows."""
    centred = H - H.mean(0)
    if min(H.shape) > MANY_COLUMNS:
        Vt = np.linalg.eigh(centred.T @ centred)[1].T[::-1]
    else:
        Vt = np.linalg.svd(centred, full_matrices=False)[2]
    signs = np.where(Vt[np.arange(len(Vt)), np.abs(Vt).argmax(1)] < 0, -1.0, 1.0)
    W = np.zeros((H.shape[1], count))
    W[:, : min(count, len(Vt))] = (Vt * signs[:, None])[:count].T
    return W


def principal_scales(Y: np.ndarray, count: int) -> np.ndarray:
    """Principal axes of Y, each times its standard deviation (D, count): P with P P^T near Y's covariance."""
    axes = principal_axes(Y, count)
    return axes * (Y @ axes).std(0)


def median_distance(H: np.ndarray) -> float:
    """The median distance between two of (at most DISTANCE_ROWS evenly chosen) rows of H; 1 where all are one
    point."""
    from scipy.spatial.distance import pdist

    rows = np.unique(np.linspace(0, len(H) - 1, DISTANCE_ROWS).astype(int))
    distances = pdist(H[rows])
    middle = float(np.median(distances)) if len(distances) else 0.0
    return middle if middle > 0.0 else 1.0


def residual_scores(X: np.ndarray, Y: np.ndarray, count: int) -> np.ndarray:
    """What a linear model leaves of Y, as `count` uncorrelated columns of unit variance (N, count); zeros
    where Y has fewer dimensions. A first guess of latent variables."""
    F = np.hstack([X, np.ones((len(X), 1))])
    left = Y - F @ np.linalg.lstsq(F, Y, rcond=None)[0]
    scores = left @ principal_axes(left, min(count, Y.shape[1]))
    spread = scores.std(0)
    out = np.zeros((len(Y), count))
    out[:, : scores.shape[1]] = scores / np.where(spread > 0, spread, 1.0)
    return out
