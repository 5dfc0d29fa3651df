"""Scores of images: the density of all pixels together, and the error of the predicted mean image.

An image has hundreds of outputs, so there are no scores of single pixels, and no draws. Inputs are labels,
the same for many images: their mean image is predicted once.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np

from dgpbench.errors import Diverged, UserError
from dgpbench.evaluate import mixture
from dgpbench.evaluate.evaluation import Density, Evaluation, Predict, Progress, Stopwatch, chunk_seed
from dgpbench.evaluate.predictive import Predictive

CHUNK_ROWS = 500  # rows whose density is asked for at once: their noise is keyed by the chunk
CHUNK_BYTES = 100e6  # of the components of rows that are predicted at once
MEAN_SAMPLES = 500  # of a mean image
TRAIN, MEANS = 1 << 20, 1 << 21  # the first chunk's number of training images and of mean images


class Scored(NamedTuple):
    """log p(y | x) (N,) of rows, its Monte Carlo error for their mean, and the effective samples of each."""

    log_density: np.ndarray
    mc_se: float | None
    effective: np.ndarray


class Asking(NamedTuple):
    """How a model is asked: its two functions, samples, seed, and the watch on both."""

    predict: Predict
    density: Density | None
    samples: int
    seed: int
    watch: Stopwatch
    progress: Progress


def evaluate_images(
    predict: Predict,
    split,
    protocol: dict,
    seed: int,
    density: Density | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Scores of the test images, and the log-likelihood of the training images."""
    stop = protocol.get("max_test")
    X, Y, rows = split.X_test[:stop], split.Y_test[:stop], split.rows_test[:stop]
    if not len(X):
        raise UserError("the split has no test images; choose a smaller protocol.train_fraction")
    began, watch = time.perf_counter(), Stopwatch()
    samples, quiet = protocol["test_samples"], lambda done, total: None
    asking = Asking(predict, density, samples, seed, watch, progress or quiet)
    test = score(asking, X, Y)
    train = score(asking._replace(progress=quiet), split.X_train, split.Y_train, TRAIN)
    error, y_std = mean_images(asking, X) - Y, np.reshape(split.y_std, -1)
    scale, squares = float(np.log(y_std).sum()), ((error * y_std) ** 2).mean(1)
    metrics = {
        "test_loglik": float(test.log_density.mean()) - scale,
        "test_loglik_std": float(test.log_density.mean()),
        "test_loglik_per_pixel": (float(test.log_density.mean()) - scale) / Y.shape[1],
        "test_loglik_mc_se": test.mc_se,
        "test_rmse": math.sqrt(squares.mean()),
        "test_rmse_std": math.sqrt((error**2).mean()),
        "train_loglik": float(train.log_density.mean()) - scale,
        "train_loglik_mc_se": train.mc_se,
    }
    bad = [name for name, value in metrics.items() if value is not None and not math.isfinite(value)]
    if bad:
        raise Diverged(f"not finite: {', '.join(bad)}")
    effective = {"median": float(np.median(test.effective)), "least": float(test.effective.min())}
    predictions = {
        "row": np.asarray(rows, dtype=np.int64),
        "log_density": test.log_density - scale,
        "squared_error": squares,
        "effective_samples": test.effective,
    }
    seconds = time.perf_counter() - began
    details = {"effective_samples": effective}
    return Evaluation(metrics, details, predictions, None, (), seconds, watch.seconds)


def score(asking: Asking, X: np.ndarray, Y: np.ndarray, first: int = 0) -> Scored:
    """Densities of images Y (N, P) given X (N, D), chunk by chunk, whose numbers begin at `first`."""
    size = CHUNK_ROWS
    logs, effective, exact = [], [], False
    influence: np.ndarray | float = 0.0
    asking.progress(0, len(X))
    index, start = 0, 0
    while start < len(X):
        part, own = slice(start, start + size), chunk_seed(asking.seed, first + index)
        terms, weights = None, None
        if asking.density:
            terms = asking.watch(asking.density, X[part], Y[part], asking.samples, own)
        if terms is None:  # no better density than that of the predicted components
            asking = asking._replace(density=None)
            size = max(1, min(size, int(CHUNK_BYTES / (8 * asking.samples * Y.shape[1]))))
            part = slice(start, start + size)
            terms, weights = _components(asking.watch(asking.predict, X[part], asking.samples, own), Y[part])
        exact = weights is not None or len(terms) == 1
        logs.append(mixture.log_density(terms, weights))
        influence = influence + mixture.loglik_influence(terms)
        effective.append(_effective(terms if weights is None else terms + weights))
        index, start = index + 1, start + size
        asking.progress(min(start, len(X)), len(X))
    mc_se: float | None = 0.0 if exact else mixture.loglik_mc_se(np.asarray(influence), len(X))
    if exact and asking.samples == 1:
        mc_se = None  # one sample tells nothing of its error
    return Scored(np.concatenate(logs), mc_se, np.concatenate(effective))


def _components(predictive: Predictive, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """log densities (S, N) of a mixture's components, and their log weights where they have any."""
    if problem := predictive.problem():
        raise Diverged(problem)
    if predictive.kind != "mixture":
        raise UserError("this model answers with draws, which give no density of images; use another model")
    return mixture.component_logpdf(predictive.mean, predictive.var, Y), predictive.log_weights


def _effective(logp: np.ndarray) -> np.ndarray:
    """(sum of weights)^2 / sum of squared weights (N,) for logs (S, N)."""
    weight = np.exp(logp - logp.max(0))
    return weight.sum(0) ** 2 / (weight**2).sum(0)


def mean_images(asking: Asking, X: np.ndarray) -> np.ndarray:
    """The predicted mean image (N, P) of each row of X, computed once for each different row."""
    different, where = np.unique(X, axis=0, return_inverse=True)
    samples, out = min(asking.samples, MEAN_SAMPLES), []
    for index, x in enumerate(different):
        predictive = asking.watch(asking.predict, x[None], samples, chunk_seed(asking.seed, MEANS + index))
        if problem := predictive.problem():
            raise Diverged(problem)
        out.append(predictive.mixture_mean()[0])
    return np.array(out)[where.ravel()]
