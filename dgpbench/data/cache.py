"""The parsed cache: X.npy, Y.npy and meta.json; meta.json is written last and vouches for the rest."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dgpbench.data.atomic_files import (
    make_folder,
    probe_file,
    publish,
    read_json,
    sha256_file,
    temporary_name,
    write_json,
    writing,
)
from dgpbench.data.catalogue import Entry, Source
from dgpbench.data.readers.source_formats import read_rows
from dgpbench.data.scaling import LARGEST
from dgpbench.data.sources import Note, obtain, silent
from dgpbench.errors import UserError

READER_VERSION = 1  # raise when a reader's numbers change: caches written before are read anew
MIN_ROWS = 5
Blocks = Iterator[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Data:
    """Parsed arrays of one dataset (memory-mapped when large) and their hash."""

    X: np.ndarray  # N, D
    Y: np.ndarray  # N, P
    data_hash: str
    meta: dict


@dataclass(frozen=True)
class CacheSpec:
    """Recipe of a parsed cache: its folder, the keys it may carry, and the function that makes it."""

    folder: Path
    keys: frozenset[str]
    make: Callable[[Note], tuple[Blocks, str, dict]]  # blocks, key, origin
    expect: dict


def key_of(value: Any) -> str:
    return hashlib.sha256(json.dumps([READER_VERSION, value], sort_keys=True).encode()).hexdigest()[:16]


def load_data(entry: Entry, paths: dict, note: Note = silent) -> Data:
    """The parsed dataset: from the cache when it is whole, else read from its source and cached."""
    if entry.on_demand:
        from dgpbench.data.synthetic import load

        return load(entry)
    return load_recipe(recipe_of(entry, paths), entry.name, note)


def load_recipe(recipe: CacheSpec, name: str, note: Note = silent) -> Data:
    meta, problem = check_cache(recipe)
    if problem:
        note(f"{name}: the cached copy in {recipe.folder} {problem}; reading the source again")
    if meta is None:
        meta = _build(recipe, name, note)
    X, Y = (open_array(recipe.folder / f) for f in ("X.npy", "Y.npy"))
    return Data(X, Y, meta["data_hash"], meta)


def check_cache(recipe: CacheSpec) -> tuple[dict | None, str | None]:
    """(meta, None) when usable; (None, None) when there is none; (None, what is wrong) when it is damaged.

    The check is cheap, sizes and a probe of the bytes: `dgpbench data verify` hashes every value.
    """
    meta = read_json(recipe.folder / "meta.json")
    if meta is None:
        return None, "has an unreadable meta.json" if (recipe.folder / "meta.json").exists() else None
    if meta.get("key") not in recipe.keys:
        return None, None  # of another version, or of other settings: not damaged, only not this
    for file, probe in (("X.npy", "x_probe"), ("Y.npy", "y_probe")):
        path = recipe.folder / file
        if not path.is_file() or probe_file(path) != meta.get(probe):
            return None, f"is damaged ({file} is not what was written)"
    return meta, None


def _build(recipe: CacheSpec, name: str, note: Note) -> dict:
    blocks, key, origin = recipe.make(note)
    make_folder(recipe.folder)
    with writing(recipe.folder):
        (recipe.folder / "meta.json").unlink(missing_ok=True)
        meta = write_arrays(_bounded(blocks, origin.get("file") or name), recipe.folder)
        _check_expected(meta, recipe.expect, name, origin)
        meta |= {"format": 1, "key": key, "name": name, "origin": origin}
        if table := origin.get("table"):
            meta["data_hash"] = _table_hash(meta["data_hash"], table["columns"])
        meta |= {f"{f[0].lower()}_probe": probe_file(recipe.folder / f) for f in ("X.npy", "Y.npy")}
        write_json(recipe.folder / "meta.json", meta)
    return meta


def _table_hash(numbers: str, columns: list[dict]) -> str:
    """Return the hash of a table that is prepared: of its numbers and codes, and of what they mean."""
    from dgpbench.data.prepare import VERSION

    meaning = [[column[name] for name in ("name", "kind", "levels")] for column in columns]
    return hashlib.sha256(json.dumps(["dgpbench-table", VERSION, numbers, meaning]).encode()).hexdigest()


def _bounded(blocks: Blocks, where: str) -> Blocks:
    """The blocks; UserError for a number whose square would have no end."""
    row = 0
    for X, Y in blocks:
        for what, A in (("input", X), ("target", Y)):
            if A.size and (large := np.abs(A) > LARGEST).any():
                i, j = (int(k) for k in np.argwhere(large)[0])
                raise UserError(
                    f"{where}: {what} {j} of row {row + i} is {A[i, j]:g}; squares of numbers beyond "
                    f"{LARGEST:g} have no place in a computer: rescale the column, or drop the row"
                )
        row += len(X)
        yield X, Y


def _check_expected(meta: dict, expect: dict, name: str, origin: dict) -> None:
    """A file of the right name with another shape or other numbers is another dataset."""
    where = origin.get("file") or name
    for what, text in (("n", "rows"), ("d", "inputs")):
        if expect.get(what) is not None and meta[what] != expect[what]:
            raise UserError(
                f"{where}: {meta[what]} {text} where dataset {name} has {expect[what]}; this is not the "
                "file the catalogue means: remove it and run `dgpbench data fetch " + name + "`"
            )
    if expect.get("data_sha256") and meta["data_hash"] != expect["data_sha256"]:
        raise UserError(
            f"{where}: read as other numbers than dataset {name} (data hash expected "
            f"{expect['data_sha256']}, got {meta['data_hash']}); remove it and fetch it again"
        )
    if meta["n"] < MIN_ROWS or meta["d"] < 1:
        raise UserError(
            f"{where}: {meta['n']} rows and {meta['d']} inputs; at least {MIN_ROWS} rows, one input and "
            "a target are needed"
        )


def recipe_of(entry: Entry, paths: dict, row_number: bool = False) -> CacheSpec:
    """Recipe of an entry; with `row_number`, a row number in the source stays among the inputs."""
    if row_number and entry.row_number is not None:
        return _with_row_number(entry, paths)
    if entry.kind == "synthetic":
        from dgpbench.data.synthetic import recipe
    elif entry.kind == "csv":
        from dgpbench.data.readers.user_file import recipe
    elif entry.kind == "images":
        from dgpbench.data.image_outputs import recipe
    else:
        recipe = _file_recipe
    return recipe(entry, paths)


def _source_key(source: Source) -> str:
    return key_of([source.reader, source.options, [f.sha256 for f in source.files]])


def _with_row_number(entry: Entry, paths: dict) -> CacheSpec:
    """Recipe of the same source with the column that counts its rows, kept beside the usual one."""
    sources = tuple(
        replace(s, options={**s.options, "drop": [c for c in s.options["drop"] if c != entry.row_number]})
        for s in entry.sources
    )
    made = _file_recipe(replace(entry, sources=sources, d=entry.d + 1, data_sha256=None), paths)
    return replace(made, folder=made.folder / "with_row_number")


def _file_recipe(entry: Entry, paths: dict) -> CacheSpec:
    def make(note: Note) -> tuple[Blocks, str, dict]:
        got = obtain(entry, paths, note)
        origin = {
            "stage": got.where,
            "file": str(got.files[0]),
            "sha256": [sha256_file(f) for f in got.files],
        }
        return (
            read_rows(got.source.reader, list(got.files), got.source.options),
            _source_key(got.source),
            origin,
        )

    return CacheSpec(
        Path(paths["datasets"]) / entry.name,
        frozenset(_source_key(s) for s in entry.sources),
        make,
        {"n": entry.n, "d": entry.d, "data_sha256": entry.data_sha256},
    )


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
