"""`dgpbench worker plan.json INDEX ...`: run units of a plan by their numbers, here and now."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from dgpbench.cli.arguments import add_allow
from dgpbench.errors import UserError


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "worker",
        help="run units of a plan by their numbers",
        description="Run units of a plan that `dgpbench sweep` has written, here, one after another. "
        "SLURM and Ray tasks are calls of this command. Exit code 0 if they are done, 1 if not.",
    )
    parser.add_argument("plan", metavar="plan.json", help="results/.sweeps/NAME/plan.json")
    parser.add_argument("indices", metavar="INDEX", type=int, nargs="+", help="numbers of units, from 0")
    add_allow(parser, "call code of this package, where the plan names it")
    parser.add_argument("--force", action="store_true", help="run again what is done")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")


def main(args: argparse.Namespace) -> int:
    from dgpbench.store.trust import check_code
    from dgpbench.sweep.launch import Watcher
    from dgpbench.sweep.plan import load_plan
    from dgpbench.sweep.pool import run_task
    from dgpbench.sweep.state import Observer

    plan = load_plan(Path(args.plan).resolve())
    for index in args.indices:
        if not 0 <= index < len(plan.units):
            raise UserError(f"unit {index} is not in the plan; its units are 0 to {len(plan.units) - 1}")
    try:
        for cfg in plan.configs:
            check_code(cfg, args.allow)
    except ValueError as error:
        raise UserError(f"{args.plan}: {error}") from None
    if os.path.isdir(plan.cwd):
        os.chdir(plan.cwd)
    watcher = Watcher(plan, args.indices, args.quiet, verbose=not args.quiet)
    run_task(plan, args.indices, force=args.force, watcher=watcher)
    states = Observer(plan).look(args.indices)
    if not args.quiet:
        for index, state in states.items():
            print(f"{state.status}: {plan.label(index)}" + (f" [{state.folder}]" if state.folder else ""))
    sys.stdout.flush()
    return 0 if all(state.status == "done" for state in states.values()) else 1
