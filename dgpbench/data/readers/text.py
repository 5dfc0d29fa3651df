"""Numbers from delimited text in bounded memory, with errors that name the line and the column."""

from __future__ import annotations

import bz2
import csv
import gzip
import itertools
import math
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from dgpbench.errors import UserError

CHUNK_VALUES = 1 << 18
MAX_LINE = 64 << 20  # characters
MAX_TEXT = 256 << 30  # characters of a whole file, unpacked
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
csv.field_size_limit(MAX_LINE)


class NotANumber(UserError):
    """A value of a readable table that is missing or no finite number."""


@contextmanager
def open_text(path: Path, encoding: str = "utf-8-sig") -> Iterator[IO[str]]:
    """Open plain, .gz or .bz2 text; UserError if it cannot be decoded or unpacked."""
    opener = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix, open)
    try:
        with opener(path, "rt", encoding=encoding, newline=None) as file:
            yield file
    except csv.Error as error:
        raise UserError(f"{path}: no table that can be read ({error}); save it as plain CSV") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not a text file in UTF-8 ({error.reason}); save it as plain CSV") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path}: damaged gzip file ({error}); fetch or compress it again") from error
    except IsADirectoryError as error:
        raise UserError(f"{path} is a folder; give a file (.csv, .csv.gz or .parquet)") from error
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file; check the path") from error
    except PermissionError as error:
        raise UserError(f"{path}: cannot be read (permission denied); check its permissions") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error}); fetch or compress it again") from error


def text_chunks(
    path: Path, delimiter: str | None = ",", header: int = 0, usecols: Sequence[int] | None = None
) -> Iterator[np.ndarray]:
    """Blocks (rows, columns) of float64; blank lines are skipped; every value must be a finite number."""
    with open_text(path) as file:
        yield from line_chunks(file, path, delimiter, header, usecols)


def line_chunks(
    file: IO[str], path: Path, delimiter: str | None, header: int = 0, usecols: Sequence[int] | None = None
) -> Iterator[np.ndarray]:
    """Chunks of a text that is open already; errors call it `path`."""
    text = bounded_lines(file, path)
    lines = list(itertools.islice(text, header))
    number, names = len(lines), split_fields(lines[-1], delimiter) if lines else None
    expected, rows = len(names) if names else None, 1024
    while block := list(itertools.islice(text, rows)):
        lines = [line for line in block if line.strip()]
        if lines:
            expected = expected or len(split_fields(lines[0], delimiter))
            chunk = _parse(lines, delimiter, usecols, expected)
            yield (
                _parse_slowly(path, block, number, delimiter, usecols, expected, names)
                if chunk is None
                else chunk
            )
            rows = max(256, CHUNK_VALUES // expected)
        number += len(block)


def bounded_lines(file: IO[str], path: Path) -> Iterator[str]:
    """Lines of a text; UserError where one, or all together, have no end, as in a file made to do harm."""
    total = 0
    while line := file.readline(MAX_LINE + 1):
        total += len(line)
        if len(line) > MAX_LINE or total > MAX_TEXT:
            what = "a line" if len(line) > MAX_LINE else "the text"
            raise UserError(f"{path}: {what} has no end within {total:,} characters; it is no table")
        yield line


def _parse(
    lines: list[str], delimiter: str | None, usecols: Sequence[int] | None, expected: int
) -> np.ndarray | None:
    """numpy's fast parser; None when it refuses, or when a line or a value needs a second, slower look."""
    if usecols is not None and not all(_count(line, delimiter) == expected for line in lines):
        return None  # with usecols numpy would not notice a line of another length
    try:
        chunk = np.loadtxt(lines, delimiter=delimiter, comments=None, quotechar='"', usecols=usecols, ndmin=2)
    except ValueError:
        return None
    width = expected if usecols is None else len(usecols)
    return chunk if chunk.shape[1] == width and np.isfinite(chunk).all() else None


def _count(line: str, delimiter: str | None) -> int:
    return len(line.split()) if delimiter is None else line.count(delimiter) + 1


def _parse_slowly(
    path: Path,
    block: list[str],
    number: int,
    delimiter: str | None,
    usecols: Sequence[int] | None,
    expected: int,
    names: Sequence[str] | None,
) -> np.ndarray:
    rows = []
    for i, line in enumerate(block, start=number + 1):
        if not line.strip():
            continue
        fields = split_fields(line, delimiter)
        check_width(fields, expected, path, i)
        wanted = range(expected) if usecols is None else usecols
        rows.append([to_number(fields[j], path, i, j, names) for j in wanted])
    return np.array(rows, dtype=np.float64)


def check_width(fields: Sequence[str], expected: int, path: Path, line: int) -> None:
    if len(fields) != expected:
        raise UserError(
            f"{path}, line {line}: {len(fields)} columns where {expected} are expected; "
            "every line needs the same number of columns"
        )


def to_number(text: str, path: Path, line: int, column: int, names: Sequence[str] | None) -> float:
    """One value or an error that points at it."""
    name = f" ({names[column]!r})" if names and column < len(names) else ""
    where = f"{path}, line {line}, column {column + 1}{name}"
    try:
        value = float(text)
    except ValueError as error:
        what = "is empty" if not text.strip() else f"is {text.strip()[:40]!r}, not a number"
        if DECIMAL_COMMA.fullmatch(text.strip()):
            point = text.strip().replace(",", ".")
            raise NotANumber(f"{where} {what}: decimals are written with a point, {point}") from None
        raise NotANumber(
            f"{where} {what}; only numbers are allowed: encode, fill or drop such values "
            "(dataset.drop leaves whole columns out)"
        ) from error
    if not math.isfinite(value):
        raise NotANumber(
            f"{where} is {text.strip()}; NaN and infinite values are not allowed: fill or drop them"
        )
    return value


def split_fields(line: str, delimiter: str | None) -> list[str]:
    line = line.rstrip("\r\n")
    if delimiter is None:
        return line.split()
    return [field.strip() for field in next(csv.reader([line], delimiter=delimiter), [])]
