"""`dgpbench report`: static pages of the user's runs and the papers' tables, and a page for each run."""

from __future__ import annotations

import argparse
import sys
import time

from dgpbench.cli.arguments import add_config_dir, add_source_arguments, reference_of
from dgpbench.store.layout import results_to_read


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "report",
        help="static pages: your runs, each run, the papers' tables",
        description="Write index.html: which model is best, by how much and at what cost, then your runs "
        "with a page for each, then the papers' tables that contain your runs. Without runs of your own, it "
        "shows the records that come with dgpbench. The pages need no network.",
    )
    parser.add_argument("-o", "--output", default="report", metavar="DIR", help="folder (default: report)")
    parser.add_argument(
        "--all", action="store_true", help="include the papers' tables and figures without runs of yours"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print no progress")
    add_config_dir(parser, "folder with your own metrics, whose direction and units are used")
    add_source_arguments(parser)


def main(args: argparse.Namespace) -> int:
    from dgpbench.cli.registry import report_parts
    from dgpbench.report.output_files import folder_of_files
    from dgpbench.report.page import pages
    from dgpbench.store.scan import scan

    began, results = time.monotonic(), results_to_read(args.results)
    parts = [module.part for module in report_parts()]
    tell = Progress(args.quiet)
    with folder_of_files(args.output) as (output, put_file):
        tell("reading records")
        units = scan(results, reference=reference_of(args, results), traces=True)
        size = count = 0
        for name, text in pages(units, results, output, tell, parts, args.all):
            put_file(name, text.encode())
            size, count = size + len(text), count + name.endswith(".html")
        tell.end()
    spent = time.monotonic() - began
    counts = f"{len(units)} records, {count - 1} pages of runs, {size / 1e6:.1f} MB, {spent:.0f} s"
    print(f"{output / 'index.html'} ({counts})")
    return 0


class Progress:
    """Progress on standard error: one line that changes on a terminal, else a line every few seconds."""

    def __init__(self, quiet: bool, every: float = 2.0) -> None:
        self.quiet, self.every, self.last = quiet, every, -every
        self.live = sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        now = time.monotonic()
        if self.quiet or (not self.live and now < self.last + self.every):
            return
        self.last = now
        print(
            f"\r\033[K{text}" if self.live else f"report: {text}",
            end="" if self.live else "\n",
            file=sys.stderr,
        )
        sys.stderr.flush()

    def end(self) -> None:
        """Clear the line."""
        if self.live and not self.quiet:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
