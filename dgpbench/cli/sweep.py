"""`dgpbench sweep`: plan many runs, skip what is done, run the rest, say how it ended."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from dgpbench.cli.arguments import add_config_dir, add_no_check, note_of
from dgpbench.config.tree import conf_dir, fields, options
from dgpbench.errors import UserError


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "sweep",
        help="run many models, datasets, splits and seeds",
        description="Run every combination of the values given, on every split of the protocol unless split= "
        "says otherwise. What is done is not run again; what was stopped goes on from its checkpoint. Exit "
        "code 0 if all units are done, 1 if not.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_launcher_help(),
    )
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="name=values",
        help="lists a,b,c, range(0,20), glob(dgp*); split=all; settings as for run",
    )
    parser.add_argument(
        "--retry",
        choices=("missing", "failed", "all", "none"),
        default="missing",
        help="which units to run: those without a verdict (default), also those that failed, "
        "all of them once more, or none: only show",
    )
    parser.add_argument("--dry-run", action="store_true", help="show the plan and what it would cost")
    parser.add_argument("--detach", action="store_true", help="return once the sweep is started or submitted")
    add_no_check(parser)
    add_config_dir(parser, short=True)
    parser.add_argument("-v", "--verbose", action="count", default=0, help="a line for every unit")
    parser.add_argument("-q", "--quiet", action="store_true", help="print the final table only")


def main(args: argparse.Namespace) -> int:
    from dgpbench.sweep.planner import make_plan
    from dgpbench.sweep.state import Observer, to_run
    from dgpbench.sweep.status_table import counts, print_metrics, render

    note = note_of(args)
    only_look = args.dry_run or args.retry == "none"
    plan = make_plan(args.overrides, args.config_dir, fetch=not only_look, note=note)
    observer = Observer(plan)
    states = observer.look()
    todo = to_run(states, args.retry)
    note(f"sweep {plan.name}: {len(plan.units):,} units: {counts(states)}; {len(todo):,} to run")
    if todo and not args.no_check:
        from dgpbench.sweep.trial import check_models

        check_models(plan, todo, note, build_only=args.dry_run)
    if args.dry_run:
        return _dry_run(plan, states, todo)
    if plan.launcher.name == "local" and args.retry != "none":  # their process may be about to let them go
        todo += [index for index, state in states.items() if state.status == "running"]
    if todo:
        from dgpbench.store.write import ensure_writable
        from dgpbench.trackers import check_tracker

        check_tracker(plan.configs[0])
        ensure_writable(plan.results)
        plan.save()
    if todo and args.detach and plan.launcher.name != "slurm":
        return _detach(plan, args)
    if todo:
        from dgpbench.sweep.launch import launch

        quiet, verbose = args.quiet, args.verbose > 0
        finished = launch(
            plan, todo, force=args.retry == "all", quiet=quiet, verbose=verbose, detach=args.detach
        )
        if not finished:
            return 0
    states = observer.look()
    print(render(plan, states))
    print_metrics(states)
    return 0 if all(state.status == "done" for state in states.values()) else 1


def _dry_run(plan, states: dict, todo: list[int]) -> int:
    from dgpbench.sweep.costs import Costs
    from dgpbench.sweep.status_table import render

    print(render(plan, states))
    for line in Costs(plan).lines(todo):
        print(line)
    return 0


def _detach(plan, args) -> int:
    """Start the same command in a process of its own, its output in the sweep's folder."""
    command = [sys.executable, "-m", "dgpbench", "sweep", *args.overrides, "--retry", args.retry]
    command += ["--no-check"]  # it has been done
    for folder in args.config_dir:
        command += ["--config-dir", folder]
    log = plan.home / "sweep.log"
    try:
        file = open(log, "ab")
    except OSError as error:
        advice = "make it writable, or leave out --detach"
        raise UserError(f"cannot write {log} ({error.strerror}); {advice}") from None
    with file:
        started = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=os.environ,
            start_new_session=True,
        )
    print(f"sweep {plan.name} runs as process {started.pid}; its output: {log}")
    print("dgpbench status --watch shows how far it is")
    return 0


def _launcher_help() -> str:
    lines = ["where (launcher=...), and its fields with their defaults:"]
    root = conf_dir() / "launcher"
    shared = fields(root / "_base.yaml", "launcher.")
    own = ((name, fields(path, "launcher.")) for name, path in options("launcher").items())
    for name, rows in (("any", shared), *own):
        lines += ["", f"  launcher={name}" if name != "any" else "  any launcher"]
        shown = [(f"{field}={value}", text) for field, value, text in rows if field != "launcher.name"]
        lines += [f"    {left:<28}  {text}".rstrip() for left, text in shown]
    return "\n".join(lines)
