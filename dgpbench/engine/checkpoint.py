"""Checkpoints: the whole training state in one .npz, replaced atomically."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np

NAME = "checkpoint.npz"


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
        with np.load(folder / NAME, allow_pickle=False) as file:
            state = {name: file[name] for name in file.files}
    except (OSError, ValueError, zipfile.BadZipFile, EOFError):
        return None
    return state if str(state.pop("key", "")) == key else None


def remove(folder: Path) -> None:
    (folder / NAME).unlink(missing_ok=True)
