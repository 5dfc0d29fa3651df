"""Reading records: all of them quickly, or one by its key. No pandas, no TensorFlow."""

from __future__ import annotations

import gzip
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dgpbench.config.derived import is_trial
from dgpbench.config.keys import complete
from dgpbench.errors import UserError
from dgpbench.store import index, seal
from dgpbench.store.layout import COMMUNITY, DAMAGED, PACKED, RECORD, labels_of, unit_folders
from dgpbench.store.migrate import NewerRecord, migrate
from dgpbench.store.schema import SCHEMA_VERSION, validate_record
from dgpbench.store.untrusted import MAX_BYTES, open_regular, parse_json, read_regular

Warn = Callable[[str], None]
BAD_LINES = 1000  # after so many nothing more is read: a small .gz can hold lines without end
RECOMPUTED = "submit: metrics recomputed from predictions"  # a note that `submit` gives
_TRACE = re.compile(rb'"trace": \[\[[-+0-9eE., \[\]nul]*\]\]')  # as we write it: numbers, null and brackets


@dataclass(frozen=True)
class Unit:
    """A record and the file it was read from: record.json of its folder, or a reference file."""

    record: dict
    path: Path

    @property
    def is_reference(self) -> bool:
        return self.path.name != RECORD

    @property
    def is_community(self) -> bool:
        """True for a record of others: consistent, not run again."""
        return self.is_reference and self.path.parent.name == COMMUNITY

    @property
    def is_recomputed(self) -> bool:
        """Whether a record of others says that its metrics were computed again from its predictions."""
        return RECOMPUTED in self.record["notes"]

    @property
    def folder(self) -> Path:
        return self.path.parent


def to_stderr(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr)


def parse(content: bytes, traces: bool = True) -> dict:
    """A record of the current schema from its JSON, its config completed; ValueError if it is none, or was
    changed since. Without `traces`, training.trace is left out, and its numbers, most of the text, unread."""
    record = parse_json(content if traces else _TRACE.sub(b'"trace": []', content))
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    version = record.get("schema")
    if type(version) is int and version >= seal.SEALED_SINCE:
        record.pop(seal.NAME, None)
        if version <= SCHEMA_VERSION and not seal.fits(content):
            raise ValueError("its checksum does not fit: it was changed after it was written")
    elif seal.NAME in record:
        raise ValueError(f"it has a checksum, and says it is of schema {version}, which had none")
    record = migrate(record)
    validate_record(record)
    if not traces:
        record["training"].pop("trace", None)
    return record | {"config": complete(record["config"])}


def read_record(folder: Path, traces: bool = True) -> dict | None:
    """The record of a unit folder, None if there is none (yet); ValueError if it cannot be used."""
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
        if record is not None and record["key"] == key:
            return Unit(record, folder / RECORD)
    return None


def newer_error(folder: Path, error: NewerRecord) -> UserError:
    """Return the error that a run or a merge ends with instead of replacing a newer record."""
    return UserError(f"{folder / RECORD}: {error}, or choose another folder with paths.results=DIR")


def find_done(results: str | Path, cfg: dict, key: str) -> Unit | None:
    """The finished unit of this config and key, or None."""
    unit = find(results, cfg, key)
    return unit if unit is not None and unit.record["status"] == "done" else None


def scan(
    results: str | Path,
    *,
    reference: bool | Sequence[Path] = True,
    traces: bool = False,
    trials: bool = False,
    warn: Warn = to_stderr,
) -> list[Unit]:
    """All complete records, one per key. What is incomplete is ignored, what is corrupt named in a warning.

    `reference` names the folders of reference records; true stands for those of `results`. Of several records
    with one key the first in this order stays: done before not done, the user's own before reference; of
    the user's own the latest, of reference the first in order of folders and files. Without `traces`,
    training.trace is left out: of ten thousand records it is most of the memory.
    Without `trials`, those of `dgpbench tune` are left out: they have no test metrics and stand beside no
    others.
    """
    found: dict[str, Unit] = {}
    for unit in scan_own(results, warn, traces):
        key = unit.record["key"]
        if key in found:
            unit, other = sorted((found[key], unit), key=_rank, reverse=True)
            warn(f"{other.path} has the same key as {unit.path}; it is left out")
        found[key] = unit
    folders = [Path(results) / name for name in PACKED] if reference is True else reference or ()
    for folder in folders:
        for unit in packed_units(folder, warn, traces):
            held = found.get(unit.record["key"])
            if held is None or held.record["status"] != "done":
                found[unit.record["key"]] = unit
    return [unit for unit in found.values() if trials or not is_trial(unit.record["config"])]


def _rank(unit: Unit) -> tuple:
    return unit.record["status"] == "done", unit.record["finished"], str(unit.path)


def scan_own(results: str | Path, warn: Warn = to_stderr, traces: bool = True) -> Iterator[Unit]:
    """The user's own records, every one that can be read."""
    for folder in folders(results, warn):
        try:
            record = read_record(Path(folder), traces)
        except (ValueError, OSError) as error:
            warn(f"{os.path.join(folder, RECORD)} cannot be read and is left out: {error}")
            continue
        if record is not None:
            yield Unit(record, Path(folder, RECORD))


def damaged_records(results: str | Path) -> int:
    """Count the damaged records that a rerun has set aside."""
    return sum(1 for folder in folders(results) for _ in Path(folder).glob(f"{RECORD}{DAMAGED}*"))


def folders(results: str | Path, warn: Warn = to_stderr) -> Iterator[str]:
    """The folders in which units lie, in name order."""
    return _folders(str(results), 4, warn)


def _folders(top: str, depth: int, warn: Warn) -> Iterator[str]:
    """Folders `depth` levels below, in name order; hidden ones and those of packed records left out."""
    try:
        names = sorted(e.name for e in os.scandir(top) if e.name[0] != "." and e.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        warn(f"{top} cannot be read and is left out: {error.strerror}")
        return
    for name in names:
        if depth == 1:
            yield os.path.join(top, name)
        elif depth < 4 or name not in PACKED:
            yield from _folders(os.path.join(top, name), depth - 1, warn)


def packed_units(folder: Path, warn: Warn = to_stderr, traces: bool = True) -> Iterator[Unit]:
    """The records of all .jsonl.gz files in a folder."""
    for path in sorted(folder.glob("*.jsonl.gz")):
        if not traces and (known := index.recall(path)) is not None:
            yield from (Unit(record, path) for record in known)
            continue
        bad: list[str] = []
        read: list[dict] = []
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
                index.remember(path, read)
        except (OSError, EOFError, ValueError, zlib.error) as error:
            warn(f"{path} cannot be read to its end: {error}")
        if bad:
            warn(f"{path} {bad[0]}" + (f" (and {len(bad) - 1:,} more lines)" if bad[1:] else ""))


def packed_lines(path: Path) -> Iterator[bytes]:
    """Lines of a gzip file, each of bounded length."""
    with os.fdopen(open_regular(path), "rb") as raw, gzip.open(raw, "rb") as file:
        while line := file.readline(MAX_BYTES + 1):
            if len(line) > MAX_BYTES:
                raise ValueError(f"a line is longer than {MAX_BYTES >> 20} MB")
            yield line
