"""`dgpbench tables`: published tables rebuilt from records, ours beside theirs."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from dgpbench.cli.arguments import add_config_dir, add_source_arguments, reference_of
from dgpbench.errors import UserError
from dgpbench.report.render import FORMATS
from dgpbench.store.layout import results_to_read

NO_TERMINAL = 120  # characters of a line of the first screen in a file
SHOW = ("both", "ours", "published")
VIEWS = ("compare", "stats", "against", "calibration", "frontier", "show", "variant")  # of named tables


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "tables",
        help="the papers' tables from our records, beside the published numbers",
        description="Rebuild the papers' tables from records, ours next to the published numbers; or, by the "
        "name of a dataset, list every published number of it and ours, one list per unit. Without a name: "
        "one line per table, with how many cells are filled and how many agree.",
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="TABLE|DATASET",
        help="such as 5.1, S7, matthews4.3; all; your own file.yaml; or a dataset such as kin8nm, then also "
        "model=NAME and inference=NAME to filter its list (a,b and dgp* work)",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="without a name: every table's comparison and what it lacks, instead of one line each",
    )
    parser.add_argument(
        "--compare",
        action="store_true",
        help="one line per cell: ours, published, difference in standard errors; then how many agree",
    )
    parser.add_argument("--show", choices=SHOW, help="whose numbers (default: both, side by side)")
    parser.add_argument(
        "--variant",
        action="append",
        default=[],
        metavar="NAME",
        help="another set of experiments or metric, such as shared, 10k, exact (may be repeated)",
    )
    parser.add_argument(
        "--stats",
        action="store_true",
        help="paired tests on common splits: Wilcoxon, Bayesian signed-rank, win/tie/loss, ranks",
    )
    parser.add_argument(
        "--against", metavar="COLUMN", help="the column that --stats compares with (default: baseline)"
    )
    parser.add_argument(
        "--calibration",
        action="store_true",
        help="coverage, PIT and CRPS of the same runs; of classes ECE, Brier score and AUC",
    )
    parser.add_argument("--frontier", action="store_true", help="accuracy against training seconds")
    parser.add_argument(
        "--missing", action="store_true", help="print only the commands of the runs that are missing"
    )
    parser.add_argument(
        "--renew",
        metavar="FILE",
        help="renew the numbers in a Markdown page, such as docs/reproduction.md, and print nothing else",
    )
    parser.add_argument("--format", choices=FORMATS, default="table", help="how to print (default: table)")
    add_config_dir(parser)
    add_source_arguments(parser)


def words() -> list[str]:
    """Tables, for completion."""
    from dgpbench.papers.specs import names

    return names()


def main(args: argparse.Namespace) -> int:
    from dgpbench.config.tree import config_folders
    from dgpbench.papers import specs
    from dgpbench.papers.paper_table import all_tables, tables_of
    from dgpbench.store.scan import scan

    if args.renew:
        return _renew(args)
    filters = [word for word in args.names if "=" in word and not word.endswith((".yaml", ".yml"))]
    args.names = [word for word in args.names if word not in filters]
    given = specs.names() if "all" in args.names else args.names
    datasets = [name for name in given if _is_dataset(name)]
    names = [name for name in given if name not in datasets]
    _check(args, datasets, names, filters)
    config_folders(args.config_dir)  # refuses what is none
    folder = results_to_read(args.results)
    wanted = [specs.load(name, args.variant, args.config_dir) for name in names]
    units = scan(folder, reference=reference_of(args, folder))
    tables = tables_of(wanted, units, folder) if given else all_tables(units, folder)
    if wanted and "all" not in args.names and (args.compare or args.show == "published"):
        _check_published(tables)
    if args.missing:
        from dgpbench.report.result_table import missing_commands

        for command in dict.fromkeys(c for table in tables for c in missing_commands(table.cells.values())):
            print(command)
        return 0
    whole = args.all or args.compare or args.format != "table"
    if given:
        grids = [grid for table in tables for grid in _grids(table, args)]
    elif whole:
        grids = _overview(tables, folder, args.compare)
    else:
        from dgpbench.papers.table_overview import first_screen

        width = shutil.get_terminal_size((NO_TERMINAL, 0)).columns if sys.stdout.isatty() else NO_TERMINAL
        grids = [first_screen(tables, folder, width)]
    if args.compare or (whole and not given):
        from dgpbench.papers.views import counted

        grids.append(counted(tables))
    if datasets:
        from dgpbench.papers.dataset_numbers import dataset_grids

        grids += [grid for name in datasets for grid in dataset_grids(name, units, filters)]
    _print(grids, args.format)
    return 0


def _renew(args: argparse.Namespace) -> int:
    from dgpbench.papers.document import Pages, renew_file
    from dgpbench.store.scan import scan

    if args.names or args.missing or any(getattr(args, name) for name in VIEWS):
        raise UserError("--renew takes a page that says itself what it shows; leave tables and views out")
    if args.format != "table" or args.config_dir:
        raise UserError(
            "--renew writes Markdown of the tables of dgpbench; leave --format and --config-dir out"
        )
    folder = results_to_read(args.results)
    pages = Pages(scan(folder, reference=reference_of(args, folder)), folder)
    changed = renew_file(Path(args.renew), pages)
    print(f"{args.renew}: {'renewed' if changed else 'up to date'}")
    return 0


def _is_dataset(name: str) -> bool:
    """True for a name that is no table's but a dataset's."""
    from dgpbench.papers import specs
    from dgpbench.papers.dataset_numbers import is_dataset

    if name.endswith((".yaml", ".yml")) or name.lower() in {table.lower() for table in specs.names()}:
        return False
    return is_dataset(name)


def _check(args: argparse.Namespace, datasets: list[str], names: list[str], filters: list[str]) -> None:
    """Raise UserError for arguments that would be ignored."""
    if args.all and (args.names or args.missing):
        other = "--missing" if args.missing else " ".join(args.names)
        raise UserError(f"--all prints every table; remove it or '{other}'")
    if filters and (names or not datasets):
        raise UserError(
            f"'{filters[0]}' filters the list of a dataset, e.g. dgpbench tables kin8nm {filters[0]}"
        )
    given = [name for name in VIEWS if getattr(args, name)]
    if datasets and (given or args.missing):
        name = given[0] if given else "missing"
        raise UserError(f"--{name} is for tables, and {datasets[0]} is a dataset; leave one of the two out")
    if set(given) - {"compare"} and not args.names:
        given = [name for name in given if name != "compare"]
        raise UserError(f"--{given[0]} needs a table, e.g. dgpbench tables S7 --{given[0]}; or the word all")
    if args.missing and ({*given} - {"variant"} or args.format != "table"):
        raise UserError("--missing prints commands and nothing else; leave the other views and --format out")


def _check_published(tables: list) -> None:
    from dgpbench.errors import UserError

    for table in tables:
        if not any(cell.published for cell in table.cells.values()):
            raise UserError(
                f"nothing is published of {' '.join([table.spec.name, *table.spec.chosen])}; leave --compare "
                "and --show published out"
            )


def _grids(table, args: argparse.Namespace) -> list:
    """The views of a table that are asked for; without any, its ranks if it is a leaderboard, and itself."""
    from dgpbench.papers.views import comparison, side_by_side

    grids = []
    if args.stats or args.against:
        from dgpbench.report.significance import significance_grids

        grids += significance_grids(table, args.against)
    if args.calibration:
        from dgpbench.report.diagnostics import calibration

        grids.append(calibration(table))
    if args.frontier:
        from dgpbench.report.diagnostics import frontier

        grids.append(frontier(table))
    if args.compare:
        grids.append(comparison(table))
    plainly = not grids
    if table.spec.board and plainly:
        from dgpbench.report.leaderboard import board

        grids.append(board(table))
    if args.show or plainly:
        grids.append(side_by_side(table, args.show or "both"))
    return grids


def _overview(tables: list, folder: Path, compared_only: bool) -> list:
    """All tables in one, then what we have against what was published, with what explains cells."""
    from dataclasses import replace

    from dgpbench.papers.table_overview import overview
    from dgpbench.papers.views import comparison, explanations

    begun = [table for table in tables if table.done or table.failed]
    compared = [replace(comparison(table), notes=tuple(explanations(table)), missing=()) for table in begun]
    return compared if compared_only else [overview(tables, folder), *compared]


def _print(grids: list, name: str) -> None:
    if name == "table":
        from dgpbench.report.terminal import show

        for i, grid in enumerate(grids):
            if i:
                print()
            show(grid)
        return
    from dgpbench.report.render import render

    texts = [render(grid, name) for grid in grids]
    if name == "csv" and len({text.partition("\n")[0] for text in texts}) == 1:  # one table under one head
        texts = [texts[0], *(text.partition("\n")[2] for text in texts[1:])]
        sys.stdout.write("".join(texts))
    else:
        sys.stdout.write("\n".join(texts))
