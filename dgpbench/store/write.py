"""Writing a unit so that a reader sees all of it or nothing, whatever dies and whoever else writes.

Companions are written to temporary names, fsynced and renamed; record.json comes last and carries their
sha256: that rename is what "finished" means. A lock around the renames keeps the files of two writers of one
unit from being mixed; it is released by the system when its holder dies.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from dgpbench.errors import UserError
from dgpbench.store.layout import RECORD, unit_folders
from dgpbench.store.scan import Unit, read_record
from dgpbench.store.schema import dumps, validate_record

PREDICTIONS, DRAWS, PARAMS = "predictions.parquet", "draws.parquet", "params.npz"
COMPANIONS = (PREDICTIONS, DRAWS, PARAMS)
LOCK = ".lock"
LOCK_SECONDS = 30.0  # the lock is held for milliseconds; a stopped holder must not stop the others

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
NO_WRITE = (
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.ENOENT,
    errno.ENAMETOOLONG,
)


def write_unit(
    results: str | Path,
    record: dict,
    *,
    predictions: dict | None = None,
    draws: dict | None = None,
    params: dict | None = None,
    force: bool = False,
) -> Unit:
    """Store a record with its companions; returns the unit that stands afterwards.

    A done record is replaced only with `force`; any other is replaced by whatever comes later.
    """
    validate_record(record)
    contents = (
        (PREDICTIONS, predictions, _write_parquet),
        (DRAWS, draws, _write_parquet),
        (PARAMS, params, _write_npz),
    )
    with _clear_errors(results):
        folder = _own_folder(results, record)
        folder.mkdir(parents=True, exist_ok=True)
        token = f".tmp-{os.getpid()}-{secrets.token_hex(4)}-"
        try:
            files = {}
            for name, content, write in contents:
                if content is not None:
                    files[name] = _put(folder / (token + name), lambda file, c=content, w=write: w(file, c))
            record = {**record, "files": files}
            _put(folder / (token + RECORD), lambda file: file.write(dumps(record).encode()))
            with _locked(folder):
                standing = _standing(folder)
                if standing and standing["status"] == "done" and not force:
                    return Unit(standing, folder / RECORD)
                _swap(folder, token, record, standing)
        finally:
            for leftover in folder.glob(f"{token}*"):
                leftover.unlink(missing_ok=True)
        for place in (folder, *list(folder.parents)[:4]):
            _fsync_folder(place)
    return Unit(record, folder / RECORD)


def ensure_writable(results: str | Path) -> None:
    """UserError if records cannot be stored there: to be known before training, not after."""
    with _clear_errors(results):
        Path(results).mkdir(parents=True, exist_ok=True)
        probe = Path(results) / f".tmp-{os.getpid()}-{secrets.token_hex(4)}"
        try:
            _put(probe, lambda file: file.write(b"\0" * 4096))
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
    """The record that is there; one that cannot be read is as good as none."""
    try:
        return read_record(folder)
    except ValueError:
        return None


def _swap(folder: Path, token: str, record: dict, standing: dict | None) -> None:
    """Rename the new files into place. A record that is replaced first lets go of its companions, so that
    at no moment a record names files that are not its own."""
    if standing and standing["files"]:
        name = folder / (token + "bare")
        _put(name, lambda file: file.write(dumps({**standing, "files": {}}).encode()))
        os.replace(name, folder / RECORD)
    for name in COMPANIONS:
        if name in record["files"]:
            os.replace(folder / (token + name), folder / name)
        else:
            (folder / name).unlink(missing_ok=True)
    _fsync_folder(folder)
    os.replace(folder / (token + RECORD), folder / RECORD)


def _put(path: Path, write: Callable) -> dict:
    """Write one file and fsync it; returns its sha256 and size."""
    with open(path, "xb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    return {"sha256": sha256(path), "bytes": path.stat().st_size}


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _write_parquet(file, columns: dict[str, np.ndarray]) -> None:
    """One parquet column per entry; a 2-D array becomes a column of fixed-size lists."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = {}
    for name, values in columns.items():
        values = np.ascontiguousarray(values)
        flat = pa.array(values.reshape(-1))
        arrays[name] = flat if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    pq.write_table(pa.table(arrays), file, compression="zstd", use_dictionary=False)


def plain_arrays(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Parameters as arrays that can be stored; ValueError if one would need pickle."""
    arrays = {name: np.asarray(value) for name, value in values.items()}
    if bad := [name for name, value in arrays.items() if value.dtype.hasobject]:
        raise ValueError(f"parameters must be plain arrays; {', '.join(bad)} would need pickle")
    return arrays


def _write_npz(file, arrays: dict[str, np.ndarray]) -> None:
    buffer = io.BytesIO()  # a zip file cannot be closed in order on a full disk
    np.savez(buffer, **plain_arrays(arrays))
    file.write(buffer.getbuffer())


def _fsync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:  # some shared file systems cannot; the rename itself is still atomic
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the unit's lock. Where locks are not supported, or a holder hangs, go on without: the worst is
    then a companion whose sha256 does not fit, which readers refuse."""
    with open(folder / LOCK, "ab") as file:
        end = time.monotonic() + LOCK_SECONDS
        while time.monotonic() < end:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:
                break
        yield


@contextmanager
def _clear_errors(results: str | Path) -> Iterator[None]:
    """Turn errors that the user can mend (space, permissions) into one line."""
    try:
        yield
    except OSError as error:
        advice = "or choose another folder with paths.results=DIR"
        if error.errno in NO_SPACE:
            raise UserError(f"no space left for results in {results}; free some space {advice}") from error
        if error.errno in NO_WRITE:
            reason = os.strerror(error.errno).lower()
            message = f"cannot write results in {results} ({reason}); make it writable {advice}"
            raise UserError(message) from error
        raise
