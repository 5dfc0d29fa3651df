"""`dgpbench status`: done, running, failed and missing units of a sweep, per dataset and model."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from dgpbench.cli.arguments import add_results
from dgpbench.config.suggest import did_you_mean
from dgpbench.errors import UserError
from dgpbench.store.layout import results_folder

WATCH_SECONDS = 2.0


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "status",
        help="what a sweep has done, what is missing, and why",
        description="Show the units of a sweep per dataset and model, with reasons for those not done. "
        "It reads files only: it answers on any machine that sees the results folder. Exit code 0 if all "
        "units are done, 1 if not.",
    )
    parser.add_argument("sweep", nargs="?", help="name of a sweep (default: the latest one)")
    parser.add_argument("--list", action="store_true", help="list the sweeps of this results folder")
    parser.add_argument("--watch", action="store_true", help="look again until nothing is left to do")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    add_results(parser)


def main(args: argparse.Namespace) -> int:
    from dgpbench.store.scan import to_stderr
    from dgpbench.sweep.plan import load_plan, plans
    from dgpbench.sweep.state import Observer
    from dgpbench.sweep.status_table import counts

    results = results_folder(args.results)
    found = plans(results)
    if not found:
        raise UserError(f"no sweep in {results}; `dgpbench sweep` starts one, `dgpbench show` lists records")
    if args.sweep and args.sweep not in found:
        raise UserError(f"no sweep '{args.sweep}' in {results}{did_you_mean(args.sweep, found)}")
    if args.list:
        for name, path in found.items():
            try:
                plan = load_plan(path)
            except UserError as error:
                to_stderr(str(error))
                continue
            print(f"{name}  {counts(Observer(plan, results).look()):<30}  {' '.join(plan.command)}")
        return 0
    plan = load_plan(found[args.sweep or next(iter(found))])
    observer = Observer(plan, results)
    states = observer.look()
    while args.watch and any(s.status in ("missing", "damaged", "running", "stale") for s in states.values()):
        _screen(plan, states, args.json, results)
        time.sleep(WATCH_SECONDS)
        states = observer.look()
    _screen(plan, states, args.json, results)
    return 0 if all(state.status == "done" for state in states.values()) else 1


def _screen(plan, states, as_json: bool, results: Path) -> None:
    from dgpbench.store.layout import DAMAGED, RECORD
    from dgpbench.store.scan import damaged_records
    from dgpbench.sweep.status_table import render, rows

    if as_json:
        units = [
            {
                "unit": i,
                "label": plan.label(i),
                "key": plan.units[i].key,
                "status": s.status,
                "reason": s.reason,
                "folder": s.folder and str(s.folder),
            }
            for i, s in states.items()
        ]
        print(json.dumps({"sweep": plan.name, "table": rows(plan, states), "units": units}))
        return
    if sys.stdout.isatty():
        print("\033[H\033[2J", end="")
    print(f"sweep {plan.name}: {' '.join(plan.command)}")
    print(render(plan, states), flush=True)
    if aside := damaged_records(results):
        what = "1 damaged record was" if aside == 1 else f"{aside:,} damaged records were"
        print(f"{what} set aside as {RECORD}{DAMAGED}* and replaced by a rerun")
