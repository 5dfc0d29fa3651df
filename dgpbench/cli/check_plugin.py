"""`dgpbench check-plugin PATH`: check a user's kernels, likelihoods, metrics, figures and models."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from dgpbench.config import plugins
from dgpbench.config.tree import options
from dgpbench.errors import UserError

if TYPE_CHECKING:
    from dgpbench.sweep.trial import Finding


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "check-plugin",
        help="check your own kernels, likelihoods, metrics and figures",
        description="Import what a .py file declares, or everything in a folder for --config-dir, with its "
        "models and inference methods, and check each on small generated data. Prints one line per check. "
        "Exit code 0 if all passed, 1 if something is broken, 2 if there is nothing to check.",
    )
    parser.add_argument("path", metavar="PATH", help="a .py file or a folder")


def main(args: argparse.Namespace) -> int:
    path = Path(args.path).expanduser()
    if not path.exists():
        raise UserError(f"no {path}; give a .py file, or the folder that you give to --config-dir")
    folder = path if path.is_dir() else path.parent
    plugins.use([folder])
    entries = plugins.folder_entries(path) if path.is_dir() else plugins.file_entries(path, path.stem)
    models = [(group, name) for group in ("model", "inference") for name in options(group, [folder])]
    if path.is_file():
        models = []
    if not entries and not models:
        raise UserError(
            f"{path} declares nothing; put @kernel, @likelihood, @metric, @run_figure or @comparison_figure "
            "above a class or function"
        )
    broken = set()
    for name, finding in chain(_of_entries(entries), _of_models(models, folder)):
        print(f"{finding.status:<6}  {name:<24}  {finding.step:<13}{finding.text}", flush=True)
        if finding.status == "BROKEN":
            broken.add(name)
    total = len(entries) + len(models)
    print(f"{len(broken)} of {total} broken: {', '.join(sorted(broken))}" if broken else f"{total} passed")
    return 1 if broken else 0


def _of_entries(entries: list[plugins.Entry]) -> Iterator[tuple[str, Finding]]:
    from dgpbench.api.contracts import check_entry

    for entry in entries:
        name = f"{entry.kind.replace('_', ' ')} {entry.name}"
        for finding in check_entry(entry):
            yield name, finding


def _of_models(models: list[tuple[str, str]], folder: Path) -> Iterator[tuple[str, Finding]]:
    """The findings of `dgpbench check` on each model and inference method."""
    from dgpbench.config import compose
    from dgpbench.sweep.trial import findings

    for group, name in models:
        for finding in findings(compose([f"{group}={name}"], [folder]), made_up=True):
            yield f"{group} {name}", finding
