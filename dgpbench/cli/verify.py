"""`dgpbench verify`: do the stored results agree with themselves?"""

from __future__ import annotations

import argparse
import sys

from dgpbench.cli.arguments import add_config_dir, add_results, existing_results


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "verify",
        help="check all results: schema, keys, checksums, metrics",
        description="Read all results and check them: the schema and checksum of each record, its keys from "
        "its config and data, the checksums of its files, its metrics from its predictions. Nothing is "
        "changed. Exit code 1 if something does not agree.",
    )
    add_results(parser)
    add_config_dir(parser, "folder with your own metrics, to compute them again too")
    parser.add_argument("--no-reference", action="store_true", help="leave out results/reference")


def main(args: argparse.Namespace) -> int:
    from dgpbench.store.verify import verify

    results = existing_results(args)
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
