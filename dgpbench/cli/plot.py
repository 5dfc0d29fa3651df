"""`dgpbench plot`: pictures of one run or of several."""

from __future__ import annotations

import argparse
from pathlib import Path

from dgpbench.cli.arguments import add_config_dir, add_results
from dgpbench.config import plugins
from dgpbench.errors import UserError
from dgpbench.store.layout import results_to_read

LAYERS = "layers"  # drawn from the fitted model


def kinds_of_runs() -> list[str]:
    """Return the figures of a run by name."""
    return [*plugins.entries("run_figure"), LAYERS]


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "plot",
        help="draw runs: curves, predictions, calibration",
        description="Draw one run, or those that match: training curves, predicted against observed with "
        "intervals, over x if there is one input, PIT histogram, reliability of classes, the layers of a GP "
        "of one input. PNG, PDF and CSV.",
    )
    parser.add_argument(
        "filters",
        nargs="*",
        metavar="RUN|field=value",
        help="a run's folder or the first digits of its key; or as for show: dataset=energy model=dgp*",
    )
    parser.add_argument(
        "--kind",
        action="append",
        default=[],
        metavar="KIND",
        help=f"only these of {', '.join(kinds_of_runs())} (several: comma or repeated)",
    )
    parser.add_argument("-o", "--output", default="figures", metavar="DIR", help="folder (default: figures)")
    add_config_dir(parser, "folder with your own figures")
    add_results(parser)


def main(args: argparse.Namespace) -> int:
    from dgpbench.report.charts import Nothing
    from dgpbench.report.charts.picture import Picture
    from dgpbench.report.comparison.methods import pictures_of_runs
    from dgpbench.report.layers_plot import has_layers, layer_pictures
    from dgpbench.report.output_files import save_pictures
    from dgpbench.report.run_files import choose

    kinds = _kinds(args.kind)
    units = choose(args.filters, results_to_read(args.results))
    pictures: list[Picture] = []
    undrawn: list[str] = []
    try:
        if plain := [kind for kind in kinds if kind != LAYERS]:
            pictures, undrawn = pictures_of_runs(units, plain)
    except Nothing as nothing:
        undrawn.append(str(nothing))
    if LAYERS in kinds and (args.kind or (len(units) == 1 and has_layers(units[0].record))):
        from dgpbench.api.fitted import layers_of

        drawn, more = layer_pictures(units, layers_of)
        pictures, undrawn = [*pictures, *drawn], [*undrawn, *more]
    if not pictures:
        raise UserError("nothing could be drawn: " + "; ".join(undrawn))
    save_pictures(pictures, undrawn, Path(args.output))
    return 0


def _kinds(given: list[str]) -> list[str]:
    from dgpbench.config.suggest import did_you_mean

    names = [name for word in given for name in word.split(",") if name]
    known = kinds_of_runs()
    for name in names:
        if name not in known:
            raise UserError(f"no kind '{name}'{did_you_mean(name, known)}")
    if given and not names:
        raise UserError(f"--kind names no picture; give some of {', '.join(kinds_of_runs())}")
    return names or known
