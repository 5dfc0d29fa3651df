"""`dgpbench active`: models that choose their own training rows, and their learning curves."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dgpbench.cli.arguments import add_config_dir
from dgpbench.errors import UserError
from dgpbench.plain_text import aligned

SCORES = ("loglik", "rmse", "accuracy")
METRICS = tuple(f"{part}_{score}" for part in ("test", "rest", "seen", "pool") for score in SCORES)


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "active",
        help="active learning: models that choose their own training rows",
        description="Train on a few rows, ask for the label of the row that the model is least certain of, "
        "train again, and so on: the tasks active_learning_continuous and active_learning_discrete of "
        "bayesian_benchmarks. What was stopped goes on with its next step, more iterations go on from fewer.",
    )
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="name=values",
        help="as for sweep: model=sgp,dgp2 dataset=boston; split=0 unless given",
    )
    parser.add_argument(
        "--initial", type=int, default=3, metavar="N", help="rows with labels at first (default: 3)"
    )
    parser.add_argument(
        "--iterations", type=int, default=10, metavar="N", help="labels asked for (default: 10)"
    )
    parser.add_argument(
        "--select",
        default="auto",
        metavar="NAME",
        help="auto (default: variance, of classes entropy), random, or several: auto,random",
    )
    parser.add_argument(
        "--pool",
        choices=("train", "all"),
        default="train",
        help="rows that may be labelled: the training rows of the protocol, scored on its test rows "
        "(default), or all rows as in bayesian_benchmarks, scored on those without a label",
    )
    parser.add_argument("--metric", metavar="NAME", help="of table and plot: rest_loglik, rest_rmse, ...")
    parser.add_argument("--plot", metavar="DIR", help="draw the curves: PNG, PDF and CSV")
    parser.add_argument("--csv", metavar="FILE", help="write every step as one line")
    add_config_dir(parser, short=True)
    parser.add_argument("-q", "--quiet", action="store_true", help="print the table only")


def main(args: argparse.Namespace) -> int:
    from dgpbench.active_learning.curve_study import run_curves
    from dgpbench.active_learning.learning_curves import frame, picture
    from dgpbench.report.charts import Nothing
    from dgpbench.report.output_files import put, save_pictures, writing

    _check(args)

    def tell(curve, step) -> None:
        if args.quiet:
            return
        shown = [f"{name} {step[name]:.4g}" for name in _metrics(args, step)]
        text = f"{_name(curve)}: {step['labels']} labels, {', '.join(shown)}, {step['seconds']:.1f} s"
        print(text, file=sys.stderr)

    select = [name for name in args.select.split(",") if name]
    sizes = args.initial, args.iterations
    curves = run_curves(args.overrides, *sizes, select, args.pool, args.config_dir, tell)
    data = frame(curves)
    if not data.empty:
        metrics = _metrics(args, data.columns)
        _print(data, metrics)
        if args.csv:
            with writing(args.csv, "--csv"):
                put(Path(args.csv).expanduser(), data.to_csv(index=False, lineterminator="\n").encode())
        if args.plot:
            try:
                save_pictures([picture(curves, name) for name in metrics], [], Path(args.plot))
            except Nothing as nothing:
                raise UserError(str(nothing)) from None
    failed = [curve for curve in curves if curve.reason]
    for curve in failed:
        text = f"{_name(curve)} ended after {len(curve.steps)} steps: {curve.reason}"
        print(f"dgpbench: {text}", file=sys.stderr)
    if any(curve.reason and not curve.steps for curve in failed):
        print("dgpbench: where the first rows are too few for a model, give --initial more", file=sys.stderr)
    return 1 if failed else 0


def _check(args: argparse.Namespace) -> None:
    """Refuse, before anything is trained, a metric that is none and places that cannot be written."""
    from dgpbench.report.output_files import output_folder

    if args.metric and args.metric not in METRICS:
        from dgpbench.config.suggest import did_you_mean

        hint = did_you_mean(args.metric, METRICS) or "; they are {test,rest,seen,pool}_{loglik,rmse,accuracy}"
        raise UserError(f"no metric '{args.metric}' of a curve{hint}")
    if args.plot:
        output_folder(args.plot, "--plot")
    if args.csv:
        output_folder(Path(args.csv).expanduser().parent, "--csv")
        if Path(args.csv).is_dir():
            raise UserError(f"--csv {args.csv} is a folder; give a file, e.g. {args.csv}/curves.csv")


def _name(curve) -> str:
    cfg = curve.config
    names = f"{cfg['model']['name']} on {cfg['dataset']['name']}, split {cfg['split']}"
    return f"{names}, {curve.options.select}"


def _metrics(args: argparse.Namespace, have) -> list[str]:
    """The metrics shown: the one asked for, or both of the test rows, else of those without a label."""
    if args.metric:
        if args.metric not in have:
            raise UserError(f"these curves have no {args.metric}; they have {', '.join(_known(have))}")
        return [args.metric]
    from dgpbench.evaluate.metrics import ACCURACY, RMSE

    part = "test" if any(name in have for name in (RMSE, ACCURACY)) else "rest"
    return [name for name in METRICS if name.startswith(part) and name in have]


def _known(have) -> list[str]:
    return [name for name in METRICS if name in have]


def _print(data, metrics: list[str]) -> None:
    """Mean (standard error) over splits by number of labels, a column per method."""
    from dgpbench.active_learning.learning_curves import summary, title

    for metric in metrics:
        table = summary(data, metric)
        for dataset, part in table.groupby("dataset", sort=False):
            methods = list(dict.fromkeys(part.method))
            cells = {(line.labels, line.method): line for line in part.itertuples()}
            lines = [["labels", *methods]]
            for labels in sorted(set(part.labels)):
                found = [cells.get((labels, method)) for method in methods]
                lines.append([str(labels), *(_cell(line) for line in found)])
            print("\n".join([f"\n{dataset}: {title(metric)}", *aligned(lines)]))


def _cell(line) -> str:
    if line is None or line.mean != line.mean:
        return "-"
    return f"{line.mean:.4g}" + (f" ({line.error:.2g})" if line.n > 1 else "")
