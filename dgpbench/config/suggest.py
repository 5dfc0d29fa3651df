"""Nearest-name suggestions for error messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import PurePath

# Names from elsewhere, and what they are here.
ALIASES = {
    "lr": "inference.adam.learning_rate",
    "learning_rate": "inference.adam.learning_rate",
    "inference.lr": "inference.adam.learning_rate",
    "inference.learning_rate": "inference.adam.learning_rate",
    "inference.adam.lr": "inference.adam.learning_rate",
    "M": "model.num_inducing",
    "model.M": "model.num_inducing",
    "inducing": "model.num_inducing",
    "epochs": "budget.steps",
    "budget.epochs": "budget.steps",
    "iterations": "budget.steps",
    "num_steps": "budget.steps",
    "batch_size": "inference.batch",
    "inference.batch_size": "inference.batch",
    "num_samples": "inference.samples",
    **dict.fromkeys(("epoch", "n_epochs", "num_epochs", "max_iter", "iters", "n_iter"), "budget.steps"),
    **dict.fromkeys(("jobs", "n_jobs", "num_workers"), "launcher.workers"),
    **{"models": "model", "datasets": "dataset", "data": "dataset", "splits": "split", "seeds": "seed"},
    **{"path": "dataset.path", "target": "dataset.target", "results": "paths.results"},
    "depth": "model.layers",
    "gpu": "device",
    # models, inference methods, kernels and values
    **dict.fromkeys(("deepgp", "deep_gp", "dgp"), "dgp2"),
    **dict.fromkeys(("svgp", "sparse_gp"), "sgp"),
    **dict.fromkeys(("nn", "neural_network"), "mlp"),
    "rf": "random_forest",
    "svi": "dsvi",
    **dict.fromkeys(("gaussian", "se", "squared_exponential", "exponentiated_quadratic"), "rbf"),
    "cuda": "gpu",
    **dict.fromkeys(("double", "fp64"), "float64"),
    **dict.fromkeys(("single", "float", "fp32"), "float32"),
}
STEPS = " (one epoch is as many steps as training rows / inference.batch)"
FILES = (".csv", ".tsv", ".txt", ".gz", ".parquet", ".npz", ".xlsx", ".dat", ".data")
SHOWN = 120  # characters; longer lists are not printed in a one-line message


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate most like `word`, or None. A last component given alone also counts."""
    names = sorted(set(candidates))
    if ALIASES.get(word.lower()) in names:
        return ALIASES[word.lower()]
    if same := [name for name in names if name.lower() == word.lower()]:
        return same[0]
    by_tail: dict[str, str] = {}
    for name in names:
        by_tail.setdefault(name.rsplit(".", 1)[-1], name)
    found = get_close_matches(word, names, 1, 0.6)
    tails = [] if "." in word else get_close_matches(word, list(by_tail), 1, 0.75)
    if tails and (not found or word == tails[0]):
        return by_tail[tails[0]]
    return found[0] if found else None


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """'; did you mean ...?' followed by the choices when they are few, ready to append to a message."""
    names = sorted(set(candidates))
    if ALIASES.get(word) in names:
        return f"; did you mean '{ALIASES[word]}'?" + (STEPS if "epoch" in word else "")
    guess = nearest(word, names)
    hint = f"; did you mean '{guess}'?" if guess else ""
    allowed = ", ".join(names)
    if len(allowed) <= SHOWN:
        hint += f"{'' if guess else ';'} allowed: {allowed}"
    return hint


def file_hint(word: str) -> str:
    """Return how a data file is named if a word looks like its path, else ''."""
    if "/" in word or PurePath(word).suffix in FILES:
        return f"; for a file of yours use dataset=csv dataset.path={word}"
    return ""
