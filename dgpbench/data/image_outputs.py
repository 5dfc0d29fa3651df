"""Images as outputs: Y holds the pixels of an image, from 0 to 1, and X its label, one-hot.

A set of images names the labelled set that it turns around (`images_of`), or reads one of its own.
Settings: `dataset.label` keeps one class only; `dataset.per_class` trains on so many images of each class,
which RandomState(split) chooses among the training rows. All test rows stay.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from dgpbench.config.derived import own_test
from dgpbench.data.cache import Blocks, CacheSpec, Data, key_of, load_data, recipe_of
from dgpbench.data.catalogue import Entry, find
from dgpbench.data.sources import Note
from dgpbench.data.split import shuffle_rows, stratified_rows
from dgpbench.data.synthetic import Rows
from dgpbench.errors import UserError

_BLOCK_ROWS = 5000


def recipe(entry: Entry, paths: dict) -> CacheSpec:
    """Recipe of label codes (N, 1) and pixels (N, P) from 0 to 1."""
    labelled = _labelled(entry)
    source = recipe_of(labelled, paths)
    keys = {key: key_of(["images", key, labelled.pixel_max]) for key in source.keys}

    def make(note: Note) -> tuple[Blocks, str, dict]:
        if entry.images_of:
            data = load_data(labelled, paths, note)
            parts = ((data.X[i : i + _BLOCK_ROWS], data.Y[i : i + _BLOCK_ROWS]) for i in _starts(len(data.X)))
            return _turned(entry, parts), keys[data.meta["key"]], dict(data.meta["origin"])
        blocks, key, origin = source.make(note)
        return _turned(entry, blocks), keys[key], origin

    folder = Path(paths["datasets"]) / entry.name
    return CacheSpec(folder, frozenset(keys.values()), make, {"n": entry.n, "d": 1})


def _starts(rows: int) -> range:
    return range(0, rows, _BLOCK_ROWS)


def _labelled(entry: Entry) -> Entry:
    """The set of images with labels behind a set of images as outputs."""
    found = find(entry.images_of) if entry.images_of else replace(entry, image=None, d=None)
    if not found.pixel_max:
        raise UserError(f"dataset {entry.name}: {found.name} has no pixel_max, its inputs are no pixels")
    return found


def _turned(entry: Entry, blocks) -> Blocks:
    """Labels in front, pixels from 0 to 1 behind; UserError where an image has another size."""
    rows, columns = entry.image
    largest = float(_labelled(entry).pixel_max)
    for pixels, labels in blocks:
        if pixels.shape[1] != rows * columns:
            raise UserError(
                f"dataset {entry.name}: images of {pixels.shape[1]} pixels where dataset.image is "
                f"[{rows},{columns}]; all images must have one size"
            )
        yield np.asarray(labels), np.asarray(pixels) / largest


def divided(entry: Entry, data: Data, protocol: dict, split: int) -> tuple[Data, np.ndarray, np.ndarray]:
    """Data with one-hot labels (N, C) as inputs, and the rows to train and to test."""
    values, codes = np.unique(np.asarray(data.X[:, 0]), return_inverse=True)
    chosen = np.arange(len(codes))
    if (label := entry.settings.get("label")) is not None:
        if label not in values:
            shown = ", ".join(f"{v:g}" for v in values[:12])
            raise UserError(f"dataset.label={label} is no label of {entry.name}; it has {shown}")
        chosen = chosen[data.X[:, 0] == label]
        codes, values = np.zeros_like(codes), values[values == label]
    train, test = _divide(entry, codes, chosen, protocol, split)
    if count := entry.settings.get("per_class"):
        train = _some(entry, train, codes, values, count, split)
    one = np.arange(len(values))
    rows = Rows(len(codes), len(values), lambda i: (codes[i][:, None] == one).astype(float))
    return replace(data, X=rows), train, test


def _divide(entry: Entry, codes, chosen, protocol: dict, split: int) -> tuple[np.ndarray, np.ndarray]:
    if own_test({"train_rows": entry.train_rows}, protocol):
        return chosen[chosen < entry.train_rows], chosen[chosen >= entry.train_rows]
    number, share = 0 if protocol["split_rule"] == "fixed_zero" else split, protocol["train_fraction"]
    if protocol["split_rule"] not in ("shuffle", "fixed_zero"):
        raise UserError(
            f"protocol={protocol['name']} has no rule for images; use protocol=clean, which takes the "
            "test images of the set"
        )
    if codes.any():
        parts = stratified_rows(codes[chosen], number, share)
    else:
        parts = shuffle_rows(len(chosen), number, share)
    return chosen[parts[0]], chosen[parts[1]]


def _some(entry: Entry, train, codes, values, count: int, split: int) -> np.ndarray:
    """`count` training rows of each class."""
    shuffled = np.random.RandomState(split).permutation(train)
    each = [shuffled[codes[shuffled] == c][:count] for c in range(len(values))]
    for value, rows in zip(values, each, strict=True):
        if len(rows) < count:
            raise UserError(
                f"dataset.per_class={count}: class {value:g} of {entry.name} has only {len(rows)} to train; "
                f"at most {min(map(len, each))}"
            )
    return np.concatenate(each)


def image_shape(entry: Entry, outputs: int) -> tuple[int, int] | None:
    """Rows and columns of an image; None where outputs are no pixels."""
    if entry.image is None:
        return None
    shape = tuple(entry.image)
    if len(shape) != 2 or math.prod(shape) != outputs:
        raise UserError(
            f"dataset.image={list(shape)} does not fit {outputs} pixels; it must be [rows,columns]"
        )
    return shape
