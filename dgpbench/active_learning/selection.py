"""The loop of active learning: fit to the rows that have labels, score, ask for the next label."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dgpbench.api.fitted import predictive_chunks, train
from dgpbench.data.split import Split
from dgpbench.experiment import evaluation_protocol, run_seed

POOLS = ("train", "all")


@dataclass(frozen=True)
class Options:
    """How labels are asked for: the first `initial` rows of the pool have theirs."""

    initial: int = 3
    select: str = "variance"  # or entropy, random
    pool: str = "train"  # rows that may be labelled: the training rows, or all


@dataclass(frozen=True)
class Scores:
    """Predictions at rows, scored: log density (None of models that only draw), error, uncertainty (N,)."""

    loglik: np.ndarray | None
    error: np.ndarray  # squared error, original units; of classes 1.0 where the likeliest is wrong
    uncertainty: np.ndarray


def pool_rows(split: Split, pool: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows that may be labelled, in the order of the split's shuffle, and rows held out."""
    if pool == "all":
        return np.concatenate([split.rows_train, split.rows_test]), split.rows_test[:0]
    return split.rows_train, split.rows_test


def learn(
    cfg: dict,
    split: Split,
    options: Options,
    iterations: int,
    steps: Sequence[dict] = (),
    keep: Callable[[dict], None] = lambda step: None,
) -> list[dict]:
    """Steps of a curve, going on behind those in `steps`; each new one is handed to `keep` at once.

    A step has the number of labels it was fitted with, the source row chosen next, seconds, and a mean
    log-likelihood and RMSE (or accuracy) for each part: test (rows held out), pool (all rows that may be
    labelled), seen and rest (those with and without a label once the next is chosen, as
    bayesian_benchmarks counts). Every model is trained from scratch.
    """
    rows, held_out = pool_rows(split, options.pool)
    labelled = np.zeros(len(rows), bool)
    labelled[: options.initial] = True
    place = {int(row): i for i, row in enumerate(rows)}
    for step in steps:
        labelled[place[step["row"]]] = True
    found = list(steps)
    X, Y = split.take(np.concatenate([rows, held_out]))
    for number in range(len(found), min(iterations, len(rows) - options.initial)):
        began = time.perf_counter()
        part = replace(split, rows_train=rows[labelled], rows_test=held_out, rows_valid=None)
        scores = _scores(cfg, part, X, Y)
        uncertainty = scores.uncertainty[: len(rows)]
        if options.select == "random":
            uncertainty = by_chance(len(rows), cfg["split"], cfg["seed"], number)
        count, chosen = int(labelled.sum()), next_row(uncertainty, labelled)
        labelled[chosen] = True
        step = {"labels": count, "row": int(rows[chosen])}
        step |= _parts(scores, labelled, len(held_out), bool(split.classes))
        found.append(step | {"seconds": time.perf_counter() - began})
        keep(found[-1])
    return found


def _scores(cfg: dict, part: Split, X: np.ndarray, Y: np.ndarray) -> Scores:
    """A model fitted to the training rows of `part`, scored at scaled rows X with targets Y."""
    model = train(cfg, part)
    protocol, seed = evaluation_protocol(model, cfg), run_seed(cfg)
    loglik, error, uncertainty = [], [], []
    for start, found in predictive_chunks(model, X, protocol, seed, part.outputs, part.n_classes):
        y = Y[start : start + found.num_points]
        if found.probs is not None:
            codes, probs = y[:, 0].astype(int), clipped(found.probs)
            loglik.append(np.log(probs[np.arange(len(codes)), codes]))
            error.append((probs.argmax(1) != codes).astype(float))
            uncertainty.append(entropy(probs))
            continue
        if found.kind == "mixture":
            loglik.append(found.log_density(y) - np.log(part.y_std).sum())
        error.append(np.mean(((y - found.mixture_mean()) * part.y_std) ** 2, axis=1))
        uncertainty.append(np.sum(found.mixture_sd() ** 2, axis=1))
    joined = np.concatenate(loglik) if loglik else None
    return Scores(joined, np.concatenate(error), np.concatenate(uncertainty))


def _parts(scores: Scores, labelled: np.ndarray, held_out: int, classes: bool) -> dict:
    """Mean scores of each part that has rows."""
    nothing, everything = np.zeros(held_out, bool), np.ones(held_out, bool)
    masks = {
        "test": np.concatenate([np.zeros_like(labelled), everything]),
        "rest": np.concatenate([~labelled, nothing]),
        "seen": np.concatenate([labelled, nothing]),
        "pool": np.concatenate([np.ones_like(labelled), nothing]),
    }
    out: dict[str, float] = {}
    for part, mask in masks.items():
        if not mask.any():
            continue
        if scores.loglik is not None:
            out[f"{part}_loglik"] = float(scores.loglik[mask].mean())
        error = float(scores.error[mask].mean())
        name, value = ("accuracy", 1.0 - error) if classes else ("rmse", error**0.5)
        out[f"{part}_{name}"] = value
    return out


SELECT = ("auto", "variance", "entropy", "random")
CLIP = 1e-12  # of class probabilities, as in bayesian_benchmarks


def resolve(select: str, classes: int) -> str:
    """The criterion that `auto` means; ValueError where a task has no such quantity."""
    own = "entropy" if classes else "variance"
    if select == "auto":
        return own
    if select in ("variance", "entropy") and select != own:
        task = "classes have an entropy, no variance" if classes else "quantities have a variance, no entropy"
        raise ValueError(f"--select {select}: {task}; use {own}, random or auto")
    return select


def clipped(probs: np.ndarray) -> np.ndarray:
    """Class probabilities (N, C), none zero or one, summing to one."""
    probs = np.clip(probs, CLIP, 1.0 - CLIP)
    return probs / probs.sum(1, keepdims=True)


def entropy(probs: np.ndarray) -> np.ndarray:
    """Entropy (N,) of class probabilities (N, C), in nats."""
    return -np.sum(probs * np.log(probs), axis=1)


def next_row(uncertainty: np.ndarray, labelled: np.ndarray) -> int:
    """Position of the largest uncertainty (N,) among the rows without a label; the first of equal ones."""
    return int(np.argmax(np.where(labelled, -np.inf, uncertainty)))


def by_chance(rows: int, split: int, seed: int, step: int) -> np.ndarray:
    """Uncertainties (N,) for a choice by chance, of this split, seed and step only."""
    return np.random.default_rng([split, seed, step]).random(rows)
