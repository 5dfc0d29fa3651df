"""Writing a unit so that a reader sees all of it or nothing, whatever dies and whoever else writes.

Companions are written to temporary names, fsynced and renamed; record.json comes last and carries their
sha256: that rename is what "finished" means. Companions of a record that is replaced stay until then, the new
ones beside them under a second name. A lock around the renames keeps the files of two writers of one unit
from being mixed; it is released by the system when its holder dies.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dgpbench.errors import UserError
from dgpbench.store.deep import COMPANIONS, MODEL_FILES
from dgpbench.store.disk import clear_errors, fsync_folder, locked, put, sha256, write_npz, write_parquet
from dgpbench.store.layout import DAMAGED, RECORD, unit_folders
from dgpbench.store.migrate import NewerRecord
from dgpbench.store.scan import Unit, newer_error, parse, read_record
from dgpbench.store.schema import dumps, validate_record
from dgpbench.store.untrusted import MAX_BYTES, open_regular

if TYPE_CHECKING:
    from dgpbench.store.model_files import ModelFile

PREDICTIONS, DRAWS, PARAMS = tuple(COMPANIONS)[:3]
MARGIN = 4096  # bytes of a record for the checksums of its files


def write_unit(
    results: str | Path,
    record: dict,
    *,
    predictions: dict | None = None,
    draws: dict | None = None,
    params: dict | None = None,
    model: ModelFile | None = None,
    force: bool = False,
) -> Unit:
    """Store a record with its companions; returns the unit that stands afterwards.

    A done record is replaced only with `force`; any other readable record is replaced by a later one. A
    damaged record is renamed to record.json.damaged-<sha8>. A record of a newer dgpbench raises UserError.
    """
    contents = {PREDICTIONS: predictions, DRAWS: draws, PARAMS: params}
    writers = {PREDICTIONS: write_parquet, DRAWS: write_parquet, PARAMS: write_npz}
    given: dict[str, Callable] = {
        name: lambda file, c=content, w=writers[name]: w(file, c)
        for name, content in contents.items()
        if content is not None
    }
    if model is not None:
        given[MODEL_FILES[model.format]] = lambda file: file.write(model.content)
    return _store(results, record, given, force)[0]


def copy_unit(results: str | Path, unit: Unit) -> tuple[Unit, bool]:
    """Store a unit of another folder with the companions that its record names, byte for byte; returns what
    stands afterwards and whether it is the copy. ValueError where a file is missing or not the one named."""
    named = unit.record["files"]

    def copying(name: str) -> Callable:
        def copy(out) -> None:
            try:
                source = open_regular(unit.folder / named[name].get("name", name))
            except FileNotFoundError as error:
                raise ValueError(f"{error.filename} is missing") from None
            with os.fdopen(source, "rb") as file:
                if os.fstat(source).st_size != named[name]["bytes"]:  # known before gigabytes are copied
                    raise ValueError(f"{unit.folder / name} is not the file that its record names")
                shutil.copyfileobj(file, out)

        return copy

    def check(files: dict) -> None:
        for name, entry in files.items():
            if entry["sha256"] != named[name]["sha256"]:
                raise ValueError(f"{unit.folder / name} is not the file that its record names")

    return _store(results, unit.record, {name: copying(name) for name in named}, False, check)


def _store(
    results, record: dict, writers: dict[str, Callable], force: bool, check: Callable = lambda files: None
) -> tuple[Unit, bool]:
    validate_record(record)
    text = dumps(record).encode()
    if len(text) > MAX_BYTES - MARGIN:
        raise ValueError(_too_large(record, len(text)))
    parse(text)  # what is written can be read
    with clear_errors(results):
        folder = _own_folder(results, record)
        folder.mkdir(parents=True, exist_ok=True)
        token = f".tmp-{os.getpid()}-{secrets.token_hex(4)}-"
        try:
            files = {name: put(folder / (token + name), write) for name, write in writers.items()}
            check(files)
            with locked(folder):
                standing = _standing(folder)
                if standing is None:
                    _set_aside(folder)
                if standing and standing["status"] == "done" and not force:
                    return Unit(standing, folder / RECORD), False
                record = {**record, "files": _named(files, standing)}
                put(folder / (token + RECORD), lambda file: file.write(dumps(record).encode()))
                _swap(folder, token, record)
        finally:
            for leftover in folder.glob(f"{token}*"):
                leftover.unlink(missing_ok=True)
        for place in list(folder.parents)[:4]:
            fsync_folder(place)
    return Unit(record, folder / RECORD), True


def _too_large(record: dict, size: int) -> str:
    """Return why a record of `size` bytes is not stored, naming its largest field."""
    name = max(record, key=lambda field: len(json.dumps(record[field])))
    fix = {"training": "return less from fit", "notes": "call run.note less often"}.get(name, "shorten it")
    limit = f"at most {MAX_BYTES / 1e6:.0f} MB can be read back"
    return f"the record has {size / 1e6:.0f} MB, most of it in '{name}', and {limit}; {fix}"


def ensure_writable(results: str | Path) -> None:
    """UserError if records cannot be stored there: to be known before training, not after."""
    with clear_errors(results):
        try:
            Path(results).mkdir(parents=True, exist_ok=True)
        except FileNotFoundError as error:  # below /proc, say, where no folder can be made
            advice = "choose another folder with paths.results=DIR"
            raise UserError(f"cannot make the results folder {results}; {advice}") from error
        probe = Path(results) / f".tmp-{os.getpid()}-{secrets.token_hex(4)}"
        try:
            put(probe, lambda file: file.write(b"\0" * 4096))
        finally:
            probe.unlink(missing_ok=True)


def _own_folder(results: str | Path, record: dict) -> Path:
    """The first of the unit's possible folders that no other key holds."""
    for folder in unit_folders(results, record, record["key"]):
        standing = _standing(folder)
        if standing is None or standing["key"] == record["key"]:
            break
    return folder


def _standing(folder: Path) -> dict | None:
    """Return the record in `folder`, or None if there is none or it is damaged."""
    try:
        return read_record(folder)
    except NewerRecord as error:
        raise newer_error(folder, error) from None
    except ValueError:
        return None


def _set_aside(folder: Path) -> None:
    """Rename a damaged record and its companions, so that the new record replaces nothing."""
    try:
        mark = _fingerprint(folder / RECORD)
    except FileNotFoundError:
        return
    for name in [name for names in COMPANIONS.values() for name in names] + [RECORD]:
        with suppress(FileNotFoundError):
            os.replace(folder / name, folder / f"{name}{DAMAGED}{mark}")


def _fingerprint(path: Path) -> str:
    """Return eight hex digits that identify the content of a file or the target of a link."""
    if path.is_symlink():
        return hashlib.sha256(os.fsencode(os.readlink(path))).hexdigest()[:8]
    path.lstat()
    return sha256(path)[:8] if path.is_file() else secrets.token_hex(4)


def _named(files: dict, standing: dict | None) -> dict:
    """The entries of new companions, each under the one of its names that the standing record leaves free."""
    out = {}
    for name, entry in files.items():
        taken = (standing or {"files": {}})["files"].get(name)
        used = taken and taken.get("name", name)
        free = next(place for place in COMPANIONS[name] if place != used)
        out[name] = entry if free == name else {**entry, "name": free}
    return out


def _swap(folder: Path, token: str, record: dict) -> None:
    """Rename the new files into place, the record last. Old companions go once it is safely there, so that at
    no moment a record names files that are not its own."""
    places = {name: entry.get("name", name) for name, entry in record["files"].items()}
    for name, place in places.items():
        os.replace(folder / (token + name), folder / place)
    fsync_folder(folder)
    os.replace(folder / (token + RECORD), folder / RECORD)
    fsync_folder(folder)
    for name, names in COMPANIONS.items():
        for place in set(names) - set(places.values()):
            (folder / place).unlink(missing_ok=True)
        if places.get(name, name) != name:
            with suppress(OSError):  # the plain name leads to it too, for those who look without the record
                os.link(folder / places[name], folder / name)
