"""Runs of a long study, kept one line each as they end, so that a study that is broken off goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path


class Kept:
    """A file of JSON lines {"what": ..., "found": ...}; a last line that was cut off is measured again."""

    def __init__(self, path: Path):
        self.path = path
        self.found = dict(_pairs(path))

    def measured(self, what: dict, measure: Callable[[], dict]) -> tuple[dict, bool]:
        """What was found before under the same settings, else what `measure` finds now; and whether it was
        there."""
        label = json.dumps(what, sort_keys=True)
        if label in self.found:
            return self.found[label], True
        self.found[label] = found = measure()
        line = json.dumps({"what": what, "found": found})
        with self.path.open("a") as file:
            file.write(f"\n{line}\n")  # also behind a line that was cut off
        return found, False


def _pairs(path: Path):
    if not path.exists():
        return
    for line in path.read_text().split("\n"):
        try:
            entry = json.loads(line)
            yield json.dumps(entry["what"], sort_keys=True), entry["found"]
        except (ValueError, KeyError, TypeError):
            continue
