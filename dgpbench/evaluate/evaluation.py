"""From a model's predict function to metrics and tables, over the test rows in chunks of bounded memory."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dgpbench.config.schema import NUMBERS
from dgpbench.errors import Diverged, ModelError, UserError, source_of
from dgpbench.evaluate import mixture
from dgpbench.evaluate.metric_table import IMAGES, compute
from dgpbench.evaluate.metrics import TINY
from dgpbench.evaluate.predictive import Predictive
from dgpbench.evaluate.scorers import ClassScorer, CountScorer, RegressionScorer

SCORERS = {  # by task
    "regression": RegressionScorer,
    "counts": CountScorer,
    "binary": ClassScorer,
    "multiclass": ClassScorer,
}
CHUNK_ROWS = 1000
CHUNK_BYTES = 100e6  # of one array of components or draws: mean and var together stay below 200 MB
IMAGE_ROWS = 500  # rows whose density is asked for at once: their noise is keyed by the chunk
MEAN_SAMPLES = 500  # of a mean image
TRAIN, MEANS = 1 << 20, 1 << 21  # the first chunk's number of training images and of mean images


@dataclass(frozen=True)
class Evaluation:
    """Metrics by name (None where one does not apply), details for the record, tables by column."""

    metrics: dict[str, float | None]
    details: dict
    predictions: dict[str, np.ndarray]
    draws: dict[str, np.ndarray] | None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0  # of all this
    predict_seconds: float = 0.0  # of the model's part in it


def chunk_rows(samples: int, draws: int, outputs: int) -> int:
    """Rows given to predict at once. It depends on the protocol and the number of outputs only, never on the
    machine: a model's own noise is keyed by the chunk's seed, so the chunk size is part of the result."""
    return max(1, min(CHUNK_ROWS, int(CHUNK_BYTES / (8 * max(samples, draws) * outputs))))


def chunk_seed(seed: int, index: int) -> int:
    """The seed that predict gets for chunk `index`: no two chunks share noise. Below 2^31."""
    return int(np.random.SeedSequence((seed, index)).generate_state(1)[0] >> 1)


Predict = Callable[[np.ndarray, int, int], Predictive]  # X, samples, seed
Density = Callable[[np.ndarray, np.ndarray, int, int], np.ndarray | None]  # X, Y, samples, seed: terms (S, N)
Progress = Callable[[int, int], None]  # rows done, rows in all


class Stopwatch:
    """Seconds spent inside a function, over all its calls."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, function: Callable, *args):
        began = time.perf_counter()
        try:
            return function(*args)
        finally:
            self.seconds += time.perf_counter() - began


def check_predictive(predict: Predict, found: object, split, Y: np.ndarray) -> None:
    """Raise ModelError unless `predict` returned a distribution of the split's task for targets Y."""
    (rows, outputs), classes = Y.shape, split.task not in NUMBERS
    wanted = f"({rows}, {split.n_classes})" if classes else f"(S, {rows}, {outputs})"
    kind = "Predictive(probs=)" if classes else "Predictive(mean=, var=) or Predictive(draws=)"
    if not isinstance(found, Predictive):
        what = f"a {type(found).__name__}"
        if isinstance(found, np.ndarray):
            what = f"an array of shape {found.shape}"
        elif isinstance(found, tuple | list):
            what += f" of {len(found)}"
        raise ModelError(f"{source_of(predict)}predict returned {what}, expected {kind} of shape {wanted}")
    if (found.kind == "probs") != classes:
        got = "class probabilities" if found.kind == "probs" else f"numbers ({found.kind})"
        text = f"predict returned {got}, expected {kind}: the task is {split.task}"
        raise ModelError(f"{source_of(predict)}{text}")
    shape = found.probs.shape if classes else (found.mean if found.var is not None else found.draws).shape
    if shape != (rows, split.n_classes) if classes else shape[1:] != (rows, outputs):
        raise ModelError(f"{source_of(predict)}predict returned shape {shape}, expected {wanted}")


def check_density(density: Density, found: object, rows: int) -> np.ndarray | None:
    """Return the terms (S, rows) that `log_density` gave, or None if it has none for these rows.

    Raises
    ------
    ModelError
        If they have another shape or are no numbers.
    Diverged
        If one of them is NaN or infinitely large.
    """
    if found is None:
        return None
    place = source_of(density)
    try:
        terms = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        what = f"a {type(found).__name__}"
        raise ModelError(f"{place}log_density returned {what}, expected numbers (S, {rows})") from None
    if terms.ndim != 2 or terms.shape[1] != rows or not len(terms):
        raise ModelError(f"{place}log_density returned shape {terms.shape}, expected (S, {rows})")
    if bad := np.count_nonzero(np.isnan(terms) | (terms == np.inf)):  # a density may be 0
        raise Diverged(f"log_density is not finite in {bad} of {terms.size} entries")
    return terms


def evaluate(
    predict: Predict,
    split,
    protocol: dict,
    seed: int,
    density: Density | None = None,
    threads: int = 1,
    progress: Progress | None = None,
    config_dirs: Sequence[str] = (),
) -> Evaluation:
    """Score `predict(X, samples, seed)` on the test rows of `split` (the first `max_test` of them).

    A model that answers with draws is asked for `draws` of them instead of `test_samples`. `density`, where a
    model has it and it answers, gives log p(y | x) in place of the mixture of `predict`. Scores come from
    `threads` cores, whose number changes no score. `progress` is told at the start and after each chunk.
    Raises Diverged, with the reason, where a prediction or a metric is not finite.
    """
    if split.task not in SCORERS:
        raise UserError(f"no metrics for task {split.task}; known tasks: {', '.join(SCORERS)}")
    if getattr(split, "image", None):
        return evaluate_images(predict, split, protocol, seed, density, progress, config_dirs)
    stop = protocol.get("max_test")
    X, Y, rows = split.X_test[:stop], split.Y_test[:stop], split.rows_test[:stop]
    if not len(X):
        raise UserError("the split has no test rows; choose a smaller protocol.train_fraction")
    began, watch = time.perf_counter(), Stopwatch()
    scorer: Any = SCORERS[split.task](split, protocol, seed, len(X), threads)
    samples = protocol["test_samples"]
    if split.task in NUMBERS:
        size = chunk_rows(samples, protocol["draws"], Y.shape[1])
    else:  # class probabilities are all there is: no draws, no other density
        size, density = chunk_rows(samples, samples, split.n_classes), None
    progress = progress or (lambda done, total: None)
    progress(0, len(X))
    for index, start in enumerate(range(0, len(X), size)):
        part = slice(start, start + size)
        predictive = watch(predict, X[part], samples, chunk_seed(seed, index))
        check_predictive(predict, predictive, split, Y[part])
        if index == 0 and scorer.samples_for(predictive) != samples:
            samples = scorer.samples_for(predictive)
            predictive = watch(predict, X[part], samples, chunk_seed(seed, index))
        if problem := predictive.problem():
            raise Diverged(f"{problem} (test rows {start} to {start + len(X[part]) - 1})")
        given = (X[part], Y[part], protocol["test_samples"], chunk_seed(seed, index))
        terms = check_density(density, watch(density, *given), len(X[part])) if density else None
        with np.errstate(all="ignore"):  # looked for below
            scorer.add(predictive, Y[part], start, terms)
        progress(min(start + size, len(X)), len(X))
    with np.errstate(all="ignore"):
        metrics, details, predictions, draws = scorer.finish(X, Y, rows, config_dirs)
    _finite(metrics)
    seconds = time.perf_counter() - began
    return Evaluation(metrics, details, predictions, draws, tuple(scorer.notes), seconds, watch.seconds)


def _finite(metrics: dict[str, float | None]) -> dict[str, float | None]:
    """Return the metrics; raise Diverged if one is not finite."""
    if bad := [name for name, value in metrics.items() if value is not None and not math.isfinite(value)]:
        raise Diverged(f"not finite: {', '.join(bad)}")
    return metrics


def mean_loglik(predict: Predict, split, samples: int, seed: int, density: Density) -> float:
    """Mean log p(y | x) over the test rows, in original units, as `evaluate` has it but for its chunks."""
    X, Y = split.X_test, split.Y_test
    scale = float(np.log(split.y_std).sum())
    terms = density(X, Y, samples, seed)
    if terms is not None:
        return float(mixture.log_density(terms).mean()) - scale
    predictive = predict(X, samples, seed)
    if predictive.kind == "probs":
        truth = predictive.probs[np.arange(len(Y)), Y[:, 0].astype(int)]
        return float(np.log(np.maximum(truth, TINY)).mean())
    return float(predictive.log_density(Y).mean()) - scale


# ---- images: the density of all pixels together, and the error of the predicted mean image ----------------
#
# An image has hundreds of outputs, so there are no scores of single pixels, and no draws. Inputs are labels,
# the same for many images: their mean image is predicted once.


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
    config_dirs: Sequence[str] = (),
) -> Evaluation:
    """Scores of the test images, and the log-likelihood of the training images."""
    stop = protocol.get("max_test")
    X, Y, rows = split.X_test[:stop], split.Y_test[:stop], split.rows_test[:stop]
    if not len(X):
        raise UserError("the split has no test images; choose a smaller protocol.train_fraction")
    began, watch = time.perf_counter(), Stopwatch()
    samples, quiet = protocol["test_samples"], lambda done, total: None
    asking = Asking(predict, density, samples, seed, watch, progress or quiet)
    test = score_images(asking, X, Y)
    train = score_images(asking._replace(progress=quiet), split.X_train, split.Y_train, TRAIN)
    error, y_std = mean_images(asking, X) - Y, np.reshape(split.y_std, -1)
    squares = ((error * y_std) ** 2).mean(1)
    notes: list[str] = []
    scale = float(np.log(y_std).sum())
    inputs = {
        "squared_error": squares,
        "log_density": test.log_density - scale,
        "standard_log_density": test.log_density,
        "log_scale": scale,
        "mc_se": test.mc_se,
        "train_standard_log_density": train.log_density,
        "train_mc_se": train.mc_se,
        "pixels": Y.shape[1],
    }
    standardised = inputs | {"squared_error": error**2, "log_density": test.log_density, "log_scale": 0.0}
    metrics = _finite(compute(IMAGES, inputs, standardised, config_dirs, notes.append))
    effective = {"median": float(np.median(test.effective)), "least": float(test.effective.min())}
    predictions = {
        "row": np.asarray(rows, dtype=np.int64),
        "log_density": test.log_density - scale,
        "squared_error": squares,
        "effective_samples": test.effective,
    }
    seconds = time.perf_counter() - began
    details = {"effective_samples": effective}
    return Evaluation(metrics, details, predictions, None, tuple(notes), seconds, watch.seconds)


def score_images(asking: Asking, X: np.ndarray, Y: np.ndarray, first: int = 0) -> Scored:
    """Densities of images Y (N, P) given X (N, D), chunk by chunk, whose numbers begin at `first`."""
    size = IMAGE_ROWS
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
