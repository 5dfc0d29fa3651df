"""`dgpbench verify`: do the stored results agree with themselves?"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from dgpbench.errors import UserError


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "verify",
        help="check all results: schema, keys, checksums, metrics",
        description="Read all results and check them: the schema and checksum of each record, its keys from "
        "its config and data, the checksums of its files, its metrics from its predictions. Nothing is "
        "changed. Exit code 1 if something does not agree.",
    )
    parser.add_argument(
        "--results", metavar="DIR", help="folder of results (or DGPBENCH_RESULTS; default: results)"
    )
    parser.add_argument("--no-reference", action="store_true", help="leave out results/reference")


def main(args: argparse.Namespace) -> int:
    from dgpbench.store.verify import verify

    results = Path(args.results or os.environ.get("DGPBENCH_RESULTS") or "results")
    if not results.is_dir():
        raise UserError(f"no results folder {results}; give it with --results DIR")
    problems: list[str] = []
    count = verify(results, not args.no_reference, problems.append)
    for text in problems:
        print(text)
    sys.stdout.flush()
    if problems:
        print(f"{count:,} records read, {len(problems):,} problems", file=sys.stderr)
        return 1
    print(f"{count:,} records agree with their configs, checksums and predictions")
    return 0
