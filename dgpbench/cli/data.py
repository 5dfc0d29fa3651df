"""`dgpbench data list|show|fetch|verify`."""

from __future__ import annotations

import argparse
import sys

from dgpbench.cli.arguments import add_config_dir
from dgpbench.data import inventory
from dgpbench.data.catalogue import own_entries


def add_parser(subparsers) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "data",
        help="list, show, fetch and verify datasets",
        description="Datasets: what there is, where it can be had, what is wrong with it.",
    )
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument(
        "--datasets", metavar="DIR", help="cache folder (default: DGPBENCH_DATASETS or ./datasets)"
    )
    where.add_argument("--mirror", metavar="DIR|URL", help="mirror to try first (default: DGPBENCH_MIRROR)")
    add_config_dir(where, "a folder with your own dataset/*.yaml files (may be repeated)")
    verbs = parser.add_subparsers(dest="data_verb", required=True, metavar="list|show|fetch|verify")
    verbs.add_parser("list", parents=[where], help="all datasets: size, task, classes, where they are")
    show = verbs.add_parser("show", parents=[where], help="everything known of one dataset")
    show.add_argument("name", metavar="NAME")
    fetch = verbs.add_parser("fetch", parents=[where], help="download and parse datasets into the cache")
    fetch.add_argument("names", metavar="NAME", nargs="+")
    verbs.add_parser("verify", parents=[where], help="check every cached file in full")
    return parser


def main(args: argparse.Namespace) -> int:
    paths, own = inventory.default_paths(args.datasets, args.mirror), own_entries(args.config_dir)
    if args.data_verb == "list":
        return _list(paths, own)
    if args.data_verb == "show":
        print(inventory.show_text(args.name, paths, own))
        return 0
    if args.data_verb == "fetch":
        return _report(inventory.fetch(args.names, paths, print, own), "fetched")
    return _report(inventory.verify(paths, print), "sound", empty=f"nothing is cached in {paths['datasets']}")


def _list(paths: dict, own: dict) -> int:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, right in (
        ("name", False),
        ("N", True),
        ("D", True),
        ("task, classes", False),
        ("where", False),
        ("", False),
        ("what", False),
    ):
        table.add_column(title, justify="right" if right else "left", no_wrap=True)
    rows = inventory.list_rows(paths, own)
    for row in rows:
        table.add_row(
            row["name"],
            *(f"{row[k]:,}" if row[k] else "any" for k in ("n", "d")),
            f"{row['task']} {row['classes'] or ''}".rstrip(),
            " ".join(row["where"]),
            "!" if row["traps"] else "",
            row["title"],
        )
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 160
    console.print(table)
    console.print(f"{len(rows)} datasets; ! = known traps, see `dgpbench data show NAME`")
    return 0


def _report(found: list[tuple[str, str | None]], good: str, empty: str = "") -> int:
    """Exit 0 when all is well, 2 when something is not; one line per failure."""
    bad = [(what, problem) for what, problem in found if problem]
    for what, problem in bad:
        print("error:", problem if what in problem else f"{what}: {problem}", file=sys.stderr)
    print(empty if not found and empty else f"{len(found) - len(bad)} of {len(found)} {good}")
    return 2 if bad else 0
