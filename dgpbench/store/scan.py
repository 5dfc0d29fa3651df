"""Read records: all of them, or one by its key or folder. No pandas, no TensorFlow.

Packed files that were read before without traces come from the user's cache folder (DGPBENCH_CACHE), in a
fifth of the time. A cache entry is found by the bytes of the packed file and the source of `store` and
`config`.
Damaged entries and entries that another user owns or may write are ignored.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from dgpbench.config.derived import is_trial
from dgpbench.config.keys import complete
from dgpbench.errors import UserError
from dgpbench.machine import cache_folder, read_cached, write_cached
from dgpbench.store.layout import COMMUNITY, DAMAGED, PACKED, RECORD, labels_of, results_folder, unit_folders
from dgpbench.store.record import (
    CHECKSUM,
    CHECKSUM_SINCE,
    SCHEMA_VERSION,
    NewerRecord,
    Record,
    checksum_fits,
    migrate,
    validate_record,
)
from dgpbench.store.untrusted import MAX_BYTES, open_regular, parse_json, read_regular

Warn = Callable[[str], None]
BAD_LINES = 1000  # after so many nothing more is read: a small .gz can hold lines without end
RECOMPUTED = "submit: metrics recomputed from predictions"  # a note that `submit` gives
CACHE_NAME = "records"
CACHED_FILES = 24  # packed files that stay known
CACHE_LEAST = 50_000  # bytes; smaller files are read as quickly
KEY = re.compile(r"[0-9a-f]{4,64}")
HOW = "give a run's folder, its record.json, or the key that `dgpbench show --each` lists"
_TRACE = re.compile(rb'"trace": \[\[[-+0-9eE., \[\]nul]*\]\]')  # as we write it: numbers, null and brackets


@dataclass(frozen=True)
class Unit:
    """A record and its file: record.json in the folder of its run, or a packed file."""

    record: Record
    path: Path

    @property
    def is_reference(self) -> bool:
        return self.path.name != RECORD

    @property
    def is_community(self) -> bool:
        """Whether the record was submitted by others: checked for consistency, but not run again."""
        return self.is_reference and self.path.parent.name == COMMUNITY

    @property
    def is_recomputed(self) -> bool:
        """Whether `submit` computed the metrics again from predictions."""
        return RECOMPUTED in self.record.notes

    @property
    def folder(self) -> Path:
        return self.path.parent


def to_stderr(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr)


def parse(content: bytes, traces: bool = True) -> Record:
    """Return the record in a JSON text, in the current schema and with a complete config.

    Without `traces`, training.trace is dropped, and its numbers, most of the text, are not read. Raise
    ValueError if the text is not a record, or was changed after it was written.
    """
    found = parse_json(content if traces else _TRACE.sub(b'"trace": []', content))
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")
    version = found.get("schema")
    if type(version) is int and version >= CHECKSUM_SINCE:
        found.pop(CHECKSUM, None)
        if version <= SCHEMA_VERSION and not checksum_fits(content):
            raise ValueError("its checksum does not fit: it was changed after it was written")
    elif CHECKSUM in found:
        raise ValueError(f"it has a checksum, and says it is of schema {version}, which had none")
    record = validate_record(migrate(found))
    if not traces:
        record.training.pop("trace", None)
    return replace(record, config=complete(record.config))


def read_record(folder: Path, traces: bool = True) -> Record | None:
    """Return the record in a run's folder, None if there is none; raise ValueError if it cannot be used."""
    try:
        return parse(read_regular(folder / RECORD), traces)
    except (FileNotFoundError, NotADirectoryError):
        return None


def find(results: str | Path, cfg: dict, key: str) -> Unit | None:
    """Return the unit of this config and key, whatever its status.

    Only the unit's own folders are read. A damaged record counts as missing. A record of a newer
    dgpbench raises UserError.
    """
    for folder in unit_folders(results, labels_of(cfg), key):
        try:
            record = read_record(folder)
        except NewerRecord as error:
            raise newer_error(folder, error) from None
        except ValueError:
            continue
        if record is not None and record.key == key:
            return Unit(record, folder / RECORD)
    return None


def newer_error(folder: Path, error: NewerRecord) -> UserError:
    """Return the error that a run or a merge ends with instead of replacing a newer record."""
    return UserError(f"{folder / RECORD}: {error}, or choose another folder with paths.results=DIR")


def find_done(results: str | Path, cfg: dict, key: str) -> Unit | None:
    """Return the finished unit of this config and key, or None."""
    unit = find(results, cfg, key)
    return unit if unit is not None and unit.record.done else None


def scan(
    results: str | Path,
    *,
    reference: bool | Sequence[Path] = True,
    traces: bool = False,
    trials: bool = False,
    warn: Warn = to_stderr,
) -> list[Unit]:
    """Return all complete records, one per key, and warn about each that cannot be read.

    Parameters
    ----------
    results : path
    reference : bool or sequence of Path, default=True
        Folders of packed records; True means those in `results`.
    traces : bool, default=False
        Read training.trace too, which is most of the memory of ten thousand records.
    trials : bool, default=False
        Include the trials of `dgpbench tune`, which have no test metrics.
    warn : callable

    Returns
    -------
    list of Unit
        Of several records with one key: done before not done, then the user's own before packed ones. Of the
        user's own the latest, of packed ones the first by folder and file.
    """
    found: dict[str, Unit] = {}
    for unit in scan_own(results, warn, traces):
        key = unit.record.key
        if key in found:
            unit, other = sorted((found[key], unit), key=_rank, reverse=True)
            warn(f"{other.path} has the same key as {unit.path}; it is left out")
        found[key] = unit
    folders = [Path(results) / name for name in PACKED] if reference is True else reference or ()
    for folder in folders:
        for unit in packed_units(folder, warn, traces):
            held = found.get(unit.record.key)
            if held is None or not held.record.done:
                found[unit.record.key] = unit
    return [unit for unit in found.values() if trials or not is_trial(unit.record.config)]


def _rank(unit: Unit) -> tuple:
    return unit.record.done, unit.record.finished, str(unit.path)


def scan_own(results: str | Path, warn: Warn = to_stderr, traces: bool = True) -> Iterator[Unit]:
    """Yield every record of the user's own that can be read."""
    for folder in folders(results, warn):
        try:
            record = read_record(folder, traces)
        except (ValueError, OSError) as error:
            warn(f"{folder / RECORD} cannot be read and is left out: {error}")
            continue
        if record is not None:
            yield Unit(record, folder / RECORD)


def damaged_records(results: str | Path) -> int:
    """Count the damaged records that a rerun has set aside."""
    return sum(1 for folder in folders(results) for _ in folder.glob(f"{RECORD}{DAMAGED}*"))


def folders(results: str | Path, warn: Warn = to_stderr, depth: int = 4) -> Iterator[Path]:
    """Yield the folders of runs, `depth` levels below `results`, in name order.

    Hidden folders and those of packed records are skipped.
    """
    try:
        names = sorted(e.name for e in os.scandir(results) if e.name[0] != "." and e.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        warn(f"{results} cannot be read and is left out: {error.strerror}")
        return
    for name in names:
        if depth == 1:
            yield Path(results, name)
        elif depth < 4 or name not in PACKED:
            yield from folders(Path(results, name), warn, depth - 1)


def packed_units(folder: Path, warn: Warn = to_stderr, traces: bool = True) -> Iterator[Unit]:
    """Yield the records of all .jsonl.gz files in a folder."""
    for path in sorted(folder.glob("*.jsonl.gz")):
        if not traces and (known := _cached(path)) is not None:
            yield from (Unit(record, path) for record in known)
            continue
        bad: list[str] = []
        read: list[Record] = []
        try:
            for number, line in enumerate(packed_lines(path), 1):
                try:
                    record = parse(line, traces)
                except ValueError as error:
                    bad.append(f"line {number} cannot be read and is left out: {error}")
                    if len(bad) == BAD_LINES:
                        raise ValueError(f"{BAD_LINES:,} of its lines are no records") from None
                    continue
                read.append(record)
                yield Unit(record, path)
            if not traces and not bad:
                _cache(path, read)
        except (OSError, EOFError, ValueError, zlib.error) as error:
            warn(f"{path} cannot be read to its end: {error}")
        if bad:
            warn(f"{path} {bad[0]}" + (f" (and {len(bad) - 1:,} more lines)" if bad[1:] else ""))


def packed_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a gzip file, each of bounded length."""
    with os.fdopen(open_regular(path), "rb") as raw, gzip.open(raw, "rb") as file:
        while line := file.readline(MAX_BYTES + 1):
            if len(line) > MAX_BYTES:
                raise ValueError(f"a line is longer than {MAX_BYTES >> 20} MB")
            yield line


def _cached(path: Path) -> list[Record] | None:
    """Return the cached records of a packed file; their nested sections are shared."""
    place = _cache_file(path)
    found: Any = read_cached(place, CACHE_NAME) if place else None
    try:
        configs, records = found["configs"], found["records"]
        return [
            Record(**record, config={**configs[number], "split": record["split"], "seed": record["seed"]})
            for number, record in records
        ]
    except (TypeError, KeyError, IndexError, ValueError):
        return None


def _cache(path: Path, records: Sequence[Record]) -> None:
    """Cache the records of a packed file, each config once for all its splits and seeds."""
    place = _cache_file(path)
    if place is None:
        return
    numbers: dict[str, int] = {}
    configs: list[dict] = []
    kept: list[list] = []
    for record in records:
        shared = {name: part for name, part in record.config.items() if name not in ("split", "seed")}
        text = json.dumps(shared)
        if text not in numbers:
            numbers[text] = len(configs)
            configs.append(shared)
        kept.append([numbers[text], {name: part for name, part in record.items() if name != "config"}])
    write_cached(place, CACHE_NAME, {"configs": configs, "records": kept}, CACHED_FILES)


def _cache_file(path: Path) -> Path | None:
    base = cache_folder()
    try:
        if base is None or path.is_symlink() or path.stat().st_size < CACHE_LEAST:
            return None
        digest = hashlib.sha256(_source() + hashlib.sha256(path.read_bytes()).digest())
    except OSError:
        return None
    return base / f"{CACHE_NAME}-{digest.hexdigest()[:32]}.json"


@lru_cache(maxsize=1)
def _source() -> bytes:
    """Return the digest of the code that decides what a record is."""
    digest, package = hashlib.sha256(), Path(__file__).resolve().parent.parent
    for part in ("store", "config"):
        for file in sorted((package / part).glob("*.py")):
            digest.update(file.read_bytes())
    return digest.digest()


def locate(run: str | Path, results: str | Path | None = None) -> Unit:
    """Return the finished run of a folder, a record.json or the first digits of a key.

    Raises
    ------
    UserError
        If there is no such run, or several, or it has not finished.
    """
    path = Path(run).expanduser()
    folder = path.parent if path.name == RECORD else path
    if folder.is_dir():
        return _finished(_in_folder(folder))
    if not KEY.fullmatch(str(run)):
        raise UserError(f"no run {run}; {HOW}")
    where = results_folder(results)
    found = scan(where, reference=False, traces=True, trials=True)
    units = [unit for unit in found if unit.record.key.startswith(str(run))]
    if not units:
        raise UserError(f"no run in {where} has a key that begins with {run}; {HOW}")
    if len(units) > 1:
        raise UserError(f"{len(units)} runs in {where} have a key that begins with {run}; give more digits")
    return _finished(units[0])


def _in_folder(folder: Path) -> Unit:
    try:
        record = read_record(folder)
    except ValueError as error:
        raise UserError(f"{folder / RECORD} cannot be read: {error}") from None
    if record is None:
        raise UserError(f"{folder} holds no {RECORD}; {HOW}")
    return Unit(record, folder / RECORD)


def _finished(unit: Unit) -> Unit:
    if not unit.record.done:
        reason = unit.record.reason or "no reason recorded"
        raise UserError(
            f"{unit.path} is {unit.record.status} ({reason}); run it again to have a fitted model"
        )
    return unit
