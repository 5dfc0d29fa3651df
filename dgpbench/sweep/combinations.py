"""Composing many combinations of datasets with other choices, each part once where that is provably the same.

Forty datasets under six models are 240 combinations but 46 parts. A dataset's section may be put into another
composition if nothing refers to it: no interpolation in conf/ or on the command line, no defaults list and no
package of its own in the dataset's file.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from dgpbench.config import compose
from dgpbench.config.tree import config_folders, options

REFERS = re.compile(r"\$\{(?!oc\.env:)[^}]*dataset")
OWN = re.compile(r"\$\{|^defaults:|^# @package", re.M)


def composer(axes: dict[str, list[str]], config_dirs: Sequence[str | Path]) -> Callable[[list[str]], dict]:
    """A function from overrides to their config, equal to `compose(overrides, config_dirs)`."""
    if len(axes.get("dataset", ())) < 2 or not _separable(axes, config_folders(config_dirs)):
        return lambda overrides: compose(overrides, config_dirs)
    sections: dict[str, dict] = {}
    others: dict[tuple[str, ...], dict] = {}

    def make(overrides: list[str]) -> dict:
        (chosen,) = [text for text in overrides if text.startswith("dataset=")]
        rest = tuple(text for text in overrides if text != chosen)
        if rest not in others:
            others[rest] = compose(overrides, config_dirs)
            sections.setdefault(chosen, others[rest]["dataset"])
        if chosen not in sections:
            sections[chosen] = compose(overrides, config_dirs)["dataset"]
        return copy.deepcopy(others[rest]) | {"dataset": copy.deepcopy(sections[chosen])}

    return make


def _separable(axes: dict[str, list[str]], folders: Sequence[Path]) -> bool:
    if any(name.startswith("dataset.") for name in axes):
        return False
    if any("${" in value for values in axes.values() for value in values):
        return False
    files = options("dataset", folders)
    if any(OWN.search(files[name].read_text(encoding="utf-8")) for name in axes["dataset"] if name in files):
        return False
    trees = (path for folder in folders for path in folder.rglob("*.yaml"))
    return not any(REFERS.search(path.read_text(encoding="utf-8")) for path in trees)
