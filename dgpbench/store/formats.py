"""Rows (dicts with the same columns) as a table in the terminal, CSV, JSON or Markdown."""

from __future__ import annotations

import csv
import io
import json
import sys
from typing import Any

from dgpbench.plain_text import csv_value, markdown, visible
from dgpbench.store.summary import Mean

SPACE = 2  # between columns
LONGEST = 500  # characters of a cell
MOVED = ("inference", "protocol", "seed")  # said above a narrow table where all rows have the same
BELOW = "place"  # paths stand below a narrow table, one to a line


def mean_of(value: Any) -> Any:
    return value.mean if isinstance(value, Mean) else value


def cell_text(value: object) -> str:
    if isinstance(value, Mean):
        error = f" ({value.error:.2g})" if value.error is not None else ""
        lacking = f" [{value.n} of {value.of}]" if value.n < value.of else ""
        return f"{value.mean:.4g}{error}{lacking}"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else visible(str(value), LONGEST)


def _columns(rows: list[dict]) -> list[str]:
    """Columns that say something: those empty in all rows are left out."""
    return [c for c in rows[0] if any(cell_text(r[c]) for r in rows)] if rows else []


def print_table(rows: list[dict], width: int | None = None) -> None:
    """Print rows within a width (default: the terminal's, none for a file). No word is ever broken."""
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False, highlight=False)
    width = width or (console.width if sys.stdout.isatty() else 10_000)
    columns = _columns(rows)
    paths = []
    if _least(rows, columns) > width and len(rows) > 1:
        same = [c for c in columns if c in MOVED and len({cell_text(r[c]) for r in rows}) == 1]
        columns = [c for c in columns if c not in same]
        if same:
            console.print(", ".join(f"{c} {cell_text(rows[0][c])}" for c in same))
    if _least(rows, columns) > width and BELOW in columns:
        columns.remove(BELOW)
        paths = [(str(row.get("key", "")), cell_text(row[BELOW])) for row in rows]
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        number = all(isinstance(r[column], (int, float, Mean, type(None))) for r in rows)
        words = column in ("settings", "reason")
        least = max(len(word) for word in [column, *_words(rows, column)]) if words else None
        table.add_column(
            column, justify="right" if number else "left", no_wrap=not words, min_width=least, overflow="fold"
        )
    for row in rows:
        table.add_row(*(cell_text(row[c]) for c in columns))
    console.width = max(width, _least(rows, columns))
    console.print(table)
    for key, path in paths:
        console.print(f"{key}  {path}", soft_wrap=True)


def _words(rows: list[dict], column: str) -> list[str]:
    return [word for row in rows for word in cell_text(row[column]).split()]


def _least(rows: list[dict], columns: list[str]) -> int:
    """The width below which words would break."""
    total = 0
    for column in columns:
        texts = (
            _words(rows, column) if column in ("settings", "reason") else [cell_text(r[column]) for r in rows]
        )
        total += max(map(len, [column, *texts])) + SPACE
    return total


def print_markdown(rows: list[dict]) -> None:
    columns = _columns(rows)
    lines = [columns, ["---"] * len(columns)]
    lines += [[markdown(cell_text(row[c])) for c in columns] for row in rows]
    print("\n".join("| " + " | ".join(line) + " |" for line in lines if line))


def _flat(row: dict) -> dict:
    """Means as separate columns: value, standard error and number of values."""
    out = {}
    for name, value in row.items():
        out[name] = mean_of(value)
        if isinstance(value, Mean):
            out |= {f"{name}_se": value.error, f"{name}_n": value.n}
    return out


def print_csv(rows: list[dict]) -> None:
    flat = [_flat(row) for row in rows]
    columns = list(dict.fromkeys(c for row in flat for c in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_value(value) for name, value in row.items()} for row in flat)
    sys.stdout.write(out.getvalue())


def print_json(rows: list[dict]) -> None:
    print(json.dumps([_flat(row) for row in rows], indent=1))


FORMATS = {"table": print_table, "csv": print_csv, "json": print_json, "markdown": print_markdown}
