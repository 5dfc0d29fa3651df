"""Nearest-name suggestions for error messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

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
    guess = nearest(word, names)
    hint = f"; did you mean '{guess}'?" if guess else ""
    allowed = ", ".join(names)
    if len(allowed) <= SHOWN:
        hint += f"{'' if guess else ';'} allowed: {allowed}"
    return hint
