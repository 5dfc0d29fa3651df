"""Which row to label next: the largest predictive variance or entropy, or any, by chance."""

from __future__ import annotations

import numpy as np

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
