"""`dgpbench compare`: any models on any datasets, from plain runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dgpbench.cli.arguments import add_config_dir, add_no_check, add_source_arguments, reference_of
from dgpbench.config import plugins
from dgpbench.config.suggest import did_you_mean
from dgpbench.errors import UserError
from dgpbench.report.render import FORMATS
from dgpbench.store.layout import results_folder

ALL, FIGURES = "all", "figures"
EPILOG = """\
The words are those of sweep: lists a,b,c make columns (models, settings) or rows (datasets), split=0,1,2
chooses splits; without dataset= every dataset with such runs is a row. examples:

  dgpbench compare model=sgp,dgp2,dgp3 dataset=boston,energy,concrete
  dgpbench compare model=sgp,dgp2 dataset=energy budget.steps=2000 --run
  dgpbench compare model=dgp2 model.num_inducing=50,100,200 dataset=kin8nm --metric rmse
  dgpbench compare --config-dir my_conf model=sgp,mine dataset=boston,energy --format latex > table.tex
"""


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "compare",
        help="a fair table of models by datasets, with tests and LaTeX",
        description="Compare models or settings on datasets: mean (standard error), ranks, paired tests on "
        "common splits, what is missing and the command that makes it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("overrides", nargs="*", metavar="name=values", help="as for sweep")
    parser.add_argument("--run", action="store_true", help="first run what is missing, as sweep does")
    parser.add_argument(
        "--metric",
        default="loglik",
        metavar="NAME",
        help="such as rmse, crps, accuracy (default: loglik)",
    )
    parser.add_argument("--against", metavar="COLUMN", help="column that tests compare with (default: first)")
    parser.add_argument(
        "--errors",
        choices=("corrected", "plain"),
        default="corrected",
        help="standard errors: corrected for the rows that splits share, or plain as in papers "
        "(default: corrected)",
    )
    parser.add_argument(
        "--tuned", action="store_true", help="beside each column its refits by dgpbench tune, as one more"
    )
    parser.add_argument(
        "--format", type=_format, choices=FORMATS, default="table", help="how to print (default: table)"
    )
    parser.add_argument(
        "--plot",
        nargs="?",
        const=ALL,
        metavar="KINDS",
        help=f"also draw it: all of {', '.join(plugins.built_in('comparison_figure'))}, or those named; PNG, "
        "PDF and CSV files",
    )
    parser.add_argument("-o", "--output", metavar="DIR", help="folder of the plots (default: figures)")
    add_no_check(parser)
    add_config_dir(parser)
    add_source_arguments(parser)


def _format(name: str) -> str:
    return "table" if name == "terminal" else name  # its former name


def main(args: argparse.Namespace) -> int:
    from dgpbench.report.comparison.compare_runs import compare
    from dgpbench.report.comparison.question import ask
    from dgpbench.store.scan import scan

    kinds = _kinds(args)
    question = ask(args.overrides, args.config_dir)  # what is wrong with the words is said before any run
    results = _results(args)
    if args.run:
        _check_run(question, args)
        _run(args, results)
    units = scan(results, reference=reference_of(args, results), traces=bool(kinds))
    comparison = compare(
        args.overrides,
        units,
        metric=args.metric,
        config_dirs=args.config_dir,
        against=args.against,
        tuned=args.tuned,
        errors=args.errors,
        more=[f"paths.results={args.results}"] if args.results else [],
    )
    _print(comparison, args.format)
    if kinds:
        from dgpbench.report.comparison.methods import comparison_pictures
        from dgpbench.report.output_files import save_pictures

        pictures, undrawn = comparison_pictures(comparison, kinds=kinds)
        save_pictures(pictures, undrawn, Path(args.output or FIGURES), out=sys.stderr)
    return 0


def _kinds(args: argparse.Namespace) -> list[str]:
    """The pictures asked for; where they are to go is tried now, not after the runs."""
    from dgpbench.report.output_files import output_folder

    if args.plot and "=" in args.plot:  # --plot model=sgp: a word of the comparison
        args.overrides.insert(0, args.plot)
        args.plot = ALL
    if args.plot is None:
        if args.output is not None:
            raise UserError("-o is the folder of the plots; add --plot, or write the table with > FILE")
        return []
    known = list(plugins.entries("comparison_figure"))
    kinds = known if args.plot == ALL else [name for name in args.plot.split(",") if name]
    if not kinds:
        raise UserError(f"--plot names no picture; give some of {', '.join(known)}, or --plot alone for all")
    for name in kinds:
        if name not in known:
            raise UserError(f"--plot {name} is no kind of picture{did_you_mean(name, known)}")
    output_folder(args.output or FIGURES)
    return kinds


def _results(args: argparse.Namespace) -> Path:
    """--results, or paths.results= among the words, or the environment's, or results."""
    words = [word.partition("=")[2] for word in args.overrides if word.startswith("paths.results=")]
    folder = results_folder(args.results or (words[-1] if words else None))
    if args.results and not args.run and not folder.is_dir():
        raise UserError(f"no results folder {folder}; give the folder that holds the dataset folders")
    return folder.expanduser()


def _check_run(question, args: argparse.Namespace) -> None:
    """What --run needs, and that columns are comparable: known before anything is trained."""
    from dgpbench.config.tree import member
    from dgpbench.evaluate.metric_table import check_task, find_metric
    from dgpbench.report.comparison.fairness import refuse

    metric = find_metric(args.metric)
    if not question.rows:
        raise UserError("--run needs the datasets, e.g. dataset=boston,energy")
    for row in question.rows:
        dataset = question.config(row, question.columns[0])["dataset"]
        check_task(metric, row.label, dataset.get("task", "regression"))
    first = question.rows[0]
    refuse({column.label: question.config(first, column) for column in question.columns})
    labels = [column.label for column in question.columns]
    if args.against and not args.tuned and member("model", args.against, labels) not in labels:
        raise UserError(f"--against {args.against} is no column of this comparison")


def _run(args: argparse.Namespace, results: Path) -> None:
    """Run the same words as a sweep; its progress and end go to standard error."""
    from contextlib import redirect_stdout

    from dgpbench.cli import sweep

    where = [f"paths.results={results}"] if args.results else []
    options = {"retry": "missing", "dry_run": False, "detach": False, "verbose": 0, "quiet": False}
    options["no_check"] = args.no_check
    words = [*args.overrides, *where]
    with redirect_stdout(sys.stderr):
        sweep.main(argparse.Namespace(overrides=words, config_dir=args.config_dir, **options))


def _print(comparison, name: str) -> None:
    if name == "table":
        from dgpbench.report.comparison import comparison_views as view
        from dgpbench.report.terminal import show

        for i, grid in enumerate(view.grids(comparison)):
            if i:
                print()
            show(grid)
    else:
        from dgpbench.report.comparison.comparison_views import render

        sys.stdout.write(render(comparison, name))
