"""`dgpbench predict RUN new.csv`: predictions of a finished run at new inputs."""

from __future__ import annotations

import argparse
import csv
import io
import sys
from pathlib import Path

from dgpbench.cli.arguments import add_allow_model, add_results
from dgpbench.errors import UserError
from dgpbench.plain_text import visible

LEVELS = "0.025,0.25,0.5,0.75,0.975"


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "predict",
        help="predictions of a finished run at new inputs",
        description="Predict at the rows of a file with a finished run, in original units and with "
        "the run's scaling. Regression: mean, sd and quantiles, noise included, behind the level of a row "
        "where the run's data have levels; classes: the likeliest and the probability of each. Columns go "
        "by name where the run's data had names, in any order and with others beside them; else by order. "
        "Rows of a run with dataset.prepare=auto are prepared as its table was.",
    )
    parser.add_argument("run", metavar="RUN", help="a run's folder, or the first digits of its key")
    parser.add_argument("file", metavar="new.csv", help="inputs: CSV, Parquet, Feather, Excel or ARFF")
    parser.add_argument("-o", "--output", metavar="out.csv", help="write here instead of to the screen")
    parser.add_argument(
        "--quantiles", default=LEVELS, metavar="a,b,...", help=f"levels between 0 and 1 (default: {LEVELS})"
    )
    add_results(parser, "where to look for a key")
    add_allow_model(parser)


def main(args: argparse.Namespace) -> int:
    levels = _levels(args.quantiles)
    output = _writable(args.output)
    from dgpbench.api.fitted import load
    from dgpbench.data.readers.user_file import read_inputs, read_prepared

    fitted = load(args.run, args.results, args.allow_model)
    path = Path(args.file).expanduser()
    if fitted.recipe is None:
        X = read_inputs(path, len(fitted.transform.x_mean), fitted.transform.names)
    else:
        X, notes = read_prepared(path, fitted.recipe)
        for note in notes:
            print(f"note: {visible(note)}", file=sys.stderr)
    columns = fitted.predict(X, levels).columns()
    if fitted.config["dataset"].get("level") is not None:  # which fidelity of a row was asked for
        names = fitted.transform.names or ("level",)
        columns = {names[-1]: X[:, -1]} | columns
    if output is None:
        _write(sys.stdout, columns)
        return 0
    from dgpbench.report.output_files import put, writing

    text = io.StringIO()
    _write(text, columns)
    with writing(output):
        put(output, text.getvalue().encode())
    print(f"{len(X):,} predictions: {output}")
    return 0


def _write(file, columns: dict) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    for row in zip(*(values.tolist() for values in columns.values()), strict=True):
        writer.writerow([f"{value:.10g}" if isinstance(value, float) else value for value in row])


def _levels(text: str) -> list[float]:
    try:
        levels = [float(word) for word in text.split(",") if word.strip()]
    except ValueError:
        levels = [0.0]
    if not levels or not all(0.0 < level < 1.0 for level in levels):
        raise UserError(f"--quantiles {text} is not allowed; give levels between 0 and 1, e.g. 0.05,0.5,0.95")
    return levels


def _writable(output: str | None) -> Path | None:
    """The output file; UserError where it cannot be one, known before the work and not after."""
    from dgpbench.report.output_files import output_folder

    if output is None:
        return None
    path = Path(output).expanduser()
    if path.is_dir():
        raise UserError(f"-o {output} is a folder; give a file, e.g. {path / 'out.csv'}")
    if not path.parent.is_dir():
        raise UserError(f"-o {output}: no folder {path.parent}; make it first, or give another place")
    output_folder(path.parent)
    return path
