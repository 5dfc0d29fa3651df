"""Rows of a user's file as inputs of a fitted model: by column name where names are known, else by order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dgpbench.config.suggest import did_you_mean
from dgpbench.data.readers.text import split_fields, text_chunks
from dgpbench.data.readers.user_file import first_line, is_number, open_parquet
from dgpbench.errors import UserError


def read_inputs(path: Path, count: int, names: Sequence[str] = ()) -> np.ndarray:
    """Inputs (N, D) in original units; `count` is D, `names` those of the columns that the model knows."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "no such file"
        raise UserError(f"{path}: {what}; give a file with the inputs (.csv, .csv.gz or .parquet)")
    if path.stat().st_size == 0:
        raise UserError(f"{path} is empty; give one row of inputs per prediction")
    return _parquet(path, count, names) if path.suffix == ".parquet" else _text(path, count, names)


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
