"""Reading records: all of them quickly, or one by its key. No pandas, no TensorFlow."""

from __future__ import annotations

import gzip
import json
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dgpbench.config.upgrade import complete
from dgpbench.store.layout import RECORD, REFERENCE, labels_of, unit_folders
from dgpbench.store.migrate import migrate
from dgpbench.store.schema import validate_record

Warn = Callable[[str], None]


@dataclass(frozen=True)
class Unit:
    """A record and the file it was read from: record.json of its folder, or a reference file."""

    record: dict
    path: Path

    @property
    def is_reference(self) -> bool:
        return self.path.name != RECORD

    @property
    def folder(self) -> Path:
        return self.path.parent


def to_stderr(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr)


def parse(text: str | bytes) -> dict:
    """A record of the current schema from its JSON, its config completed; ValueError if it is none."""
    record = json.loads(text)
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    record = migrate(record)
    validate_record(record)
    return record | {"config": complete(record["config"])}


def read_record(folder: Path) -> dict | None:
    """The record of a unit folder, None if there is none (yet); ValueError if it cannot be used."""
    try:
        return parse((folder / RECORD).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None


def find(results: str | Path, cfg: dict, key: str) -> Unit | None:
    """The unit of this config and key, whatever its status. Looks at its own folder only."""
    for folder in unit_folders(results, labels_of(cfg), key):
        try:
            record = read_record(folder)
        except ValueError:
            continue
        if record is not None and record["key"] == key:
            return Unit(record, folder / RECORD)
    return None


def find_done(results: str | Path, cfg: dict, key: str) -> Unit | None:
    """The finished unit of this config and key, or None."""
    unit = find(results, cfg, key)
    return unit if unit is not None and unit.record["status"] == "done" else None


def scan(
    results: str | Path,
    *,
    reference: bool | Sequence[Path] = True,
    traces: bool = False,
    warn: Warn = to_stderr,
) -> list[Unit]:
    """All complete records, one per key. What is incomplete is ignored, what is corrupt named in a warning.

    `reference` names the folders of reference records; true stands for that of `results`. Of several records
    with one key the first in this order stays: the user's own before reference, done before not done, the
    latest. Without `traces`, training.trace is left out: of ten thousand records it is most of the memory.
    """
    found: dict[str, Unit] = {}
    for unit in _lean(_own(Path(results), warn), traces):
        key = unit.record["key"]
        if key in found:
            unit, other = sorted((found[key], unit), key=_rank, reverse=True)
            warn(f"{other.path} has the same key as {unit.path}; it is left out")
        found[key] = unit
    folders = [Path(results) / REFERENCE] if reference is True else reference or ()
    for folder in folders:
        for unit in _lean(_reference(folder, warn), traces):
            held = found.get(unit.record["key"])
            if held is None or held.record["status"] != "done":
                found[unit.record["key"]] = unit
    return list(found.values())


def _lean(units: Iterator[Unit], traces: bool) -> Iterator[Unit]:
    for unit in units:
        if not traces:
            unit.record["training"].pop("trace", None)
        yield unit


def _rank(unit: Unit) -> tuple:
    return unit.record["status"] == "done", unit.record["finished"], str(unit.path)


def _own(results: Path, warn: Warn) -> Iterator[Unit]:
    for folder in _folders(str(results), depth=4):
        try:
            record = read_record(Path(folder))
        except (ValueError, OSError) as error:
            warn(f"{os.path.join(folder, RECORD)} cannot be read and is left out: {error}")
            continue
        if record is not None:
            yield Unit(record, Path(folder, RECORD))


def _folders(top: str, depth: int) -> Iterator[str]:
    """Folders `depth` levels below, in name order; hidden ones and the reference folder left out."""
    try:
        names = sorted(e.name for e in os.scandir(top) if e.name[0] != "." and e.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        if depth == 1:
            yield os.path.join(top, name)
        elif depth < 4 or name != REFERENCE:
            yield from _folders(os.path.join(top, name), depth - 1)


def _reference(folder: Path, warn: Warn) -> Iterator[Unit]:
    for path in sorted(folder.glob("*.jsonl.gz")):
        try:
            with gzip.open(path, "rb") as file:
                for number, line in enumerate(file, 1):
                    try:
                        yield Unit(parse(line), path)
                    except ValueError as error:
                        warn(f"{path} line {number} cannot be read and is left out: {error}")
        except (OSError, EOFError, zlib.error) as error:
            warn(f"{path} cannot be read to its end: {error}")
