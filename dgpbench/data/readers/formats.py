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
from dgpbench.data.readers.text import line_chunks, open_text, split_fields, text_chunks
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


_TAXI = {"longitude": (-74.04, -73.75), "latitude": (40.62, 40.86), "near": 1e-5, "seconds": (30, 3 * 3600)}


def read_nytaxi(path: Path, options: dict) -> Rows:
    """Kaggle's nyc-taxi-trip-duration train.csv with the filter of bayesian_benchmarks.

    Inputs: pick-up and drop-off longitude and latitude, sine and cosine of the weekday and of the time of
    day. Target: seconds from pick-up to drop-off. Left out: trips outside the box, almost without
    distance, shorter than 30 s or longer than 3 h. The weekday is scaled by 6, so Sunday equals Monday.
    """
    with open_text(path) as file:
        names = split_fields(file.readline(), ",")
        wanted = [
            "pickup_datetime",
            "dropoff_datetime",
            "pickup_longitude",
            "pickup_latitude",
            "dropoff_longitude",
            "dropoff_latitude",
        ]
        missing = [w for w in wanted if w not in names]
        if missing:
            raise UserError(f"{path}: no column {missing[0]!r} in the header; this is not the taxi train.csv")
        at, block = [names.index(w) for w in wanted], []
        for number, line in enumerate(file, start=2):
            fields = line.rstrip("\r\n").split(",")
            if len(fields) == len(names):
                block.append([fields[i] for i in at])
            elif line.strip():
                raise UserError(
                    f"{path}, line {number}: {len(fields)} columns where {len(names)} are expected"
                )
            if len(block) == 100_000:
                yield _taxi_rows(path, block)
                block = []
        if block:
            yield _taxi_rows(path, block)


def _taxi_rows(path: Path, block: list) -> np.ndarray:
    cells = np.array(block)
    try:
        pickup, dropoff = (cells[:, i].astype("datetime64[s]") for i in (0, 1))
        place = cells[:, 2:].astype(np.float64)
    except ValueError as error:
        raise UserError(f"{path}: a date or a coordinate cannot be read ({error})") from error
    seconds = (dropoff - pickup).astype(np.int64).astype(np.float64)
    (west, east), (south, north) = _TAXI["longitude"], _TAXI["latitude"]
    lon, lat = place[:, [0, 2]], place[:, [1, 3]]
    inside = ((lon >= west) & (lon <= east) & (lat >= south) & (lat <= north)).all(axis=1)
    apart = (place[:, 0] - place[:, 2]) ** 2 + (place[:, 1] - place[:, 3]) ** 2 >= _TAXI["near"]
    keep = inside & apart & (seconds >= _TAXI["seconds"][0]) & (seconds <= _TAXI["seconds"][1])
    day = pickup.astype("datetime64[D]")
    weekday = (day.astype(np.int64) + 3) % 7  # 1970-01-01 was a Thursday; Monday is 0
    minute = (pickup - day).astype(np.int64) // 60
    week, clock = 2 * np.pi * weekday / 6, 2 * np.pi * minute / (24 * 60)
    times = np.stack([np.sin(week), np.cos(week), np.sin(clock), np.cos(clock)], axis=1)
    return np.hstack([place, times, seconds[:, None]])[keep]


READERS = {  # of one file at a time
    "text": read_text,
    "space": read_space,
    "xlsx": read_xlsx,
    "xls": read_xls,
    "npz": read_npz,
    "centred": read_centred,
    "nytaxi": read_nytaxi,
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
    `relabel` maps labels to others."""
    if reader in TOGETHER:
        chunks = TOGETHER[reader]([Path(path) for path in files], options)
    else:
        chunks = (chunk for path in files for chunk in READERS[reader](Path(path), options))
    for chunk in chunks:
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
