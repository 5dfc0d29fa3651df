"""From a model's predict function to metrics and tables, over the test rows in chunks of bounded memory."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dgpbench.config.schema import NUMBERS
from dgpbench.errors import Diverged, ModelError, UserError, source_of
from dgpbench.evaluate.classes import ClassScorer
from dgpbench.evaluate.counts import CountScorer
from dgpbench.evaluate.metrics import RegressionScorer
from dgpbench.evaluate.predictive import Predictive

SCORERS = {  # by task
    "regression": RegressionScorer,
    "counts": CountScorer,
    "binary": ClassScorer,
    "multiclass": ClassScorer,
}
CHUNK_ROWS = 1000
CHUNK_BYTES = 100e6  # of one array of components or draws: mean and var together stay below 200 MB


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
        from dgpbench.evaluate.pixels import evaluate_images

        return evaluate_images(predict, split, protocol, seed, density, progress)
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
        metrics, details, predictions, draws = scorer.finish(X, Y, rows)
    bad = [name for name, value in metrics.items() if value is not None and not math.isfinite(value)]
    if bad:
        raise Diverged(f"not finite: {', '.join(bad)}")
    seconds = time.perf_counter() - began
    return Evaluation(metrics, details, predictions, draws, tuple(scorer.notes), seconds, watch.seconds)
