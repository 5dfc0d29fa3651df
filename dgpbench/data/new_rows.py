"""Rows of a user's file as inputs of a fitted model: by column name where names are known, else by order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dgpbench.config.suggest import did_you_mean
from dgpbench.data.prepare import Recipe
from dgpbench.data.readers.cells import read_like
from dgpbench.data.readers.table import FORMATS, is_text, read_table
from dgpbench.data.readers.text import split_fields, text_chunks
from dgpbench.data.readers.user_file import first_line, is_number, open_parquet
from dgpbench.errors import UserError


def read_inputs(path: Path, count: int, names: Sequence[str] = ()) -> np.ndarray:
    """Return inputs (N, D) in original units; `count` is D, `names` are the columns that the model knows."""
    _check_file(path)
    read = _parquet if path.suffix == ".parquet" else _text if is_text(path) else _table
    return read(path, count, names)


def read_prepared(path: Path, recipe: Recipe) -> tuple[np.ndarray, list[str]]:
    """Return the rows of a file as a run with `dataset.prepare=auto` prepares them, with notes.

    A file without names has the inputs of the training file in their order.
    """
    _check_file(path)
    names = [column.name for column in recipe.columns]
    table = read_table(path, wanted=names)
    if table.frame.empty:
        raise UserError(f"{path} has a header and no rows; give one row of inputs per prediction")
    if not table.named and table.frame.shape[1] == len(names):
        table.frame.columns = names
    X, notes = recipe.apply(table.frame, str(path))
    return X, [table.note, *notes] if table.note else notes


def _check_file(path: Path) -> None:
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "no such file"
        raise UserError(f"{path}: {what}; give a file with the inputs ({FORMATS})")
    if path.stat().st_size == 0:
        raise UserError(f"{path} is empty; give one row of inputs per prediction")


def positions(
    path: Path, count: int, names: Sequence[str], header: Sequence[str] | None, width: int
) -> list[int]:
    """Which columns of the file are the inputs, in the model's order."""
    if names and header:
        for name in names:
            if name not in header:
                hint = did_you_mean(name, list(header))
                raise UserError(f"{path} has no column '{name}', an input of this run{hint}")
        return [list(header).index(name) for name in names]
    if width != count:
        known = f" ({', '.join(names[:12])})" if names else ""
        raise UserError(f"{path} has {width} columns, this run {count} inputs{known}; give those, in order")
    return list(range(count))


def _text(path: Path, count: int, names: Sequence[str]) -> np.ndarray:
    delimiter, line, skipped = first_line(path)
    fields = split_fields(line, delimiter)
    header = fields if any(not is_number(field) for field in fields) else None
    wanted = positions(path, count, names, header, len(fields))
    ordered = sorted(wanted)
    usecols = None if len(ordered) == len(fields) else ordered
    blocks = list(text_chunks(path, delimiter, skipped + 1 if header else 0, usecols))
    if not blocks:
        raise UserError(f"{path} has a header and no rows; give one row of inputs per prediction")
    return np.concatenate(blocks)[:, [ordered.index(i) for i in wanted]]


def _parquet(path: Path, count: int, names: Sequence[str]) -> np.ndarray:
    with open_parquet(path) as file:
        header = file.schema_arrow.names
        wanted = [header[i] for i in positions(path, count, names, header, len(header))]
        table = file.read(columns=wanted)
    try:
        columns = [table.column(name).to_numpy().astype(np.float64) for name in wanted]
    except (TypeError, ValueError) as error:
        raise UserError(f"{path}: the inputs must be numbers ({error})") from None
    return np.stack(columns, axis=1)


def _table(path: Path, count: int, names: Sequence[str]) -> np.ndarray:
    table = read_table(path, wanted=names)
    header = list(table.frame.columns)
    wanted = positions(path, count, names, header if table.named else None, len(header))
    found = [read_like(table.frame.iloc[:, i], "number", "point") for i in wanted]
    for i, values in zip(wanted, found, strict=True):
        if np.isnan(values).any():
            row = int(np.flatnonzero(np.isnan(values))[0])
            raise UserError(
                f"{path}: column {header[i]!r} of row {row} is no number; correct or remove the row"
            )
    return np.stack(found, axis=1)
