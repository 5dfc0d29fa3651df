"""Composing many combinations of datasets with other choices, each part once where that is provably the same.

Forty datasets under six models are 240 combinations but 46 parts. A dataset's section may be put into another
composition if nothing refers to it: no interpolation in conf/ or on the command line, no defaults list and no
package of its own in the dataset's file.

A setting that only some of the models (or inference methods) given have is left out of the others: with
model=linear,sgp model.num_inducing=50 inference=dsvi linear is as it was.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from dgpbench.config import compose
from dgpbench.config.composition import fields_of
from dgpbench.config.refusals import UNUSED, section_of, unused_sections
from dgpbench.config.tree import config_folders, options

REFERS = re.compile(r"\$\{(?!oc\.env:)[^}]*dataset")
OWN = re.compile(r"\$\{|^defaults:|^# @package", re.M)


def composer(axes: dict[str, list[str]], config_dirs: Sequence[str | Path]) -> Callable[[list[str]], dict]:
    """A function from overrides to their config, that of `compose` for those that fit."""
    fit, make = fitting(axes, config_dirs), _maker(axes, config_dirs)
    return lambda overrides: make(fit(overrides))


def fitting(
    axes: dict[str, list[str]], config_dirs: Sequence[str | Path]
) -> Callable[[list[str]], list[str]]:
    """A function that leaves out fields of another option in the list which the chosen one has not."""
    foreign: dict[str, set[str]] = {}  # by option, as it is written
    for group in ("model", "inference"):
        fields = [name for name in axes if name.startswith(f"{group}.")]
        if not fields or len(axes.get(group, ())) < 2:
            continue
        folders = config_folders(config_dirs)
        known = {value: fields_of(group, value, folders) for value in axes[group]}
        of_some = {name for name in fields if any(name in own for own in known.values())}
        foreign |= {f"{group}={value}": of_some - own for value, own in known.items()}
    for text, names in _idle(axes, config_dirs).items():
        foreign[text] = foreign.get(text, set()) | names

    def fit(overrides: list[str]) -> list[str]:
        dropped = {name for text in overrides for name in foreign.get(text, ())}
        return [text for text in overrides if text.partition("=")[0] not in dropped]

    return fit


def _idle(axes: dict[str, list[str]], config_dirs: Sequence[str | Path]) -> dict[str, set[str]]:
    """Names of ways of training by model (or experiment) that does not heed them, where another does."""
    group = "model" if "model" in axes else "experiment"
    names = [name for name in axes if section_of(name) in UNUSED]
    if not names or len(axes.get(group, ())) < 2:
        return {}
    idle = {
        value: unused_sections(compose([f"{group}={value}"], config_dirs)["model"]) for value in axes[group]
    }
    return {
        f"{group}={value}": {name for name in names if section_of(name) in sections}
        for value, sections in idle.items()
        if not all(idle.values())
    }


def _maker(axes: dict[str, list[str]], config_dirs: Sequence[str | Path]) -> Callable[[list[str]], dict]:
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
