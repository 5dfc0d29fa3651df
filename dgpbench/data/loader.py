"""load_split: from a composed config to a Split."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np

from dgpbench.config.derived import is_trial, own_test
from dgpbench.config.keys import likelihood_settings
from dgpbench.config.refusals import check_data
from dgpbench.config.schema import NUMBERS, SCALINGS
from dgpbench.data import image_outputs
from dgpbench.data.cache import Blocks, CacheSpec, Data, key_of, load_data, load_recipe, recipe_of
from dgpbench.data.catalogue import Entry, RemoteFile, Source, catalogue, entry_from_config
from dgpbench.data.labels import check_counts, check_training, code_labels
from dgpbench.data.prepare import fit
from dgpbench.data.readers.source_formats import read_rows
from dgpbench.data.readers.user_file import is_prepared, typed_columns
from dgpbench.data.scaling import moments, scale, scale_targets
from dgpbench.data.sources import Note, obtain, silent
from dgpbench.data.split import (
    Split,
    carve_validation,
    check_index,
    count_levels,
    covering_rows,
    divide_levels,
    extrapolation_rows,
    limit_training,
    shuffle_rows,
    stratified_rows,
)
from dgpbench.errors import UserError

_INSPECT_VALUES = 5_000_000
REPEATED = 10  # rows for each distinct target, from which densities on repeated values are worth a warning


def load_split(cfg: dict, note: Note | None = None) -> Split:
    """Fetch (if need be), parse, split and scale the dataset a config names."""
    note = note or silent
    entry, protocol, split = entry_from_config(cfg["dataset"]), cfg["protocol"], cfg.get("split", 0)
    rule, own = protocol["split_rule"], {"name": entry.name, "train_rows": entry.train_rows}
    check_data(entry, protocol, split)
    if rule == "published":
        data, train, test = load_published(entry, cfg["paths"], split, note)
    elif entry.on_demand:
        data = load_data(entry, cfg["paths"], note)
    else:
        data = load_recipe(recipe_for(entry, cfg["paths"], protocol), entry.name, note)
    valid, count, recipe = None, 0, None
    prepared = is_prepared(entry)
    if entry.task in NUMBERS and (labels := data.meta.get("origin", {}).get("classes")):
        raise UserError(
            f"{entry.name}: the target is text ({', '.join(labels[:5])}{', ...' * (len(labels) > 5)}) and "
            f"dataset.task={entry.task} needs numbers; set dataset.task=auto, or another dataset.target"
        )
    Y, classes = (data.Y, []) if entry.task in NUMBERS else code_labels(entry, data)
    if entry.task == "counts":
        check_counts(entry.name, Y)
    if entry.on_demand:
        from dgpbench.data.synthetic import split_rows

        train, test = split_rows(len(data.X), 0 if rule == "fixed_zero" else split, protocol)
    elif entry.image:
        data, train, test = image_outputs.divided(entry, data, protocol, split)
    elif entry.level is not None:
        count = count_levels(entry, data.X[:, -1])
        train, test, valid = divide_levels(entry, data.X[:, -1], protocol, split)
    elif rule != "published":
        train_rows = entry.train_rows if own_test(own, protocol) else None
        train, test = _divide(data.X, Y, classes, train_rows, protocol, split)
    if protocol["name"] == "whole" and not len(test):
        test = np.sort(train)
    if min(len(train), len(test)) < 1:
        raise UserError(
            f"dataset {entry.name} has {len(data.X)} rows: protocol {protocol['name']} leaves {len(train)} "
            f"to train and {len(test)} to test; change "
            + ("dataset.train_rows" if own_test(own, protocol) else "protocol.train_fraction")
        )
    if protocol.get("train_rows"):
        train = limit_training(train, 0 if rule == "fixed_zero" else split, protocol["train_rows"])
    if protocol.get("max_test"):
        test = test[: protocol["max_test"]]
    if protocol.get("validation") and entry.level is None:
        train, valid = carve_validation(train, split, protocol["validation"])
    if classes:
        check_training(entry.name, split, Y, classes, train, note)
    if prepared:
        recipe = fit(typed_columns(data), train, data.meta["origin"]["table"]["notes"])
        table = {c.name: c.texts() if c.kind == "text" else c.values for c in typed_columns(data)}
        data = replace(data, X=recipe.design(table))
    rows, likelihood = (train, test, valid), likelihood_settings(cfg)
    seen = np.concatenate([train, valid]) if is_trial(cfg) else None
    names = recipe.names if recipe else []
    found = _scaled(entry, data, Y, classes, rows, protocol, likelihood, split, seen, names)
    found = replace(found, recipe=recipe)
    return found.with_levels(count) if count else found


def recipe_for(entry: Entry, paths: dict, protocol: dict) -> CacheSpec:
    """Recipe of an entry's data under a protocol."""
    if protocol["split_rule"] == "published":
        return published_recipe(entry, paths)
    return recipe_of(entry, paths, protocol.get("row_number", False))


def _divide(
    X: np.ndarray, Y: np.ndarray, classes: list[str], train_rows: int | None, protocol: dict, split: int
) -> tuple[np.ndarray, np.ndarray]:
    """Train and test rows: the dataset's own division, the ends of a direction, or a shuffle, within the
    classes if so asked."""
    if train_rows is not None:
        rows = np.arange(len(Y))
        return rows[:train_rows], rows[train_rows:]
    if protocol["split_rule"] == "cover":
        if protocol["test_rows"] >= len(X):
            raise UserError(
                f"protocol.test_rows={protocol['test_rows']} leaves no row of {len(X)} to train; lower it"
            )
        return covering_rows(X, split, protocol["test_rows"])
    if protocol["split_rule"] == "extrapolate":
        return extrapolation_rows(X, split, protocol["train_fraction"])
    number, fraction = 0 if protocol["split_rule"] == "fixed_zero" else split, protocol["train_fraction"]
    if classes and protocol.get("stratify"):
        return stratified_rows(Y[:, 0].astype(int), number, fraction)
    return shuffle_rows(len(Y), number, fraction)


def _scaled(
    entry: Entry,
    data: Data,
    Y: np.ndarray,
    classes: list[str],
    parts: tuple,
    protocol: dict,
    likelihood: dict,
    split: int,
    seen: np.ndarray | None,
    names: list[str],
) -> Split:
    """Return the Split of the given parts (rows to train, test and validate), with its scaling.

    `seen` are all the rows that may be used, None for every row; `names` are those of prepared inputs.
    """
    (train, test, valid), scaling = parts, protocol["scaling"]
    if scaling not in SCALINGS:
        raise UserError(f"protocol.scaling={scaling!r}; allowed: {', '.join(SCALINGS)}")
    scaled_by = train if scaling == "train" else seen
    if entry.on_demand:
        from dgpbench.data.synthetic import MOMENT_ROWS

        scaled_by = train[:MOMENT_ROWS]
    unit = protocol.get("pixels", "unit") == "unit"
    if entry.image:  # labels, one-hot
        x_mean, x_std = np.zeros(data.X.shape[1]), np.ones(data.X.shape[1])
        constant = np.zeros(data.X.shape[1], dtype=bool)
    elif entry.pixel_max and unit:
        x_mean, x_std = np.zeros(data.X.shape[1]), np.full(data.X.shape[1], float(entry.pixel_max))
        constant = np.zeros(data.X.shape[1], dtype=bool)  # divided like the others: nothing to tell
    else:
        found = moments(data.X, scaled_by, "input")
        (x_mean, x_std), constant = scale(found, scaling), found.constant
        if not entry.scaled:
            x_std = np.ones_like(x_std)
    y_mean, y_std = np.zeros(Y.shape[1]), np.ones(Y.shape[1])
    if entry.task == "regression" and not (entry.image and unit):
        y_mean, y_std = scale_targets(Y, scaled_by, scaling, likelihood, seen)
    traps = [*entry.traps, *_traps_found(entry, data, train, test, constant, names)]
    if protocol["name"] == "whole":
        traps.append("every row trains: the scores are those of the training rows")
    if protocol.get("row_number") and entry.row_number is not None:
        traps.append("the row number is among the inputs: where rows are sorted by class, it tells the class")
    return Split(
        X=data.X,
        Y=Y,
        rows_train=train,
        rows_test=test,
        x_mean=x_mean,
        x_std=x_std,
        y_mean=y_mean,
        y_std=y_std,
        scaling=scaling,
        dataset=entry.name,
        data_hash=data.data_hash,
        index=split,
        task=entry.task,
        n_classes=len(classes),
        rows_valid=valid,
        traps=tuple(traps),
        classes=tuple(classes),
        log_density=_density(entry),
        bin_size=entry.bin_size or 1.0,
        image=image_outputs.image_shape(entry, Y.shape[1]),
    )


def _density(entry: Entry):
    if entry.kind != "synthetic" or entry.task != "regression":
        return None
    from dgpbench.data.synthetic import log_density

    return log_density(entry)


def _traps_found(
    entry: Entry, data: Data, train: np.ndarray, test: np.ndarray, constant: np.ndarray, names: list[str]
) -> list[str]:
    """Return warnings that the numbers suggest, for data that the catalogue does not describe."""
    found, called = [], {i: f"{i} ({name})" for i, name in enumerate(names)}
    if constant.any() and not any("constant" in t for t in entry.traps):
        columns = ", ".join(called.get(i, str(i)) for i in np.flatnonzero(constant)[:8])
        found.append(f"input {columns} is constant in the rows used for scaling; it is mapped to zero")
    few = entry.task == "regression" and len(train) <= _INSPECT_VALUES
    if few and (data.Y[train] == data.Y[train[:1]]).all():
        found.append("the target has one value only in the training rows: there is nothing to learn")
    if entry.kind != "csv" or data.X.size > _INSPECT_VALUES:
        return found
    X, Y = np.asarray(data.X), np.asarray(data.Y)
    values = len(np.unique(Y[:, 0]))
    if entry.task == "regression" and len(Y) >= REPEATED * values:
        found.append(f"{values} distinct targets in {len(Y):,} rows: a density model can gain by spikes")
    steps = np.diff(X, axis=0)
    for i in np.flatnonzero((steps == 1).all(axis=0)):
        found.append(
            f"input {called.get(i, i)} counts the rows: probably a row number (dataset.drop leaves it out)"
        )
    for i in np.flatnonzero((X == Y[:, :1]).all(axis=0)):
        found.append(f"input {called.get(i, i)} equals the target: the target leaks")
    seen = {row.tobytes() for row in np.hstack([X, Y])[train]}
    repeats = sum(row.tobytes() in seen for row in np.hstack([X, Y])[test])
    if repeats * 100 >= len(test):
        found.append(f"{repeats} of {len(test)} test rows also stand in train")
    return found


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


def published_recipe(entry: Entry, paths: dict) -> CacheSpec:
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

    return CacheSpec(
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
    made = published_recipe(entry, paths)
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
