"""`dgpbench show`: the records as a table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from dgpbench.cli.arguments import add_config_dir, add_results
from dgpbench.config.suggest import did_you_mean
from dgpbench.config.tree import config_folders
from dgpbench.errors import UserError
from dgpbench.store.filters import select
from dgpbench.store.layout import results_to_read
from dgpbench.store.scan import Unit, scan
from dgpbench.store.summary import FORMATS, NAMES, mean_of, per_config, per_record, usual_metrics


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
    parser.add_argument(
        "--format", choices=tuple(FORMATS), default="table", help="how to print (default: table)"
    )
    add_results(parser)
    parser.add_argument(
        "--export",
        metavar="FILE",
        help="write the records to this file instead: results.parquet, or .jsonl.gz as in results/reference",
    )
    add_config_dir(
        parser,
        "where your own model/, dataset/, ... yaml files are now, if not where the runs had them from",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--reference", action="store_true", help="also results/reference where runs of your own match"
    )
    which.add_argument("--no-reference", action="store_true", help="omit results/reference")


def main(args) -> int:
    if args.export and (args.format != "table" or args.each or args.metric or args.sort or args.reverse):
        raise UserError("--export writes whole records; leave --format, --each, --metric and --sort out")
    results = results_to_read(args.results)
    config_folders(args.config_dir)  # refuses what is none
    found = scan(results, reference=not args.no_reference, traces=bool(args.export))
    units = select(found, args.filters)
    if args.failed:
        units = [unit for unit in units if not unit.record.done]
    if not args.reference:
        units = _own_first(units)
    if not units and args.format == "table":
        what = "records that are not done" if args.failed else "records"
        suffix = " that match" if args.filters else ""
        print(f"no {what}{suffix} in {results}")
        return 0
    if args.export:
        from dgpbench.api.record_tables import export

        export(units, args.export)
        print(f"{len(units):,} records: {args.export}")
        return 0
    each = args.each or args.failed
    metrics = [] if args.failed and not args.metric else _metrics(args.metric, units)
    rows = (per_record if each else per_config)(units, metrics, args.config_dir)
    if args.failed:
        rows = [row | {"log": _log(row["place"])} for row in rows]
    rows = _sorted(rows, args.sort, args.reverse)
    FORMATS[args.format](rows)
    return 0


def _own_first(units: list[Unit]) -> list[Unit]:
    """The user's own runs; those that come with dgpbench where there are no others."""
    own = [unit for unit in units if not unit.is_reference]
    if own and len(own) < len(units):
        print(
            f"{len(units) - len(own):,} records of results/reference match too: --reference", file=sys.stderr
        )
    return own or units


def _metrics(wanted: Sequence[str], units: Sequence[Unit]) -> list[str]:
    known = list(dict.fromkeys(name for unit in units for name in unit.record.metrics))
    names = [name for word in wanted for name in word.split(",") if name]
    if "all" in names:
        return known
    names = [full if (full := f"test_{name}") in known else name for name in names]
    for name in names:
        if units and name not in known:
            short = did_you_mean(name, [full.removeprefix("test_") for full in known])
            hint = did_you_mean(name, known) or short or f"; they have {', '.join(known)}"
            raise UserError(f"no metric '{name}' in these records{hint}")
    return names or usual_metrics(units)


def _log(place: str) -> str:
    """Path of the unit's log if a sweep has kept one, else an empty text."""
    path = Path(place, "log.txt")
    return str(path) if path.is_file() else ""


def _sorted(rows: list[dict], column: str | None, reverse: bool) -> list[dict]:
    """Rows by a column, empty cells last; by names without one."""
    if column is None:
        names = [n for n in (*NAMES, "settings", "split", "seed") if rows and n in rows[0]]
        return sorted(rows, key=lambda r: [r[n] for n in names], reverse=reverse)
    if rows and column not in rows[0]:
        hint = did_you_mean(column, rows[0]) or f"; there are {', '.join(rows[0])}"
        raise UserError(f"no column '{column}' to sort by{hint}")
    full, empty = [r for r in rows if r[column] is not None], [r for r in rows if r[column] is None]
    return sorted(full, key=lambda r: mean_of(r[column]), reverse=reverse) + empty
