"""`dgpbench gc`: remove leftovers and old checkpoints from a results folder."""

from __future__ import annotations

import argparse

from dgpbench.cli.arguments import add_results, existing_results
from dgpbench.errors import UserError


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "gc",
        help="remove leftovers and old checkpoints",
        description="Remove what killed processes left behind, checkpoints of done units, old checkpoints of "
        "others and plans of sweeps long done. Records, predictions and parameters are never touched.",
    )
    parser.add_argument(
        "--days",
        type=float,
        default=14.0,
        metavar="N",
        help="checkpoints and plans older than this are old (default: 14)",
    )
    parser.add_argument("--dry-run", action="store_true", help="list, remove nothing")
    add_results(parser)


def main(args: argparse.Namespace) -> int:
    from dgpbench.store.scan import to_stderr
    from dgpbench.sweep.gc import garbage, remove

    results = existing_results(args)
    if not args.days >= 0:
        raise UserError(f"--days {args.days:g} is not allowed; it must be 0 or more")
    found = list(garbage(results, args.days, to_stderr))
    size = removed = 0
    for path, reason in found:
        if not args.dry_run:
            try:
                size += remove(path)
            except OSError as error:
                to_stderr(f"{path} cannot be removed: {error.strerror}")
                continue
        removed += 1
        print(f"{'would remove' if args.dry_run else 'removed'} {path}: {reason}")
    if not found:
        print("nothing to remove")
    elif not args.dry_run:
        print(f"{removed:,} removed, {size / 1e6:.1f} MB")
    return 0 if removed == len(found) else 1
