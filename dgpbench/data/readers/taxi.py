"""Taxi trips of New York as public files have them: durations (nytaxi), and places of drop-offs in Manhattan.

Filters and inputs are those of bayesian_benchmarks, where the thesis' data come from: trips inside a box,
between 30 s and 3 h, that go some way. Its weekday has a period of 6, so that Sunday equals Monday.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dgpbench.data.readers.text import open_text, split_fields
from dgpbench.errors import UserError

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
