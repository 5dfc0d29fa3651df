"""Commands by name: those of this package, and those that providers register.

A provider is a module with `COMMANDS`, which maps a command to its module and its help, and optionally with
`REPORT`, the module whose function `part` adds to the page of `dgpbench report`. A subpackage of dgpbench
registers as its package `commands`, an installed package by an entry point:

    [project.entry-points."dgpbench.commands"]
    theirs = "their_package.commands"
"""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

GROUP = "dgpbench.commands"
# A module has add_parser(subparsers) for its verbs, main(args) -> exit code, perhaps words() for completion.
VERBS = {
    "run": ("dgpbench.cli.run", "train and evaluate one model on one split"),
    "sweep": ("dgpbench.cli.sweep", "run many models, datasets, splits and seeds"),
    "tune": ("dgpbench.cli.tune", "choose settings on validation rows, then refit the best"),
    "active": ("dgpbench.cli.active", "active learning: models that choose their own training rows"),
    "status": ("dgpbench.cli.status", "what a sweep has done, what is missing, and why"),
    "data": ("dgpbench.cli.data", "list, show, fetch and verify datasets"),
    "show": ("dgpbench.cli.show", "finished runs as a table"),
    "predict": ("dgpbench.cli.predict", "predictions of a finished run at new inputs"),
    "compare": ("dgpbench.cli.compare", "a fair table of models by datasets, with tests and LaTeX"),
    "plot": ("dgpbench.cli.plot", "draw runs: curves, predictions, calibration"),
    "report": ("dgpbench.cli.report", "static pages: leaderboard, each run, the papers' tables"),
    "rescore": ("dgpbench.cli.records", "compute the metrics of finished runs again, without training"),
    "merge": ("dgpbench.cli.records", "take in results from another machine"),
    "submit": ("dgpbench.cli.records", "check records and write the file that a pull request adds"),
    "verify": ("dgpbench.cli.records", "check all results: schema, keys, checksums, metrics"),
    "gc": ("dgpbench.cli.records", "remove leftovers and old checkpoints"),
    "worker": ("dgpbench.cli.worker", "run units of a plan by their numbers"),
    "perf": ("dgpbench.cli.perf", "time a training step of a model on this machine"),
    "check": ("dgpbench.cli.check", "try your own model or inference method on twenty rows"),
    "check-plugin": ("dgpbench.cli.check_plugin", "check your own kernels, likelihoods, metrics and figures"),
    "doctor": ("dgpbench.cli.doctor", "check this machine and installation"),
    "completion": ("dgpbench.cli.completion", "print the shell function that completes dgpbench commands"),
}


@lru_cache(maxsize=1)
def commands() -> dict[str, tuple[str, str]]:
    """Return every command with its module and help, those of providers last."""
    found = dict(VERBS)
    for provider in _providers():
        for name, command in provider.COMMANDS.items():
            if name in found:
                _warn(f"command '{name}' of {provider.__name__} is ignored: {found[name][0]} has that name")
            found.setdefault(name, command)
    return found


def report_parts() -> list[ModuleType]:
    """Return the modules whose `part` adds to the page of `dgpbench report`."""
    names = [getattr(provider, "REPORT", None) for provider in _providers()]
    return [import_module(name) for name in names if name]


@lru_cache(maxsize=1)
def _providers() -> tuple[ModuleType, ...]:
    from importlib.metadata import entry_points

    package = Path(__file__).resolve().parent.parent
    own = [
        f"{package.name}.{file.parents[1].name}.commands"
        for file in sorted(package.glob("*/commands/__init__.py"))
    ]
    found = [import_module(name) for name in own]
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        try:
            module = import_module(entry.value)
            dict(module.COMMANDS)
        except Exception as error:  # noqa: BLE001 - a broken package must not break the others' commands
            _warn(f"entry point {GROUP}: {entry.name} = {entry.value} is ignored: {error}")
        else:
            found.append(module)
    return tuple(found)


def _warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)
