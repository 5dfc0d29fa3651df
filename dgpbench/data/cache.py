"""The parsed cache: X.npy, Y.npy and meta.json; meta.json is written last and vouches for the rest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dgpbench.data import arrays
from dgpbench.data.catalogue import Entry, Source
from dgpbench.data.files import make_folder, probe_file, read_json, sha256_file, write_json, writing
from dgpbench.data.readers.formats import read_rows
from dgpbench.data.scaling import LARGEST
from dgpbench.data.sources.chain import Note, obtain, silent
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
class Recipe:
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
        from dgpbench.data.generated.on_demand import load

        return load(entry)
    return load_recipe(recipe_of(entry, paths), entry.name, note)


def load_recipe(recipe: Recipe, name: str, note: Note = silent) -> Data:
    meta, problem = check_cache(recipe)
    if problem:
        note(f"{name}: the cached copy in {recipe.folder} {problem}; reading the source again")
    if meta is None:
        meta = _build(recipe, name, note)
    X, Y = (arrays.open_array(recipe.folder / f) for f in ("X.npy", "Y.npy"))
    return Data(X, Y, meta["data_hash"], meta)


def check_cache(recipe: Recipe) -> tuple[dict | None, str | None]:
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


def _build(recipe: Recipe, name: str, note: Note) -> dict:
    blocks, key, origin = recipe.make(note)
    make_folder(recipe.folder)
    with writing(recipe.folder):
        (recipe.folder / "meta.json").unlink(missing_ok=True)
        meta = arrays.write_arrays(_bounded(blocks, origin.get("file") or name), recipe.folder)
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


def recipe_of(entry: Entry, paths: dict, row_number: bool = False) -> Recipe:
    """Recipe of an entry; with `row_number`, a row number in the source stays among the inputs."""
    if row_number and entry.row_number is not None:
        return _with_row_number(entry, paths)
    if entry.kind == "synthetic":
        from dgpbench.data.generated.synthetic import recipe
    elif entry.kind == "csv":
        from dgpbench.data.readers.user_file import recipe
    elif entry.kind == "images":
        from dgpbench.data.images import recipe
    else:
        recipe = _file_recipe
    return recipe(entry, paths)


def _source_key(source: Source) -> str:
    return key_of([source.reader, source.options, [f.sha256 for f in source.files]])


def _with_row_number(entry: Entry, paths: dict) -> Recipe:
    """Recipe of the same source with the column that counts its rows, kept beside the usual one."""
    sources = tuple(
        replace(s, options={**s.options, "drop": [c for c in s.options["drop"] if c != entry.row_number]})
        for s in entry.sources
    )
    made = _file_recipe(replace(entry, sources=sources, d=entry.d + 1, data_sha256=None), paths)
    return replace(made, folder=made.folder / "with_row_number")


def _file_recipe(entry: Entry, paths: dict) -> Recipe:
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

    return Recipe(
        Path(paths["datasets"]) / entry.name,
        frozenset(_source_key(s) for s in entry.sources),
        make,
        {"n": entry.n, "d": entry.d, "data_sha256": entry.data_sha256},
    )
