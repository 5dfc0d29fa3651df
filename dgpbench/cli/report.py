"""`dgpbench report`: one static page with tables, figures and provenance."""

from __future__ import annotations

import argparse
from pathlib import Path

from dgpbench.cli.tables import add_source_arguments, reference_of, results_folder


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "report",
        help="one static page with tables, figures and provenance",
        description="Write one self-contained page (index.html): all tables beside the published numbers, "
        "the figures that can be drawn, and where the records come from. It needs no network.",
    )
    parser.add_argument("-o", "--output", default="report", metavar="DIR", help="folder (default: report)")
    add_source_arguments(parser)


def main(args: argparse.Namespace) -> int:
    from dgpbench.report.figures.picture import put
    from dgpbench.report.page import page
    from dgpbench.store.scan import scan

    results, output = results_folder(args), Path(args.output)
    units = scan(results, reference=reference_of(args, results), traces=True)
    text, undrawn = page(units, results, output)
    output.mkdir(parents=True, exist_ok=True)
    path = put(output / "index.html", text.encode())
    print(
        f"{path} ({len(units)} records, {path.stat().st_size / 1e6:.1f} MB; {len(undrawn)} figures not drawn)"
    )
    return 0
