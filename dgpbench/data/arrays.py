"""Parsed X and Y as .npy files written block by block and memory-mapped afterwards."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from dgpbench.data.files import publish, temporary_name

_HEADER = 128


def _header(rows: int, columns: int) -> bytes:
    """A version-1.0 .npy header of fixed length, so that the row count can be filled in at the end."""
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, {columns}), }}"
    return (
        b"\x93NUMPY\x01\x00"
        + (_HEADER - 10).to_bytes(2, "little")
        + text.ljust(_HEADER - 11).encode()
        + b"\n"
    )


class NpyWriter:
    """Appends float64 rows to a temporary .npy and hashes them on the way; `close` makes it visible."""

    def __init__(self, path: Path) -> None:
        self.path, self._temporary = path, temporary_name(path)
        self._digest, self.rows, self.columns = hashlib.sha256(), 0, None
        self._file = open(self._temporary, "wb")
        self._file.write(b"\0" * _HEADER)

    def append(self, block: np.ndarray) -> None:
        block = np.ascontiguousarray(block, dtype="<f8") + 0.0  # -0.0 becomes 0.0: one hash for one value
        self.columns = block.shape[1] if self.columns is None else self.columns
        data = memoryview(block).cast("B") if block.size else b""
        self._digest.update(data)
        self._file.write(data)
        self.rows += len(block)

    def finish(self) -> str:
        """Complete the temporary file; returns the sha256 of the values."""
        self._file.seek(0)
        self._file.write(_header(self.rows, self.columns or 0))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return self._digest.hexdigest()

    def close(self) -> None:
        publish(self._temporary, self.path)

    def discard(self) -> None:
        self._file.close()
        self._temporary.unlink(missing_ok=True)


def combine_hashes(n: int, d: int, p: int, x_sha256: str, y_sha256: str) -> str:
    """The data hash: shapes and the sha256 of the float64 values of X and of Y in row order."""
    text = f"dgpbench-data-1\nX {n} {d} {x_sha256}\nY {n} {p} {y_sha256}\n"
    return hashlib.sha256(text.encode()).hexdigest()


def hash_array(A: np.ndarray, rows: int = 65536) -> str:
    """sha256 of the values in row order, a block at a time."""
    digest = hashlib.sha256()
    for start in range(0, len(A), rows):
        digest.update(np.ascontiguousarray(A[start : start + rows], dtype="<f8").tobytes())
    return digest.hexdigest()


def data_hash(X: np.ndarray, Y: np.ndarray) -> str:
    return combine_hashes(len(X), X.shape[1], Y.shape[1], hash_array(X + 0.0), hash_array(Y + 0.0))


def write_arrays(blocks: Iterable[tuple[np.ndarray, np.ndarray]], folder: Path) -> dict:
    """Stream blocks (X, Y) to folder/X.npy and folder/Y.npy; returns sizes and hashes."""
    x_writer = y_writer = None
    try:
        x_writer, y_writer = NpyWriter(folder / "X.npy"), NpyWriter(folder / "Y.npy")
        for x, y in blocks:
            x_writer.append(x)
            y_writer.append(y)
        x_sha256, y_sha256 = x_writer.finish(), y_writer.finish()
        x_writer.close()
        y_writer.close()
    finally:
        for writer in (x_writer, y_writer):
            if writer is not None:
                writer.discard()
    n, d, p = x_writer.rows, x_writer.columns or 0, y_writer.columns or 0
    return {
        "n": n,
        "d": d,
        "p": p,
        "x_sha256": x_sha256,
        "y_sha256": y_sha256,
        "data_hash": combine_hashes(n, d, p, x_sha256, y_sha256),
    }


def open_array(path: Path, in_memory: int = 64 << 20) -> np.ndarray:
    """Small arrays in memory, large ones mapped from disk."""
    mode = "r" if path.stat().st_size > in_memory else None
    return np.load(path, mmap_mode=mode, allow_pickle=False)
