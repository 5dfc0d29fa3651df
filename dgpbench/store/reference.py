"""Compressed records that travel with the project: results/reference/*.jsonl.gz."""

from __future__ import annotations

import fcntl
import gzip
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from dgpbench.errors import UserError
from dgpbench.store.record import Record, dumps_line
from dgpbench.store.scan import Unit, packed_lines, parse

TRACE = 60  # points of a published trace
NO_PATHS: dict[str, Any] = {"results": "results", "datasets": "datasets", "mirror": None, "config_dirs": []}


def export(units: Iterable[Unit], path: str | Path) -> int:
    """Write records, one JSON line each, in the order of their keys; return how many.

    The folders of their machine and the companions are omitted. The bytes depend on the records alone.
    """
    path = Path(path)
    records = sorted((unit.record for unit in units), key=lambda record: record.key)
    temporary = path.with_name(f".tmp-{os.getpid()}-{path.name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(temporary, "wb") as raw:
            with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
                for record in records:
                    file.write(dumps_line(portable(record)).encode())
            raw.flush()
            os.fsync(raw.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return len(records)


def portable(record: Record) -> Record:
    """Return a record without the folders of its machine and without companions."""
    return replace(record, config={**record.config, "paths": NO_PATHS}, files={})


def publish(units: Iterable[Unit], path: str | Path, anew: bool = False) -> int:
    """Add records to a reference file, with thinned traces; return how many are new there.

    A record in the file is replaced if it is not done and the new one of its key is, or always with `anew`.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _alone(path.parent):
        held = {unit.record.key: unit for unit in load(path)}
        new = {}
        for unit in units:
            standing = held.get(unit.record.key)
            if anew or standing is None or (not standing.record.done and unit.record.done):
                new[unit.record.key] = Unit(thinned(unit.record), unit.path)
        if new:
            export((held | new).values(), path)
    return len(new)


def thinned(record: Record) -> Record:
    """Return a record with at most TRACE points of its trace, evenly chosen, with the first and the last."""
    trace = record.training.get("trace") or []
    if len(trace) <= TRACE:
        return record
    kept = [trace[round(i * (len(trace) - 1) / (TRACE - 1))] for i in range(TRACE)]
    return replace(record, training={**record.training, "trace": kept})


def load(path: str | Path) -> list[Unit]:
    """Return all records of a packed file, none if it is missing; raise UserError if one cannot be read."""
    path = Path(path)
    units = []
    try:
        for line in packed_lines(path):
            units.append(Unit(parse(line), path))
    except FileNotFoundError:
        pass
    except (OSError, EOFError, ValueError, zlib.error) as error:
        where = f"record {len(units) + 1} of {path}"
        raise UserError(f"{where} cannot be read ({error}); restore the file, or make it again") from None
    return units


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock a folder, so that no other process adds to a file between reading and replacing it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
