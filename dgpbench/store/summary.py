"""Summarise records in rows, and print rows as a table, CSV, JSON or Markdown.

A row is one record, or one config with mean (standard error) over its splits. Rows are dicts with the
same columns.
"""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple

from dgpbench.evaluate.metric_table import known_metrics
from dgpbench.plain_text import csv_value, markdown, visible
from dgpbench.store.differences import dataset_label, differences
from dgpbench.store.record import Record
from dgpbench.store.scan import Unit

NAMES = ("dataset", "model", "inference", "protocol")


class Mean(NamedTuple):
    """Mean over the n known of `of` values, with its standard error (None for one value)."""

    mean: float
    error: float | None
    n: int
    of: int


def average(values: Sequence[float | None]) -> Mean | None:
    found = [value for value in values if value is not None]
    if not found:
        return None
    error = stdev(found) / math.sqrt(len(found)) if len(found) > 1 else None
    return Mean(fmean(found), error, len(found), len(values))


def mixing(record: Record) -> dict[str, float]:
    """Return the `effective` samples and `rhat` of a sampler's worst coordinate; {} for other methods."""
    checks = record.training.get("checks")
    found = checks.get("chains") if isinstance(checks, dict) else None
    numbers = found.items() if isinstance(found, dict) else ()
    return {name: value for name, value in numbers if isinstance(value, int | float)}


def usual_metrics(units: Sequence[Unit]) -> list[str]:
    """Return the metrics that tables show by default."""
    known = {name for unit in units for name in unit.record.metrics}
    return [name for name, own in known_metrics().items() if own.usual and name in known]


def per_record(units: Sequence[Unit], metrics: Sequence[str], config_dirs: Sequence[str] = ()) -> list[dict]:
    """Return one row per record; `settings` lists changed settings, `place` the folder or packed file."""
    settings, sampled = _settings(units, config_dirs), any(mixing(unit.record) for unit in units)
    rows = []
    for unit in units:
        record = unit.record
        row = _names(record) | {"settings": settings[record.config_key]}
        row |= {name: record[name] for name in ("split", "seed", "status")}
        row.update({name: record.metrics.get(name) for name in metrics})
        if sampled:
            row.update({name: mixing(record).get(name) for name in MIXING})
        row.update(
            train_seconds=record.training_seconds,
            seconds=record.wall_seconds,
            reason=record.reason or "",
            key=record.key[:8],
            place=str(unit.path if unit.is_reference else unit.folder),
        )
        rows.append(row)
    return rows


def per_config(units: Sequence[Unit], metrics: Sequence[str], config_dirs: Sequence[str] = ()) -> list[dict]:
    """Return one row per config_key, with changed settings and the number of runs that are not done."""
    groups: dict[str, list[Record]] = {}
    for unit in units:
        groups.setdefault(unit.record.config_key, []).append(unit.record)
    settings, sampled = _settings(units, config_dirs), any(mixing(unit.record) for unit in units)
    rows = []
    for key, records in groups.items():
        done = [r for r in records if r.done]
        row: dict = _names(records[0]) | {"settings": settings[key], "done": len(done)}
        others = Counter(r.status for r in records if not r.done)
        row["not_done"] = ", ".join(f"{count} {status}" for status, count in sorted(others.items()))
        for name in metrics:
            row[name] = average([r.metrics.get(name) for r in done])
        if sampled:
            row |= {name: worst([mixing(r).get(name) for r in done]) for name, worst in MIXING.items()}
        row["train_seconds"] = _mean([r.training_seconds for r in done])
        row["seconds"] = _mean([r.wall_seconds for r in done])
        row["config_key"] = key[:8]
        rows.append(row)
    return rows


def _worst(choose: Callable) -> Callable[[Sequence[float | None]], float | None]:
    return lambda values: choose((v for v in values if v is not None), default=None)


MIXING = {"effective": _worst(min), "rhat": _worst(max)}  # columns of samplers, and the split that counts


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _names(record: Record) -> dict:
    return {name: record[name] for name in NAMES} | {"dataset": dataset_label(record.config)}


def _settings(units: Sequence[Unit], config_dirs: Sequence[str]) -> dict[str, str]:
    """Return changed settings by config_key, with the data's hash if nothing else tells two configs apart."""
    examples = {unit.record.config_key: unit.record for unit in units}
    texts = {key: " ".join(differences(record, config_dirs)) for key, record in examples.items()}
    shown = {key: (*_names(record).values(), texts[key]) for key, record in examples.items()}
    alike: dict[tuple, set[str]] = {}
    for key, record in examples.items():
        alike.setdefault(shown[key], set()).add(record.data_hash or "")
    out = dict(texts)
    for key, record in examples.items():
        if len(alike[shown[key]]) > 1:
            out[key] = f"{texts[key]} data={(record.data_hash or '')[:8]}".strip()
    return out


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
    """Return the columns that are not empty in all rows."""
    return [c for c in rows[0] if any(cell_text(r[c]) for r in rows)] if rows else []


def print_table(rows: list[dict], width: int | None = None) -> None:
    """Print rows within a width (default: the terminal's, none for a file) without breaking words."""
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
    """Return the width below which words would break."""
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
    """Split means into columns: value, standard error and number of values."""
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
