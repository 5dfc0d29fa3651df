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
    """Return the state saved for run `key`; None if there is no usable one."""
    try:
        with _opened(folder) as raw, np.load(raw, allow_pickle=False) as file:
            if str(file["key"]) != key:
                return None
            return {name: file[name] for name in file.files if name != "key"}
    except _UNUSABLE:
        return None


def key_of(folder: Path) -> str | None:
    """Return the key of the run whose checkpoint is in a folder; None if none can be read."""
    try:
        with _opened(folder) as raw, np.load(raw, allow_pickle=False) as file:
            return str(file["key"])
    except _UNUSABLE:
        return None


def _opened(folder: Path) -> BinaryIO:
    """Open the checkpoint without following links or waiting for a FIFO."""
    return os.fdopen(os.open(folder / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")


def remove(folder: Path) -> None:
    (folder / NAME).unlink(missing_ok=True)
