"""`dgpbench merge DIR`: take in results from another machine."""

from __future__ import annotations

import argparse
from pathlib import Path

from dgpbench.cli.arguments import add_allow, add_results
from dgpbench.errors import UserError
from dgpbench.store.layout import results_folder


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "merge",
        help="take in results from another machine",
        description="Copy the records of another results folder, with their predictions and parameters, into "
        "this one; or those of a file that `show --export` wrote, which holds records only. A done record of "
        "ours is never replaced; records and files are checked on the way. Exit code 1 if some were damaged "
        "or refused.",
    )
    parser.add_argument(
        "source", metavar="DIR|FILE", help="a results folder, or results.parquet, results.jsonl.gz"
    )
    add_results(parser, "folder to copy into")
    add_allow(parser, "take records of models of this package too")


def main(args: argparse.Namespace) -> int:
    from dgpbench.api.record_tables import read_export
    from dgpbench.store.scan import to_stderr
    from dgpbench.store.write import ensure_writable
    from dgpbench.sweep.merge import merge

    source = Path(args.source)
    results = results_folder(args.results)
    if not source.exists():
        raise UserError(f"no folder {source}; give a results folder, which holds one folder per dataset")
    if source.resolve() == results.resolve():
        raise UserError(f"{source} is this results folder itself; give another one")
    ensure_writable(results)
    counts = merge(source, results, to_stderr, read_export, args.allow)
    if not counts:
        raise UserError(f"no records in {source}; give a results folder, which holds one folder per dataset")
    words = {
        "taken": "taken in",
        "kept": "here already",
        "different": "of these with other numbers",
        "damaged": "damaged and left out",
        "refused": "refused",
    }
    print(", ".join(f"{counts[name]:,} {text}" for name, text in words.items() if counts[name]))
    return 1 if counts["damaged"] or counts["refused"] else 0
