"""A start from the data (model.start=data): what GP regression on some of the rows finds, and the best q(u)
of the last layer given that.

Inner layers begin near their mean functions, so the whole model begins as a sparse GP whose hyperparameters
come from the marginal likelihood of an exact GP, on a grid, and whose q(u) and noise are those of the
collapsed bound: where training of a sparse GP would arrive, training of the deep one begins.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from dgpbench.gp.first_guesses import median_distance
from dgpbench.gp.layer import GPLayer
from dgpbench.gp.parameters import scope

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
