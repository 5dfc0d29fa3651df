"""`dgpbench show`: the records as a table."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from dgpbench.config.suggest import did_you_mean
from dgpbench.errors import UserError
from dgpbench.plain_text import csv_value, markdown, visible
from dgpbench.store.filters import select
from dgpbench.store.scan import Unit, scan
from dgpbench.store.summary import NAMES, Mean, per_config, per_record

USUAL = ("test_loglik", "test_rmse", "test_accuracy", "test_auc")  # shown unless --metric says otherwise
REASON = 500  # characters of a cell
FORMATS = ("table", "csv", "json", "markdown")


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "show",
        help="show records as a table",
        description="Show records: one line per config with mean (standard error) over its splits.",
    )
    parser.add_argument(
        "filters",
        nargs="*",
        metavar="field=value",
        help="only these, such as dataset=kin8nm model=dgp* model.num_inducing=50,100",
    )
    parser.add_argument("--each", action="store_true", help="one line per record")
    parser.add_argument("--failed", action="store_true", help="what is not done, with reason and log")
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="NAME",
        help="metric to show (several: comma or repeated; 'all' for all)",
    )
    parser.add_argument("--sort", metavar="COLUMN", help="sort by this column")
    parser.add_argument("--reverse", action="store_true", help="sort downwards")
    parser.add_argument("--format", choices=FORMATS, default="table", help="how to print (default: table)")
    parser.add_argument(
        "--results", metavar="DIR", help="folder of results (or DGPBENCH_RESULTS; default: results)"
    )
    parser.add_argument(
        "--export",
        metavar="FILE",
        help="write the records to this file too: results.parquet, or .jsonl.gz as in results/reference",
    )
    parser.add_argument("--no-reference", action="store_true", help="leave out results/reference")


def main(args) -> int:
    results = Path(args.results or os.environ.get("DGPBENCH_RESULTS") or "results")
    if args.results and not results.is_dir():
        raise UserError(f"no results folder {results}; give the folder that holds the dataset folders")
    found = scan(results, reference=not args.no_reference, traces=bool(args.export))
    units = select(found, args.filters)
    if args.failed:
        units = [unit for unit in units if unit.record["status"] != "done"]
    if not units and args.format == "table":
        what = "records that are not done" if args.failed else "records"
        suffix = " that match" if args.filters else ""
        print(f"no {what}{suffix} in {results}")
        return 0
    if args.export:
        from dgpbench.api.exports import export

        export(units, args.export)
    each = args.each or args.failed
    metrics = [] if args.failed and not args.metric else _metrics(args.metric, units)
    rows = (per_record if each else per_config)(units, metrics)
    if args.failed:
        rows = [row | {"log": _log(row["place"])} for row in rows]
    rows = _sorted(rows, args.sort, args.reverse)
    {"table": _table, "csv": _csv, "json": _json, "markdown": _markdown}[args.format](rows)
    return 0


def _metrics(wanted: Sequence[str], units: Sequence[Unit]) -> list[str]:
    known = list(dict.fromkeys(name for unit in units for name in unit.record["metrics"]))
    names = [name for word in wanted for name in word.split(",") if name]
    if "all" in names:
        return known
    for name in names:
        if units and name not in known:
            raise UserError(f"no metric '{name}' in these records{did_you_mean(name, known)}")
    return names or [name for name in USUAL if name in known]


def _log(place: str) -> str:
    """Path of the unit's log if a sweep has kept one, else an empty text."""
    path = Path(place, "log.txt")
    return str(path) if path.is_file() else ""


def _sorted(rows: list[dict], column: str | None, reverse: bool) -> list[dict]:
    """Rows by a column, empty cells last; by names without one."""
    if column is None:
        names = [n for n in (*NAMES, "variant", "split", "seed") if rows and n in rows[0]]
        return sorted(rows, key=lambda r: [r[n] for n in names], reverse=reverse)
    if rows and column not in rows[0]:
        raise UserError(f"no column '{column}' to sort by{did_you_mean(column, rows[0])}")
    full, empty = [r for r in rows if r[column] is not None], [r for r in rows if r[column] is None]
    return sorted(full, key=lambda r: _mean(r[column]), reverse=reverse) + empty


def _mean(value: object) -> object:
    return value.mean if isinstance(value, Mean) else value


def _cell(value: object) -> str:
    if isinstance(value, Mean):
        error = f" ({value.error:.2g})" if value.error is not None else ""
        lacking = f" [{value.n} of {value.of}]" if value.n < value.of else ""
        return f"{value.mean:.4g}{error}{lacking}"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else visible(str(value), REASON)


def _columns(rows: list[dict]) -> list[str]:
    """Columns that say something: those empty in all rows are left out."""
    return [c for c in rows[0] if any(_cell(r[c]) for r in rows)] if rows else []


def _table(rows: list[dict]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in _columns(rows):
        number = all(isinstance(r[column], (int, float, Mean, type(None))) for r in rows)
        table.add_column(column, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row[c]) for c in _columns(rows)))
    width = None if sys.stdout.isatty() else 10_000  # a file or a pipe has no width: never wrap
    Console(markup=False, highlight=False, width=width).print(table)


def _markdown(rows: list[dict]) -> None:
    columns = _columns(rows)
    lines = [columns, ["---"] * len(columns)]
    lines += [[markdown(_cell(row[c])) for c in columns] for row in rows]
    print("\n".join("| " + " | ".join(line) + " |" for line in lines if line))


def _flat(row: dict) -> dict:
    """Means as separate columns: value, standard error and number of values."""
    out = {}
    for name, value in row.items():
        out[name] = _mean(value)
        if isinstance(value, Mean):
            out |= {f"{name}_se": value.error, f"{name}_n": value.n}
    return out


def _csv(rows: list[dict]) -> None:
    flat = [_flat(row) for row in rows]
    columns = list(dict.fromkeys(c for row in flat for c in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_value(value) for name, value in row.items()} for row in flat)
    sys.stdout.write(out.getvalue())


def _json(rows: list[dict]) -> None:
    print(json.dumps([_flat(row) for row in rows], indent=1))
