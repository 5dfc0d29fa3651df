"""Readers: a source file in, blocks of numbers out; the target column moves behind the inputs."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing
from importlib import resources
from pathlib import Path

import numpy as np

from dgpbench.data.readers.airline import read_airline
from dgpbench.data.readers.archives import bounded_zip, read_idx, read_libsvm, read_zip_text, unpacking
from dgpbench.data.readers.events import read_events
from dgpbench.data.readers.images import read_omniglot
from dgpbench.data.readers.taxi import read_nytaxi, read_taxi_places
from dgpbench.data.readers.text import line_chunks, open_text, text_chunks
from dgpbench.errors import UserError

Rows = Iterator[np.ndarray]  # blocks (rows, columns)


def read_text(path: Path, options: dict) -> Rows:
    """Delimited text below `header` lines of names, or below `skip` lines of anything."""
    with open_text(path) as file:
        for _ in range(options.get("skip", 0)):
            file.readline()
        yield from line_chunks(
            file, path, options.get("delimiter", ","), options.get("header", 0), options.get("usecols")
        )


def read_space(path: Path, options: dict) -> Rows:
    yield from text_chunks(path, None, options.get("header", 0))


def read_xlsx(path: Path, options: dict) -> Rows:
    """One sheet below its header row; empty rows at the end of the sheet are not data."""
    import openpyxl

    with unpacking(path):
        bounded_zip(path).close()
        with closing(openpyxl.load_workbook(path, read_only=True, data_only=True)) as book:
            sheet = book[book.sheetnames[options.get("sheet", 0)]]
            cells = (row[: options["columns"]] for row in sheet.iter_rows(min_row=2, values_only=True))
            rows = [row for row in cells if any(v is not None for v in row)]
    yield _numbers(path, rows)


def read_xls(path: Path, options: dict) -> Rows:
    import xlrd

    with unpacking(path):
        sheet = xlrd.open_workbook(path, logfile=io.StringIO()).sheet_by_index(options.get("sheet", 0))
        rows = [sheet.row_values(i, 0, options["columns"]) for i in range(1, sheet.nrows)]
    yield _numbers(path, rows)


def _numbers(path: Path, rows: list) -> np.ndarray:
    try:
        numbers = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UserError(f"{path}: a cell is not a number ({error}); fetch the file again") from error
    if numbers.ndim != 2 or not numbers.size:
        raise UserError(f"{path}: the sheet has no rows below its header; fetch the file again")
    return numbers


def read_npz(path: Path, options: dict) -> Rows:
    """Arrays X and Y of a numpy archive (never pickled objects)."""
    with unpacking(path):
        bounded_zip(path).close()
        with np.load(path, allow_pickle=False) as archive:
            rows = np.hstack([archive["X"], archive["Y"]]).astype(np.float64)
    yield rows


def read_centred(path: Path, options: dict) -> Rows:
    """Raw UCI rows brought to the prepared form of the Wilson collection, bit for bit.

    That collection permutes the rows, subtracts column means and keeps five significant digits. The
    permutation is stored with the package; the result is checked against the catalogue's data hash.
    """
    raw = np.vstack(list(read_text(path, options)))
    with resources.files("dgpbench.data").joinpath("orders", options["order"]).open() as file:
        order = np.loadtxt(file, dtype=int)
    centred = raw - raw.mean(axis=0)
    yield np.array([[float(f"{v:.5g}") for v in row] for row in centred])[order]


READERS = {  # of one file at a time
    "text": read_text,
    "space": read_space,
    "xlsx": read_xlsx,
    "xls": read_xls,
    "npz": read_npz,
    "centred": read_centred,
    "nytaxi": read_nytaxi,
    "taxi_places": read_taxi_places,
    "zip_text": read_zip_text,
    "libsvm": read_libsvm,
    "events": read_events,
}
TOGETHER = {
    "idx": read_idx,
    "airline": read_airline,
    "omniglot": read_omniglot,
}  # of all files of a source at once


def read_rows(reader: str, files: list[Path], options: dict) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Blocks (X, Y) of all files in order. Options `target` (default: last column) and `drop` are 0-based;
    `targets` counts several at the end; `relabel` maps labels to others."""
    if reader in TOGETHER:
        chunks = TOGETHER[reader]([Path(path) for path in files], options)
    else:
        chunks = (chunk for path in files for chunk in READERS[reader](Path(path), options))
    for chunk in chunks:
        if several := options.get("targets"):
            yield chunk[:, :-several], chunk[:, -several:]
            continue
        target = options.get("target", -1) % chunk.shape[1]
        out = {target, *options.get("drop", [])}
        keep = [i for i in range(chunk.shape[1]) if i not in out]
        yield chunk[:, keep], _relabelled(chunk[:, [target]], options.get("relabel"), files[0])


def _relabelled(labels: np.ndarray, relabel: dict | None, path: Path) -> np.ndarray:
    """Labels after a merge of classes; each label of the source must have its new one."""
    if relabel is None:
        return labels
    unknown = set(np.unique(labels)) - set(relabel)
    if unknown:
        raise UserError(f"{path}: label {unknown.pop():g} where {', '.join(map(str, relabel))} are expected")
    return np.vectorize(relabel.get, otypes=[np.float64])(labels)
