"""Flight delays of 2008 as in Hensman et al. (2013), from the Data Expo 2009 files."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dgpbench.data.readers.archives import unpacking
from dgpbench.data.readers.text import open_text
from dgpbench.errors import UserError

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
    for line in _lines(path, ("tailnum", "year")):
        if line["year"] and line["year"].isdecimal() and 1900 < int(line["year"]) <= YEAR:
            years[line["tailnum"]] = int(line["year"])
    return years


def _flights(path: Path, built: dict[str, int]) -> Iterator[list[float]]:
    for line in _lines(path, (*FLIGHT, "TailNum")):
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


def _lines(path: Path, needed: tuple[str, ...]) -> Iterator[dict[str, str]]:
    with unpacking(path), open_text(path) as file:
        reader = csv.DictReader(file)
        missing = [name for name in needed if name not in (reader.fieldnames or [])]
        if missing:
            raise UserError(f"{path}: no column {missing[0]!r} in the header; this is not the file we know")
        yield from reader
