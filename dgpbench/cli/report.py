"""`dgpbench report`: a static page of the user's runs and the papers' tables, and a page for each run."""

from __future__ import annotations

import argparse

from dgpbench.cli.arguments import add_source_arguments, reference_of
from dgpbench.store.layout import results_to_read


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "report",
        help="static pages: your runs, each run, the papers' tables",
        description="Write index.html: a leaderboard of your runs, their curves and calibration, all runs "
        "with a page for each, then the papers' tables beside the published numbers. It needs no network.",
    )
    parser.add_argument("-o", "--output", default="report", metavar="DIR", help="folder (default: report)")
    add_source_arguments(parser)


def main(args: argparse.Namespace) -> int:
    from dgpbench.cli.registry import report_parts
    from dgpbench.report.files import output_folder, put, writing
    from dgpbench.report.page import pages
    from dgpbench.store.scan import scan

    results, output = results_to_read(args.results), output_folder(args.output)
    units = scan(results, reference=reference_of(args, results), traces=True)
    parts = [module.part for module in report_parts()]
    found, undrawn = pages(units, results, output, parts)
    with writing(output):
        for name, text in found.items():
            (output / name).parent.mkdir(exist_ok=True)
            put(output / name, text.encode())
    size = sum(len(text) for text in found.values()) / 1e6
    print(
        f"{output / 'index.html'} ({len(units)} records, {len(found) - 1} pages of runs, {size:.1f} MB; "
        f"{len(undrawn)} figures not drawn)"
    )
    return 0
