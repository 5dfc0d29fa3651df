"""Files that are never seen half-written (temporary name, fsync, rename), and their checksums."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dgpbench.errors import UserError

BLOCK = 1 << 20
_PROBE_WHOLE, _PROBE_BLOCKS, _PROBE_BYTES = 8 << 20, 256, 4096
_STALE_SECONDS = 24 * 3600


def sha256_file(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def probe_file(path: Path) -> str:
    """A checksum cheap enough for every load: the whole file up to 8 MB, else 256 blocks spread over it."""
    size = path.stat().st_size
    if size <= _PROBE_WHOLE:
        return sha256_file(path)
    digest = hashlib.sha256(str(size).encode())
    with open(path, "rb") as file:
        for i in range(_PROBE_BLOCKS):
            file.seek(i * (size - _PROBE_BYTES) // (_PROBE_BLOCKS - 1))
            digest.update(file.read(_PROBE_BYTES))
    return digest.hexdigest()


def temporary_name(path: Path) -> Path:
    """Unique per writer, so that two processes fetching one file never share a half-written one."""
    return path.with_name(f".{path.name}.{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}.part")


def make_folder(folder: Path) -> None:
    """Create a cache folder and clear away what a killed writer left there a day or more ago."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for part in folder.glob(".*.part"):
            with suppress(FileNotFoundError):  # another writer may just have renamed it
                if time.time() - part.stat().st_mtime > _STALE_SECONDS:
                    part.unlink()


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn a failed write (no space, no permission) into one clear line."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"cannot write to {folder}: {error.strerror or error}; free some space there, or set "
            "paths.datasets (or DGPBENCH_DATASETS) to a folder you can write to"
        ) from error


def publish(temporary: Path, path: Path) -> None:
    """The rename that makes a completed file visible."""
    os.replace(temporary, path)
    if os.name == "posix":
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def atomic_file(path: Path) -> Iterator[Any]:
    """Open a temporary file for binary writing; rename it to `path` only if the block ends without error."""
    temporary = temporary_name(path)
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        publish(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, value: dict) -> None:
    with atomic_file(path) as file:
        file.write(json.dumps(value, indent=1, sort_keys=True).encode())


def read_json(path: Path) -> dict | None:
    """None when the file is missing or is not a JSON object."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
