"""`dgpbench repro`: run the cells of the published tables in a list's order, publish their records."""

from __future__ import annotations

import argparse
import os
import signal
import time
from pathlib import Path

from dgpbench.cli.arguments import note_of
from dgpbench.errors import Interrupted
from dgpbench.store.layout import REFERENCE, reference_folders, results_folder

CELLS = "cells.txt"
NICE = 15  # of 19: other work goes first
UNFINISHED = ("missing", "damaged", "interrupted", "stale", "running")  # left for the next call


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "repro",
        help="run the cells of the published tables, as far as a time budget goes",
        description="Go on with the papers' tables: run the units that results/reference/cells.txt lists, in "
        "its order, on one core at low priority beside other work (launcher.workers=N for more); say what "
        "runs, what comes next and what it costs. "
        "Each record goes into results/reference/ as soon as it is done. What is done here or there is not "
        "run again; what was stopped goes on from its checkpoint. Runs whose data are not available are "
        "skipped and listed at the end. Exit code 0 if nothing failed and nothing was skipped.",
    )
    parser.add_argument(
        "overrides", nargs="*", metavar="name=value", help="where it runs, e.g. launcher.workers=2 device=cpu"
    )
    parser.add_argument(
        "--budget", metavar="TIME", help="stop after 2h, 90m, ... (default: until all is done)"
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="TEXT",
        help="only lines of the list with this text, e.g. kin8nm (repeated: with all of them)",
    )
    parser.add_argument(
        "--retry",
        choices=("missing", "failed"),
        default="missing",
        help="which units to run: those without a verdict (default), or also those that failed",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="list what is done, what comes next and what the rest costs"
    )
    parser.add_argument(
        "--cells", metavar="FILE", help="the list of units (default: cells.txt of --reference)"
    )
    parser.add_argument(
        "--reference",
        metavar="DIR",
        help="folder that done records are added to (default: results/reference)",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for every unit")
    parser.add_argument("-q", "--quiet", action="store_true", help="print the final table only")


def main(args: argparse.Namespace) -> int:
    from dgpbench.papers import reproduction as repro
    from dgpbench.sweep.costs import Costs
    from dgpbench.sweep.state import Observer, to_run
    from dgpbench.sweep.status_table import counts, render

    end = time.monotonic() + repro.seconds_of(args.budget) if args.budget else float("inf")
    repro.check_extra(args.overrides)
    note = note_of(args)
    results = results_folder()
    folder = Path(args.reference) if args.reference else results / REFERENCE
    known = [folder] if args.reference else reference_folders(results)
    here = next(filter(Path.is_file, (place / CELLS for place in known)), folder / CELLS)
    lines = repro.read_cells(Path(args.cells) if args.cells else here, args.only)
    plan, owners, lacking = repro.joint_plan(lines, args.overrides, fetch=not args.dry_run, note=note)
    files = [lines[number].file for number in owners]
    reference, observer = repro.Reference(plan, files, folder, known), Observer(plan)
    states = reference.over(observer.look())
    todo = to_run(states, args.retry)
    ready = [index for index in todo if plan.units[index].config not in lacking]
    if args.dry_run:
        costs = Costs(plan, known)
        print("\n".join(repro.agenda(lines, owners, states, costs)))
        print(f"{len(states):,} units: {counts(states)}")
        for text in repro.skipped(plan, todo, lacking):
            print(text)
        print(f"next: {costs.text(ready[0])}; in all {costs.hours(ready)}" if ready else "nothing to run")
        return 0
    if added := sum(reference.publish(index) for index, state in states.items() if state.status != "missing"):
        note(f"{added} records that were done before are published now")
    for text in repro.skipped(plan, todo, lacking):
        note(text)
    if ready:
        _run(plan, ready, reference, args, end, note)
    states = reference.over(observer.look())
    print(render(plan, states))
    left_out = repro.skipped(plan, to_run(states, args.retry), lacking)
    for text in left_out:
        print(text)
    well = all(state.status in ("done", *UNFINISHED) for state in states.values())
    return 0 if well and not left_out else 1


def _run(plan, todo: list[int], reference, args, end: float, note) -> None:
    """Run units here until all are done or the time is over; each is published as it ends."""
    from dgpbench.papers.reproduction import Publisher
    from dgpbench.store.write import ensure_writable
    from dgpbench.sweep.costs import Costs
    from dgpbench.sweep.launch import run_local

    ensure_writable(plan.results)
    os.nice(NICE)
    watcher = Publisher(reference, todo, Costs(plan, reference.known), args.quiet, args.verbose)
    try:
        run_local(plan, todo, force=False, watcher=watcher, until=end)
    except Interrupted as stop:
        if stop.signal_number != signal.SIGALRM:
            raise
        note(f"the budget of {args.budget} is used up; the same command goes on")
    finally:
        watcher.clear()
