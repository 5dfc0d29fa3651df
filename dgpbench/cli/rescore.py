"""`dgpbench rescore`: metrics again, from what finished runs have saved."""

from __future__ import annotations

import argparse
import sys

from dgpbench.errors import UserError


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "rescore",
        help="compute the metrics of finished runs again, without training",
        description="Compute the metrics of finished runs again from their saved parameters, e.g. after a "
        "metric was added. Without filters, all of them.",
    )
    parser.add_argument("filters", nargs="*", metavar="name=value", help="only these, e.g. dataset=energy")
    parser.add_argument(
        "--results", metavar="DIR", help="folder of results (or DGPBENCH_RESULTS; default: results)"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")


def main(args: argparse.Namespace) -> int:
    from dgpbench.config import compose
    from dgpbench.store.filters import select
    from dgpbench.store.scan import scan

    paths = compose()["paths"]
    paths["results"] = args.results or paths["results"]
    note = (lambda text: None) if args.quiet else (lambda text: print(text, file=sys.stderr))
    found = scan(paths["results"], reference=False, traces=True)
    units = [unit for unit in found if unit.record["status"] == "done"]
    units = select(units, args.filters)
    if not units:
        raise UserError(f"no finished run in {paths['results']} matches; `dgpbench show` lists them")
    from dgpbench.experiment import rescore

    failed = 0
    for unit in units:
        try:
            rescore(unit, unit.record["config"] | {"paths": paths}, note)
        except UserError as error:  # the others can still be done
            failed += 1
            print(f"dgpbench: error: {error}", file=sys.stderr)
        else:
            note(f"rescored {unit.path}")
    return 1 if failed else 0
