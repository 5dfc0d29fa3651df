"""Store a run so that a reader sees all of it or nothing, whatever dies and whoever else writes.

Companions are written to temporary names, fsynced and renamed. record.json comes last and holds their sha256:
its rename marks the run as finished. Companions of a replaced record stay until then; the new ones get
a second name. A lock around the renames keeps two writers from mixing their files. The system releases the
lock of a process that dies.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from dgpbench.errors import DISK_FAULTS, NO_SPACE, UserError
from dgpbench.store.layout import DAMAGED, RECORD, unit_folders
from dgpbench.store.record import COMPANIONS, MODEL_FILES, NewerRecord, Record, dumps, validate_record
from dgpbench.store.scan import Unit, newer_error, parse, read_record
from dgpbench.store.untrusted import MAX_BYTES, MAX_FILE, open_regular

if TYPE_CHECKING:
    from dgpbench.store.read import ModelFile

PREDICTIONS, DRAWS, PARAMS = tuple(COMPANIONS)[:3]
MARGIN = 4096  # bytes of a record for the checksums of its files
Write = Callable[[IO[bytes]], Any]
LOCK = ".lock"
LOCK_SECONDS = 30.0  # the lock is held for milliseconds; a stopped holder must not stop the others
NO_WRITE = (
    *(errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG),
    errno.ENOENT,
    *(errno.EISDIR, errno.ENOTEMPTY, errno.ELOOP),
)


def put(path: Path, write: Write) -> dict:
    """Write one file, fsync it and return its sha256 and size; ValueError if it is too large to read."""
    with open(path, "xb") as file:
        write(file)
        file.flush()
        _fsync(file.fileno())
    if (size := path.stat().st_size) > MAX_FILE:
        name, limit = path.name.rpartition("-")[2], f"at most {MAX_FILE / 1e9:.3g} GB can be read back"
        raise ValueError(f"{name} has {size / 1e9:.3g} GB, and {limit}; store fewer or smaller arrays")
    return {"sha256": sha256(path), "bytes": size}


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def write_parquet(file: IO[bytes], columns: dict[str, np.ndarray]) -> None:
    """Write one parquet column per entry; a 2-D array becomes a column of fixed-size lists."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = {}
    for name, values in columns.items():
        values = np.ascontiguousarray(values)
        flat = pa.array(values.reshape(-1))
        arrays[name] = flat if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    pq.write_table(pa.table(arrays), file, compression="zstd", use_dictionary=False)


def plain_arrays(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return parameters as arrays; raise ValueError if one would need pickle."""
    arrays = {name: np.asarray(value) for name, value in values.items()}
    if bad := [name for name, value in arrays.items() if value.dtype.hasobject]:
        raise ValueError(f"parameters must be plain arrays; {', '.join(bad)} would need pickle")
    return arrays


def write_npz(file: IO[bytes], arrays: dict[str, np.ndarray]) -> None:
    buffer = io.BytesIO()  # a zip file cannot be closed in order on a full disk
    np.savez(buffer, **plain_arrays(arrays))
    file.write(buffer.getbuffer())


def fsync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        _fsync(handle)
    finally:
        os.close(handle)


def _fsync(handle: int) -> None:
    """Flush to the disk where the file system can; some network and FUSE mounts cannot."""
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a run's folder.

    Continue without it where locks are not supported or a holder hangs. The worst case is a companion whose
    sha256 does not fit, which readers refuse.
    """
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    try:
        end = time.monotonic() + LOCK_SECONDS
        while time.monotonic() < end:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:
                break
        yield
    finally:
        os.close(handle)


@contextmanager
def clear_errors(results: str | Path) -> Iterator[None]:
    """Turn errors that the user can fix (space, permissions, a failing disk) into one line."""
    try:
        yield
    except OSError as error:
        advice = "or choose another folder with paths.results=DIR"
        if error.errno in NO_SPACE:
            raise UserError(f"no space left for results in {results}; free some space {advice}") from error
        if error.errno in (*NO_WRITE, *DISK_FAULTS):
            reason = os.strerror(error.errno).lower()
            mend = "make it writable" if error.errno in NO_WRITE else "see to the disk"
            message = f"cannot write results in {results} ({reason}); {mend} {advice}"
            raise UserError(message) from error
        raise


def write_unit(
    results: str | Path,
    record: Record | Mapping[str, Any],
    *,
    predictions: dict | None = None,
    draws: dict | None = None,
    params: dict | None = None,
    model: ModelFile | None = None,
    force: bool = False,
) -> Unit:
    """Store a record with its companions; return the unit that is in the folder afterwards.

    A done record is replaced only with `force`; any other readable record is replaced by a later one. A
    damaged record is renamed to record.json.damaged-<sha8>. A record of a newer dgpbench raises UserError.
    """
    writers: dict[str, Write] = {}
    for name, content in ((PREDICTIONS, predictions), (DRAWS, draws)):
        if content is not None:
            writers[name] = partial(write_parquet, columns=content)
    if params is not None:
        writers[PARAMS] = partial(write_npz, arrays=params)
    if model is not None:
        writers[MODEL_FILES[model.format]] = lambda file: file.write(model.content)
    return _store(results, validate_record(record), writers, force)[0]


def copy_unit(results: str | Path, unit: Unit) -> tuple[Unit, bool]:
    """Store a unit of another folder with the companions that its record names, byte for byte.

    Return the unit that is in the folder afterwards, and whether it is the copy. Raise ValueError if a file
    is missing or not the one that the record names.
    """
    named = unit.record.files

    def copy(out: IO[bytes], name: str) -> None:
        try:
            source = open_regular(unit.folder / named[name].get("name", name))
        except FileNotFoundError as error:
            raise ValueError(f"{error.filename} is missing") from None
        with os.fdopen(source, "rb") as file:
            if os.fstat(source).st_size != named[name]["bytes"]:  # known before gigabytes are copied
                raise ValueError(f"{unit.folder / name} is not the file that its record names")
            shutil.copyfileobj(file, out)

    def check(files: dict) -> None:
        for name, entry in files.items():
            if entry["sha256"] != named[name]["sha256"]:
                raise ValueError(f"{unit.folder / name} is not the file that its record names")

    writers: dict[str, Write] = {name: partial(copy, name=name) for name in named}
    return _store(results, unit.record, writers, False, check)


def _store(
    results: str | Path,
    record: Record,
    writers: dict[str, Write],
    force: bool,
    check: Callable[[dict], None] = lambda files: None,
) -> tuple[Unit, bool]:
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
                if standing and standing.done and not force:
                    return Unit(standing, folder / RECORD), False
                record = replace(record, files=_named(files, standing))
                put(folder / (token + RECORD), lambda file: file.write(dumps(record).encode()))
                _swap(folder, token, record)
        finally:
            for leftover in folder.glob(f"{token}*"):
                leftover.unlink(missing_ok=True)
        for place in list(folder.parents)[:4]:
            fsync_folder(place)
    return Unit(record, folder / RECORD), True


def _too_large(record: Record, size: int) -> str:
    """Return why a record of `size` bytes is not stored, naming its largest field."""
    name = max(record, key=lambda field: len(json.dumps(record[field])))
    fix = {"training": "return less from fit", "notes": "call run.note less often"}.get(name, "shorten it")
    limit = f"at most {MAX_BYTES / 1e6:.0f} MB can be read back"
    return f"the record has {size / 1e6:.0f} MB, most of it in '{name}', and {limit}; {fix}"


def ensure_writable(results: str | Path) -> None:
    """Raise UserError, before anything is trained, if records cannot be stored in a folder."""
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


def _own_folder(results: str | Path, record: Record) -> Path:
    """Return the first possible folder of a run that holds no other key."""
    for folder in unit_folders(results, record, record.key):
        standing = _standing(folder)
        if standing is None or standing.key == record.key:
            break
    return folder


def _standing(folder: Path) -> Record | None:
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


def _named(files: dict, standing: Record | None) -> dict:
    """Return the entries of new companions, each with a file name that the standing record does not use."""
    out = {}
    for name, entry in files.items():
        taken = standing and standing.files.get(name)
        used = taken and taken.get("name", name)
        free = next(place for place in COMPANIONS[name] if place != used)
        out[name] = entry if free == name else {**entry, "name": free}
    return out


def _swap(folder: Path, token: str, record: Record) -> None:
    """Rename the new files into place, the record last, then remove old companions.

    At no moment does a record name files of another one.
    """
    places = {name: entry.get("name", name) for name, entry in record.files.items()}
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
