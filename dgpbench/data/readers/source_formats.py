"""Readers: a source file in, blocks of numbers out; the target column moves behind the inputs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import closing
from importlib import resources
from pathlib import Path

import numpy as np

from dgpbench.data.readers.archives import (
    bounded_zip,
    read_idx,
    read_libsvm,
    read_omniglot,
    read_zip_text,
    unpacking,
)
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


def read_events(path: Path, options: dict):
    """Rows (midpoint of a bin, events in it), the last axis running fastest.

    `bins` in each dimension; `low` and `high` are the window, the range of the events where it is not given;
    events are multiplied by `scale`. A source is text with one event a line, or, with `payload`, an array of
    little-endian float64 numbers inside some other format, of which nothing else is read.
    """
    events = _payload(path, **options["payload"]) if "payload" in options else _event_lines(path)
    events = events * options.get("scale", 1.0)
    D = events.shape[1]
    low, high = (options.get(name, getattr(events, f)()) for name, f in (("low", "min"), ("high", "max")))
    outside = ((events < low) | (events > high)).any(1)
    if outside.any():
        raise UserError(f"{path}: event {int(outside.argmax())} lies outside the window from {low} to {high}")
    edges = np.linspace(low, high, options["bins"] + 1)
    counts, _ = np.histogramdd(events, [edges] * D)
    middles = np.meshgrid(*[0.5 * (edges[1:] + edges[:-1])] * D, indexing="ij")
    yield np.column_stack([*(m.ravel() for m in middles), counts.ravel()])


def _event_lines(path: Path) -> np.ndarray:
    with open_text(path) as file:
        return np.vstack(list(line_chunks(file, path, ",", 0, None)))


def _payload(path: Path, after: str, count: int, columns: int) -> np.ndarray:
    """The count x columns numbers that follow the only occurrence of the bytes `after` (hexadecimal)."""
    content, mark = path.read_bytes(), bytes.fromhex(after)
    start = content.find(mark) + len(mark)
    size = 8 * count * columns
    if content.count(mark) != 1 or len(content) < start + size:
        raise UserError(f"{path}: {count} x {columns} numbers are not where they should be; fetch it again")
    events = np.frombuffer(content, "<f8", count * columns, start).reshape(count, columns).astype(float)
    if not np.isfinite(events).all():
        raise UserError(f"{path}: an event has no finite place; fetch it again")
    return events


FLIGHT = ("Month", "DayofMonth", "DayOfWeek", "AirTime", "Distance", "ArrTime", "DepTime", "ArrDelay")
LAST_MONTH = 4  # January to April
YEAR = 2008


def read_airline(paths: list[Path], options: dict) -> Iterator[np.ndarray]:
    """Inputs: month, day of month, day of week, age of the plane, air time, distance, arrival and departure
    time (as hours and minutes, 1435); last column: arrival delay in minutes.

    Flights with a value missing, or of a plane whose year is not known, are left out. Of the rest,
    RandomState(0) draws `rows` in random order: the first of them are there to train on.
    """
    flights, planes = paths
    built = _plane_years(planes)
    found = np.array(list(_flights(flights, built)))
    wanted = options["rows"]
    if len(found) < wanted:
        raise UserError(f"{flights}: {len(found)} complete flights where {wanted} are needed; fetch it again")
    order = np.random.RandomState(0).permutation(len(found))[:wanted]
    yield found[order]


def _plane_years(path: Path) -> dict[str, int]:
    """Year of manufacture by tail number, where the file has a plausible one."""
    years = {}
    for line in _csv_rows(path, ("tailnum", "year")):
        if line["year"] and line["year"].isdecimal() and 1900 < int(line["year"]) <= YEAR:
            years[line["tailnum"]] = int(line["year"])
    return years


def _flights(path: Path, built: dict[str, int]) -> Iterator[list[float]]:
    for line in _csv_rows(path, (*FLIGHT, "TailNum")):
        year = built.get(line["TailNum"])
        values = [line[name] for name in FLIGHT]
        if year is None or any(v in ("", "NA", None) for v in values):
            continue
        try:
            numbers = [float(v) for v in values]
        except ValueError as error:
            raise UserError(f"{path}: {error}; this is not the flights file of 2008") from error
        if numbers[0] <= LAST_MONTH:
            yield [*numbers[:3], float(YEAR - year), *numbers[3:]]


def _csv_rows(path: Path, needed: tuple[str, ...]) -> Iterator[dict[str, str]]:
    with unpacking(path), open_text(path) as file:
        reader = csv.DictReader(file)
        missing = [name for name in needed if name not in (reader.fieldnames or [])]
        if missing:
            raise UserError(f"{path}: no column {missing[0]!r} in the header; this is not the file we know")
        yield from reader


BLOCK = 100_000
LONGITUDE, LATITUDE, NEAR, SECONDS = (-74.04, -73.75), (40.62, 40.86), 1e-5, (30, 3 * 3600)
KAGGLE = ("pickup_datetime", "dropoff_datetime")
PLACES = ("pickup_longitude", "pickup_latitude", "dropoff_longitude", "dropoff_latitude")
HEADERS = (  # of Kaggle and of the months 2010 to 2014, of 2015 and 2016, of 2009
    (*KAGGLE, *PLACES),
    (*(f"tpep_{name}" for name in KAGGLE), *PLACES),
    ("trip_pickup_datetime", "trip_dropoff_datetime", "start_lon", "start_lat", "end_lon", "end_lat"),
)
MANHATTAN = np.array(  # longitude, latitude of the corners
    [
        (-74.01486074610608, 40.69789456740636),
        (-73.98945486231702, 40.70674394137351),
        (-73.97640859766858, 40.70934647466638),
        (-73.96816885157483, 40.73848789840274),
        (-73.93795644923108, 40.77593669289899),
        (-73.92971670313733, 40.79205398220305),
        (-73.89675771876233, 40.80245015761007),
        (-73.93177663966077, 40.81544308727557),
        (-73.95374929591077, 40.82531601230209),
        (-73.99838125391858, 40.77125674729456),
        (-74.01280080958264, 40.74525104688661),
        (-74.02104055567643, 40.70049744650249),
    ]
)


def read_nytaxi(path: Path, options: dict) -> Iterator[np.ndarray]:
    """Kaggle's nyc-taxi-trip-duration train.csv.

    Inputs: pick-up and drop-off longitude and latitude, sine and cosine of the weekday and of the time of
    day. Target: seconds from pick-up to drop-off.
    """
    for cells in _blocks(path, HEADERS[:1]):
        place, times, seconds, keep = _trips(path, cells)
        yield np.hstack([place, times, seconds[:, None]])[keep]


def read_taxi_places(path: Path, options: dict) -> Iterator[np.ndarray]:
    """Trips that begin and end in Manhattan, of Kaggle's file or of a month of the city's yellow taxis.

    Inputs: pick-up longitude and latitude, sine and cosine of the weekday and of the time of day. Targets,
    last: drop-off longitude and latitude.
    """
    seen = kept = 0
    for cells in _blocks(path, HEADERS):
        place, times, _, keep = _trips(path, cells)
        keep &= inside(place[:, :2]) & inside(place[:, 2:])
        seen, kept = seen + len(keep), kept + int(keep.sum())
        yield np.hstack([place[:, :2], times, place[:, 2:]])[keep]
    if not kept:
        raise UserError(
            f"{path}: none of its {seen} trips begins and ends in Manhattan; are longitudes (near -74) and "
            "latitudes (near 41) in their columns?"
        )


def inside(place: np.ndarray, corners: np.ndarray = MANHATTAN) -> np.ndarray:
    """Whether places (N, 2) lie in a polygon: a ray to the east crosses its border an odd number of times."""
    x, y = place[:, 0], place[:, 1]
    odd = np.zeros(len(place), dtype=bool)
    for (ax, ay), (bx, by) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        if ay != by:
            crosses = (ay > y) != (by > y)
            odd ^= crosses & (x < ax + (y - ay) * (bx - ax) / (by - ay))
    return odd


def _blocks(path: Path, headers: tuple) -> Iterator[np.ndarray]:
    """Blocks (rows, 6) of text: the columns of the first header that the file has."""
    with open_text(path) as file:
        names = [name.strip().lower() for name in split_fields(file.readline(), ",")]
        found = next((header for header in headers if set(header) <= set(names)), None)
        if found is None:
            missing = next(name for name in headers[0] if name not in names)
            told = "this is not the taxi train.csv"
            if len(headers) > 1:
                told = "neither the taxi train.csv nor a month of yellow taxis"
            if "pulocationid" in names:
                told = "this month has zones in place of places: take one of January 2009 to June 2016"
            raise UserError(f"{path}: no column {missing!r} in the header; {told}")
        at, block = [names.index(name) for name in found], []
        for number, line in enumerate(file, start=2):
            fields = line.rstrip("\r\n").split(",")
            if len(fields) == len(names) or (len(fields) > len(names) and not any(fields[len(names) :])):
                block.append([fields[i].strip() for i in at])
            elif line.strip():
                raise UserError(
                    f"{path}, line {number}: {len(fields)} columns where {len(names)} are expected"
                )
            if len(block) == BLOCK:
                yield np.array(block)
                block = []
        if block:
            yield np.array(block)


def _trips(path: Path, cells: np.ndarray) -> tuple[np.ndarray, ...]:
    """Places (N, 4), times (N, 4), seconds (N,) and which trips are kept; no coordinates: not kept."""
    blank = (cells[:, 2:] == "").any(axis=1)
    try:
        pickup, dropoff = (cells[:, i].astype("datetime64[s]") for i in (0, 1))
        place = np.where(cells[:, 2:] == "", "0", cells[:, 2:]).astype(np.float64)
    except ValueError as error:
        raise UserError(f"{path}: a date or a coordinate cannot be read ({error})") from error
    seconds = (dropoff - pickup).astype(np.int64).astype(np.float64)
    lon, lat = place[:, [0, 2]], place[:, [1, 3]]
    (west, east), (south, north) = LONGITUDE, LATITUDE
    keep = ((lon >= west) & (lon <= east) & (lat >= south) & (lat <= north)).all(axis=1) & ~blank
    keep &= (place[:, 0] - place[:, 2]) ** 2 + (place[:, 1] - place[:, 3]) ** 2 >= NEAR
    keep &= (seconds >= SECONDS[0]) & (seconds <= SECONDS[1])
    day = pickup.astype("datetime64[D]")
    weekday = (day.astype(np.int64) + 3) % 7  # 1970-01-01 was a Thursday; Monday is 0
    minute = (pickup - day).astype(np.int64) // 60
    week, clock = 2 * np.pi * weekday / 6, 2 * np.pi * minute / (24 * 60)
    times = np.stack([np.sin(week), np.cos(week), np.sin(clock), np.cos(clock)], axis=1)
    return place, times, seconds, keep


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
