"""Splits published as index files (protocol gal2016) with the data file their row numbers refer to."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from dgpbench.data.cache import Blocks, Data, Recipe, key_of, load_recipe
from dgpbench.data.catalogue import Entry, RemoteFile, Source, catalogue
from dgpbench.data.readers.formats import read_rows
from dgpbench.data.sources.chain import Note, obtain, silent
from dgpbench.data.splits import check_index
from dgpbench.errors import UserError


def _need(entry: Entry) -> dict:
    if not entry.published:
        having = ", ".join(e.name for e in catalogue().values() if e.published)
        raise UserError(
            f"dataset {entry.name} has no published split files; protocol gal2016 has them for {having}: "
            "take one of these, or protocol=clean"
        )
    return entry.published


def _files(published: dict) -> list[RemoteFile]:
    """data.txt first, then train and test indices in turn."""
    folder = published["folder"]
    names = [f"index_{part}_{i}.txt" for i in range(published["splits"]) for part in ("train", "test")]
    return [RemoteFile(f"{folder}/data.txt", published.get("sha256"))] + [
        RemoteFile(f"{folder}/{n}") for n in names
    ]


def recipe(entry: Entry, paths: dict) -> Recipe:
    """The data file and all its index files, cached together in <dataset>/published."""
    published = _need(entry)
    source = Source(
        "file",
        tuple(_files(published)),
        "space",
        {k: published[k] for k in ("target", "drop") if k in published},
        vouched=True,
    )
    holder = Entry(f"{entry.name}/published", n=entry.n, d=entry.d, sources=(source,), nearest=entry.nearest)
    key = key_of(["published", source.options, published.get("sha256"), published.get("index_sha256")])

    def make(note: Note) -> tuple[Blocks, str, dict]:
        got = obtain(holder, paths, note)
        data = got.files[0]
        return read_rows("space", [data], source.options), key, {"stage": got.where, "file": str(data)}

    return Recipe(
        Path(paths["datasets"]) / entry.name / "published",
        frozenset([key]),
        make,
        {"n": entry.n, "d": entry.d, "data_sha256": published.get("data_sha256")},
    )


def index_problem(entry: Entry, folder: Path) -> str | None:
    """Problem with the index files of a cached dataset, or None: one sha256 covers all of them in order."""
    try:
        content = b"".join((folder / f.name).read_bytes() for f in _files(entry.published)[1:])
    except OSError as error:
        return f"a split file cannot be read ({error}); remove {folder} and run again"
    expected, got = entry.published.get("index_sha256"), hashlib.sha256(content).hexdigest()
    if expected in (None, got):
        return None
    return (
        f"the split files in {folder} are not the published ones (sha256 of all: expected {expected}, "
        f"got {got}); remove that folder and run again"
    )


def load_published(
    entry: Entry, paths: dict, split: int, note: Note = silent
) -> tuple[Data, np.ndarray, np.ndarray]:
    """Parsed data, train rows and test rows of one published split."""
    check_index(split, _need(entry)["splits"], f"gal2016 on {entry.name}")
    made = recipe(entry, paths)
    data = load_recipe(made, f"{entry.name}/published", note)
    if problem := index_problem(entry, made.folder):
        raise UserError(f"{entry.name}: {problem}")
    train, test = (_indices(made.folder / f"index_{part}_{split}.txt") for part in ("train", "test"))
    if not np.array_equal(np.sort(np.concatenate([train, test])), np.arange(len(data.X))):
        raise UserError(
            f"split {split} in {made.folder} does not cover each of the {len(data.X)} rows once; remove "
            "that folder and run again"
        )
    return data, train, test


def _indices(path: Path) -> np.ndarray:
    try:
        return np.loadtxt(path, ndmin=1).astype(np.int64)  # some files write the row numbers as floats
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path}: split file cannot be read ({error}); remove its folder and run again"
        ) from error
