"""Initial values: cluster centres, principal axes, mixing matrices, and a start from the data.

Under model.start=data, inner layers begin near their mean functions, so that the whole model begins as a
sparse GP. GP regression on some of the rows gives its hyperparameters, by the exact marginal likelihood on a
grid. Its q(u) and noise are those of the collapsed bound. Training of the deep model begins where training of
a sparse GP would end.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from dgpbench.errors import UserError
from dgpbench.gp.layer import GPLayer
from dgpbench.gp.parameters import scope

DISTANCE_ROWS = 1000
MANY_COLUMNS = 500  # from here on axes come from the covariance: 60,000 images take seconds, not a minute
KMEANS_ROWS_PER_CENTRE = 100  # k-means sees at most this many random rows per inducing point


def kmeans(X: np.ndarray, count: int, rng: np.random.RandomState) -> np.ndarray:
    """Return k-means centres of (a random subset of) the rows of X, started from random rows."""
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
    """Return an even grid (count, D) over the range of each column of X; count must be k^D."""
    k, D = round(count ** (1.0 / max(X.shape[1], 1))), X.shape[1]
    if k**D != count or k < 2:
        raise ValueError(f"{count} points make no grid in {D} dimensions")
    axes = [np.linspace(low, high, k) for low, high in zip(X.min(0), X.max(0), strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(count, D)


def count_inducing(asked: float, rows: int) -> int:
    """Return the number of inducing points; a number below 1 is a share of the training rows."""
    return max(1, round(asked * rows)) if asked < 1 else int(asked)


def padded(X: np.ndarray, count: int, rng: np.random.RandomState) -> np.ndarray:
    """Return all rows of X, padded with standard normal rows to `count`, as in the released IWVI code."""
    return np.concatenate([X, rng.randn(count - len(X), X.shape[1])])


def principal_axes(H: np.ndarray, count: int) -> np.ndarray:
    """Return the first `count` principal axes of H as columns (D, count); zeros if there are fewer rows."""
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
    """Return principal axes of Y times their standard deviations, P (D, count): P P^T is near cov(Y)."""
    axes = principal_axes(Y, count)
    return axes * (Y @ axes).std(0)


def median_distance(H: np.ndarray) -> float:
    """Return the median distance between rows of H, at most DISTANCE_ROWS; 1 if all rows are equal."""
    from scipy.spatial.distance import pdist

    rows = np.unique(np.linspace(0, len(H) - 1, DISTANCE_ROWS).astype(int))
    distances = pdist(H[rows])
    middle = float(np.median(distances)) if len(distances) else 0.0
    return middle if middle > 0.0 else 1.0


def residual_scores(X: np.ndarray, Y: np.ndarray, count: int) -> np.ndarray:
    """Return initial latent variables (N, count) from the residuals of a linear model of Y.

    They are uncorrelated columns of unit variance, and zeros where Y has fewer dimensions.
    """
    F = np.hstack([X, np.ones((len(X), 1))])
    left = Y - F @ np.linalg.lstsq(F, Y, rcond=None)[0]
    scores = left @ principal_axes(left, min(count, Y.shape[1]))
    spread = scores.std(0)
    out = np.zeros((len(Y), count))
    out[:, : scores.shape[1]] = scores / np.where(spread > 0, spread, 1.0)
    return out


def output_mixing(
    settings: Mapping[str, Any], Y: np.ndarray, image: Sequence[int] | None, gps: int
) -> np.ndarray:
    """Return P (outputs, gps) of the last layer: scaled axes of Y (N, outputs) or of a pixel kernel."""
    if settings["output_mixing"] == "principal":
        return principal_scales(Y, gps)
    if not image:
        raise UserError(
            "model.output_mixing=pixels needs images as outputs, such as dataset=mnist_images; use principal"
        )
    return pixel_scales(image, gps, settings["mixing_lengthscale"])


def pixel_scales(shape: Sequence[int], count: int, lengthscale: float) -> np.ndarray:
    """Eigenvectors of the Matern-5/2 Gram matrix of an image's pixels, times roots of their eigenvalues, the
    largest first (pixels, count): P P^T is that matrix, or as near it as so many columns can be (thesis 4.4).

    Pixels are numbered row by row and lie at distances of 1.
    """
    from scipy.spatial.distance import cdist

    places = np.stack(np.meshgrid(*(np.arange(n) for n in shape), indexing="ij"), -1).reshape(-1, len(shape))
    r = np.sqrt(5.0) * cdist(places, places) / lengthscale
    values, vectors = np.linalg.eigh((1.0 + r + r**2 / 3.0) * np.exp(-r))
    values, vectors = values[::-1][:count], vectors[:, ::-1][:, :count]
    signs = np.where(vectors[np.abs(vectors).argmax(0), np.arange(count)] < 0, -1.0, 1.0)
    return vectors * signs * np.sqrt(np.maximum(values, 0.0))


def released_mixing(X: np.ndarray, width: int, gps: int) -> np.ndarray:
    """The first columns of V^T of the SVD of X, as the released code takes them: not the principal axes."""
    Vt = np.linalg.svd(X, full_matrices=False)[2]
    P = np.zeros((width, gps))
    P[: len(Vt), : min(gps, X.shape[1])] = Vt[:width, : min(gps, X.shape[1])]
    return P


ROWS = 400  # of exact GP regression
LENGTHSCALES = np.geomspace(0.25, 4.0, 9)  # in median distances
NOISES = np.geomspace(1e-3, 10.0, 25)  # in kernel variances
LEAST_NOISE = 1e-3  # in variances of the target
NOISE_STEPS = 20  # of q(u) and noise in turn
CHUNK = 10_000  # rows
INNER_VARIANCE = 1.0  # of the kernels of inner layers, at the start
WITHOUT = 1.0, 0.5  # kernel variance, and noise variance in those of the target, where no regression is made


def regression(H: np.ndarray, Y: np.ndarray) -> tuple[float, float, float]:
    """Variance and lengthscale of an RBF kernel, and noise variance, with the largest marginal likelihood on
    a grid, for (at most ROWS evenly chosen) rows of H (N, D), Y (N, P)."""
    from scipy.spatial.distance import pdist, squareform

    rows = np.unique(np.linspace(0, len(H) - 1, ROWS).astype(int))
    squares, middle, y = squareform(pdist(H[rows], "sqeuclidean")), median_distance(H), Y[rows] - Y.mean(0)
    found = []
    for lengthscale in middle * LENGTHSCALES:
        w, U = np.linalg.eigh(np.exp(-0.5 * squares / lengthscale**2))
        spread = np.maximum(w, 0.0)[:, None] + NOISES  # n, grid
        power = np.mean((U.T @ y) ** 2, 1)[:, None]
        variance = np.maximum(np.mean(power / spread, 0), 1e-12)  # the best one for each noise
        value = -0.5 * len(rows) * np.log(variance) - 0.5 * np.log(spread).sum(0)
        best = int(np.argmax(value))
        found.append((value[best], variance[best], lengthscale, variance[best] * NOISES[best]))
    return max(found)[1:]


def best_posterior(
    layer: GPLayer, values: dict[str, np.ndarray], noise: float, H: np.ndarray, Y: np.ndarray, num_data: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """q_mu (P, M) and q_sqrt (P, M, M) of a layer with inputs H, targets Y and Gaussian noise, at the largest
    bound, and the noise variance, by turns. `values` are the layer's; H, Y may be a sample of `num_data`
    rows.
    """
    tensors = {name: tf.constant(value) for name, value in values.items()}
    kernel = layer.kernel.prepare(scope(tensors, "kernel"), tensors["Z"])
    L = tf.linalg.cholesky(layer.gram(tensors, 1e-6))
    M, weight = layer.num_inducing, num_data / len(H)
    AA, AY, prior = np.zeros((M, M)), np.zeros((M, Y.shape[1])), 0.0
    for first in range(0, len(H), CHUNK):
        part = tf.constant(H[first : first + CHUNK].T)
        A = tf.linalg.triangular_solve(L, layer.kernel.cross(kernel, part)).numpy()
        AA, AY = AA + A @ A.T, AY + A @ Y[first : first + CHUNK]
        prior += float(tf.reduce_sum(layer.kernel.diagonal(kernel, part) * tf.ones_like(part[:1])))
    floor = LEAST_NOISE * max(float(Y.var(0).mean()), 1e-12)
    for _ in range(NOISE_STEPS):
        S = np.linalg.inv(np.eye(M) + weight * AA / noise)
        m = weight * S @ AY / noise  # M, P
        misfit = np.sum(Y**2) - 2.0 * np.sum(m * AY) + np.sum(m * (AA @ m))
        doubt = Y.shape[1] * (prior - np.trace(AA) + np.sum(S * AA))
        noise = max(float(misfit + doubt) / Y.size, floor)
    root = np.linalg.cholesky(0.5 * (S + S.T))
    return m.T.copy(), np.tile(root, (Y.shape[1], 1, 1)), noise
