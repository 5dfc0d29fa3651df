"""Checkpoints: the whole training state in one .npz, replaced atomically."""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np

NAME = "checkpoint.npz"
_UNUSABLE = (
    *(OSError, ValueError, EOFError, KeyError, AttributeError, RuntimeError, MemoryError),
    *(zipfile.BadZipFile, zlib.error),
)


def save(folder: Path, key: str, state: dict[str, np.ndarray]) -> None:
    """Write the checkpoint of run `key`; a reader sees the old one or the new one, never half of one."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{NAME}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            np.savez(file, key=np.asarray(key), **state)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, folder / NAME)
    finally:
        temporary.unlink(missing_ok=True)


def load(folder: Path, key: str) -> dict[str, np.ndarray] | None:
    """The state saved for run `key`, or None if there is none that can be used."""
    try:
        with _opened(folder) as raw, np.load(raw, allow_pickle=False) as file:
            if str(file["key"]) != key:
                return None
            return {name: file[name] for name in file.files if name != "key"}
    except _UNUSABLE:
        return None


def key_of(folder: Path) -> str | None:
    """The run whose checkpoint lies in a folder, or None if there is none that can be read."""
    try:
        with _opened(folder) as raw, np.load(raw, allow_pickle=False) as file:
            return str(file["key"])
    except _UNUSABLE:
        return None


def _opened(folder: Path) -> BinaryIO:
    """The checkpoint's file; a link is not followed, a FIFO not waited for."""
    return os.fdopen(os.open(folder / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")


def remove(folder: Path) -> None:
    (folder / NAME).unlink(missing_ok=True)
