"""`dgpbench submit FOLDER|FILE`: offer records to the project, after every check that can be made."""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

from dgpbench.cli.arguments import add_config_dir, add_results
from dgpbench.errors import UserError
from dgpbench.plain_text import visible


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "submit",
        help="check records and write the file that a pull request adds",
        description="Check records as the project will: schema and checksum, keys from config and data, data "
        "from the catalogue, metrics from predictions where they are there (give the results folder: a "
        ".jsonl.gz has none), sizes, units, times and what metrics have to do with one another. Those "
        "that verify are written to results/community/NAME.jsonl.gz, to be added by a pull request; each "
        "that does not is refused with the reason, and the exit code is 1.",
    )
    parser.add_argument(
        "source", metavar="FOLDER|FILE", help="a results folder, a record.json, or a .jsonl.gz"
    )
    parser.add_argument("--name", metavar="NAME", help="of the file: you, your group or your machine")
    parser.add_argument("--check", action="store_true", help="write nothing")
    add_results(parser, "folder whose community/ is written")
    add_config_dir(parser, "folder with your own kernels, likelihoods and metrics that the records use")


def main(args: argparse.Namespace) -> int:
    from dgpbench.store.layout import COMMUNITY, known_folders, results_folder
    from dgpbench.store.reference import publish
    from dgpbench.store.scan import packed_units
    from dgpbench.store.submit import check

    source = Path(args.source)
    if not source.exists():
        raise UserError(f"no {source}; give a results folder, a record.json or a .jsonl.gz file")
    name = args.name or (os.environ.get("USER") or "records")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,60}", name):
        raise UserError(f"--name {name} is no name of a file; use letters, digits, _ . -")
    results = results_folder(args.results)
    if results.exists() and not results.is_dir():
        raise UserError(f"{results} is no folder; give --results a folder whose {COMMUNITY}/ can be written")
    target = results / COMMUNITY / f"{name}.jsonl.gz"
    held = {
        unit.record.key
        for folder in known_folders(results)
        for unit in packed_units(folder, traces=False)
        if unit.path.resolve() not in (source.resolve(), target.resolve())
    }
    taken, refused = check(source, held)
    for refusal in refused:
        print(f"refused: {refusal.place}: {visible(refusal.reason, 500)}", file=sys.stderr)
    if not taken and not refused:
        raise UserError(f"no records in {source}; give a results folder, which holds one folder per dataset")
    place = "" if args.check or not taken else f", written to {target}; add that file by a pull request"
    if taken and not args.check:
        publish(taken, target, anew=True)
    bare = sum(not unit.is_recomputed for unit in taken)
    told = f" ({bare:,} without predictions: metrics not recomputed)" if bare else ""
    count = "1 record is" if len(taken) == 1 else f"{len(taken):,} records are"
    print(f"{count} consistent{told}{place}; {len(refused):,} refused")
    return 1 if refused else 0
