"""Nearest-name suggestions for error messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

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
    "depth": "model.layers",
    "gpu": "device",
}
STEPS = " (one epoch is as many steps as training rows / inference.batch)"
SHOWN = 120  # characters; longer lists are not printed in a one-line message


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate most like `word`, or None. A last component given alone also counts."""
    names = sorted(set(candidates))
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
        return f"; did you mean '{ALIASES[word]}'?" + (STEPS if "epochs" in word else "")
    guess = nearest(word, names)
    hint = f"; did you mean '{guess}'?" if guess else ""
    allowed = ", ".join(names)
    if len(allowed) <= SHOWN:
        hint += f"{'' if guess else ';'} allowed: {allowed}"
    return hint
