"""Single steps of storing: a file that is whole and synced, a lock, a disk's fault as one line."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from dgpbench.errors import DISK_FAULTS, NO_SPACE, UserError
from dgpbench.store.untrusted import MAX_FILE

LOCK = ".lock"
LOCK_SECONDS = 30.0  # the lock is held for milliseconds; a stopped holder must not stop the others
NO_WRITE = (
    *(errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG),
    errno.ENOENT,
    *(errno.EISDIR, errno.ENOTEMPTY, errno.ELOOP),
)


def put(path: Path, write: Callable) -> dict:
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


def write_parquet(file, columns: dict[str, np.ndarray]) -> None:
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


def write_npz(file, arrays: dict[str, np.ndarray]) -> None:
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
    """Hold the unit's lock. Where locks are not supported, or a holder hangs, go on without: the worst is
    then a companion whose sha256 does not fit, which readers refuse."""
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
    """What the user can mend (space, permissions, a failing disk) as one line."""
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
