"""`dgpbench check`: try a user's model or inference method before it is run."""

from __future__ import annotations

import argparse

from dgpbench.cli.arguments import add_config_dir
from dgpbench.errors import UserError


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "check",
        help="try your own model or inference method on twenty rows",
        description="Import and build a model, fit it to 20 rows, predict, evaluate, store and load it, and "
        "report each step. Without dataset= the rows are generated for each task of the model. Nothing is "
        "written to the results folder. Exit code 1 if the model is broken.",
    )
    parser.add_argument(
        "overrides", nargs="*", metavar="name=value", help="model=mine, and settings as for run"
    )
    add_config_dir(parser, short=True)


def main(args: argparse.Namespace) -> int:
    from dgpbench.config import compose
    from dgpbench.sweep.trial import BROKEN, findings, label

    if not args.overrides:
        raise UserError("name what to check, e.g. dgpbench check --config-dir . model=mine")
    cfg = compose(args.overrides, args.config_dir)
    made_up = not any(word.startswith("dataset") for word in args.overrides)
    broken = False
    for status, step, text, _ in findings(cfg, made_up=made_up):
        broken = broken or status == BROKEN
        print(f"{status:<6}  {step:<12}{text}", flush=True)
    print(f"{label(cfg)} is broken" if broken else f"{label(cfg)}: no error found", flush=True)
    return 1 if broken else 0
