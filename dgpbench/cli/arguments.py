"""Arguments that several verbs take, and the folders and functions that they stand for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from dgpbench.errors import UserError
from dgpbench.store.layout import PACKED, REFERENCE, known_folders, reference_folders, results_folder

OWN_OPTIONS = "a folder with your own model/, dataset/, ... yaml files (may be repeated)"


def add_config_dir(parser: argparse.ArgumentParser, about: str = OWN_OPTIONS, short: bool = False) -> None:
    """Add --config-dir; with `short`, also -cd, as Hydra calls it."""
    names = ("--config-dir", "-cd") if short else ("--config-dir",)
    parser.add_argument(*names, action="append", default=[], metavar="DIR", help=about)


def add_no_check(parser: argparse.ArgumentParser) -> None:
    """Add --no-check, which skips the trial of user models."""
    parser.add_argument(
        "--no-check", action="store_true", help="do not try your own models on 20 rows before the first run"
    )


def add_allow(parser: argparse.ArgumentParser, about: str) -> None:
    """Add --allow, the packages whose code may be called."""
    parser.add_argument(
        "--allow", action="append", default=[], metavar="PACKAGE", help=f"{about} (may be repeated)"
    )


def add_allow_model(parser: argparse.ArgumentParser) -> None:
    """Add --allow-model, the models that may be loaded from files of other libraries."""
    parser.add_argument(
        "--allow-model",
        action="append",
        default=[],
        metavar="NAME",
        help="load model NAME from its joblib, torch or ONNX file, which can run any code (may be repeated)",
    )


def add_results(parser: argparse.ArgumentParser, what: str = "folder of results") -> None:
    """Add --results, the folder that DGPBENCH_RESULTS or the default stands in for."""
    parser.add_argument("--results", metavar="DIR", help=f"{what} (or DGPBENCH_RESULTS; default: results)")


def add_source_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where records come from, for tables, figures, report and compare."""
    parser.add_argument(
        "--results",
        metavar="DIR",
        help="read this folder and its reference/ alone, without the records that come with dgpbench "
        "(default: results, or DGPBENCH_RESULTS, and those records)",
    )
    parser.add_argument(
        "--no-reference", action="store_true", help="omit the records that come with dgpbench"
    )
    parser.add_argument(
        "--no-community", action="store_true", help="omit records of others, which were not re-run"
    )


def existing_results(args: argparse.Namespace) -> Path:
    """The results folder; UserError where there is none, whoever names it."""
    folder = results_folder(args.results)
    if not folder.is_dir():
        raise UserError(f"no results folder {folder}; give it with --results DIR")
    return folder


def reference_of(args: argparse.Namespace, results: Path) -> list[Path]:
    """Folders of reference records: none with --no-reference, only that of a folder named with --results;
    those of others last, none with --no-community."""
    if args.no_reference:
        return []
    if args.no_community:
        return [results / REFERENCE] if args.results else reference_folders(results)
    return [results / name for name in PACKED] if args.results else known_folders(results)


def note_of(args: argparse.Namespace) -> Callable[[str], None]:
    """Print of a line to standard error; with --quiet, of nothing."""
    return (lambda text: None) if args.quiet else (lambda text: print(text, file=sys.stderr))
