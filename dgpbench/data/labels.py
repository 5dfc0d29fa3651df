"""Class labels and counts: any labels of a source as 0 .. C-1, and what is refused because it is none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from dgpbench.data.cache import Data, load_data
from dgpbench.data.catalogue import Entry, entry_from_config
from dgpbench.data.readers.text import NotANumber, check_width, open_text, split_fields
from dgpbench.data.readers.user_file import (
    columns,
    file_of,
    is_number,
    is_streamed,
    layout,
    open_parquet,
)
from dgpbench.data.sources import Note
from dgpbench.errors import UserError

AUTO_CLASSES = 20  # under dataset.task=auto, whole numbers with more different values are a quantity
_SHOWN = 8


def code_labels(entry: Entry, data: Data) -> tuple[np.ndarray, list[str]]:
    """Codes (N, 1) as float64 and the labels they stand for, counted over all rows of the source."""
    if data.Y.shape[1] != 1:
        raise UserError(
            f"dataset {entry.name}: {data.Y.shape[1]} target columns; classes need one: set dataset.target"
        )
    names = data.meta["origin"].get("classes")  # text labels are coded when the file is read
    if names is None:
        values = np.unique(np.asarray(data.Y))
        refuse_broken(f"dataset {entry.name}", values)
        codes = np.searchsorted(values, np.asarray(data.Y)).astype(np.float64)
        names = [f"{value:.0f}" for value in values]
    else:
        codes = np.asarray(data.Y)
    if entry.classes:
        if len(entry.classes) != len(names):
            raise UserError(
                f"dataset {entry.name}: dataset.classes names {len(entry.classes)} classes, the source has "
                f"{len(names)} ({', '.join(names[:_SHOWN])}); name each, in sorted order, or none"
            )
        names = list(entry.classes)
    check_count(entry.name, entry.task, names, len(codes))
    return codes, names


def check_counts(dataset: str, Y: np.ndarray) -> None:
    """UserError if a target is negative or broken, with its row."""
    bad = np.flatnonzero(~((Y >= 0) & (Y == np.round(Y))).all(1))
    if len(bad):
        raise UserError(
            f"dataset {dataset}: {len(bad)} of {len(Y)} targets are no counts (row {bad[0]}: "
            f"{Y[bad[0]].ravel()[0]:g}); counts are whole numbers from 0: set dataset.target to their "
            "column, or dataset.task=regression for a quantity"
        )


def refuse_broken(where: str, values: Iterable[float]) -> None:
    """UserError if a label is a broken number."""
    for value in values:
        if float(value).is_integer():
            continue
        raise UserError(
            f"{where}: label {value:g} is not a whole number; class labels are whole "
            "numbers or text: set dataset.target to their column, or dataset.task=regression for a quantity"
        )


def check_count(dataset: str, task: str, names: list[str], rows: int) -> None:
    """UserError where the labels of a source cannot be the classes of this task."""
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    if len(names) < 2:
        raise UserError(
            f"dataset {dataset}: every row has the label {shown}; classification needs two classes or more: "
            "check dataset.target"
        )
    if len(names) > max(2, rows // 2):
        raise UserError(
            f"dataset {dataset}: {len(names)} different labels in {rows} rows ({shown}); these are no "
            "classes: choose the column with dataset.target, or dataset.task=regression for a quantity"
        )
    if task == "binary" and len(names) != 2:
        raise UserError(
            f"dataset {dataset} has {len(names)} classes ({shown}) but dataset.task=binary; set "
            "dataset.task=multiclass"
        )


def task_of(classes: int) -> str:
    """Two classes are binary, more are multiclass."""
    return "binary" if classes <= 2 else "multiclass"


def check_training(
    dataset: str, split: int, codes: np.ndarray, names: list[str], train: np.ndarray, note: Note
) -> None:
    """Refuse training rows of a single class; note each class that has no training row."""
    present = np.bincount(codes[train, 0].astype(int), minlength=len(names)) > 0
    if present.sum() < 2:
        raise UserError(
            f"split {split} of dataset {dataset} trains on class {names[int(present.argmax())]} only; take "
            "another split, a larger protocol.train_fraction or protocol.stratify=true"
        )
    if not present.all():
        absent = ", ".join(name for name, there in zip(names, present, strict=True) if not there)
        note(
            f"{dataset}, split {split}: no training row has class {absent}; it keeps its column among the "
            "predicted probabilities (protocol.stratify=true puts every class into train)"
        )


MISSING = ("", "nan", "na", "null")


def read_codes(path: Path, options: dict) -> tuple[np.ndarray, list[str]]:
    """Codes (N, 1) and the labels they stand for: in numeric order if all are numbers, else by alphabet."""
    labels = read_labels(path, options)
    names = list(dict.fromkeys(labels))
    numeric = all(is_number(name) for name in names)
    if numeric:
        refuse_broken(str(path), [float(name) for name in names])
        labels = [str(int(float(label))) for label in labels]  # 1 and 1.0 are one class
    classes = sorted(set(labels), key=int if numeric else str)
    code = {label: float(i) for i, label in enumerate(classes)}
    return np.array([[code[label]] for label in labels]), classes


def infer_task(dataset: dict, paths: dict) -> str:
    """Return the task that the target's values suggest.

    Text is classes. So are whole numbers with at most twenty different values that repeat, but only under
    `dataset.task=auto`.
    """
    entry = entry_from_config({**dataset, "task": "multiclass"})
    if entry.kind != "csv":
        known = entry_from_config({k: v for k, v in dataset.items() if k != "task"}).task
        raise UserError(f"dataset.task=auto is for a file of your own; {entry.name} is {known}: leave it out")
    if isinstance(entry.target, list) and len(entry.target) > 1:
        return "regression"
    if is_streamed(*file_of(entry)):
        labels = read_labels(*file_of(entry))
    else:
        data = load_data(entry_from_config({**dataset, "task": "regression"}), paths)
        if names := data.meta["origin"].get("classes"):
            return task_of(len(names))
        if dataset["task"] != "auto":
            return "regression"
        labels = [repr(float(value)) for value in data.Y[:, 0]]
    distinct = set(labels)
    if all(is_number(label) for label in distinct):
        distinct = {float(label) for label in distinct}
        most = min(AUTO_CLASSES, len(labels) // 2)
        if len(distinct) > most or not all(value.is_integer() for value in distinct):
            return "regression"
    return task_of(len(distinct))


def read_labels(path: Path, options: dict) -> list[str]:
    """The label of every row as it is written; UserError where one is missing."""
    return list((_parquet if path.suffix == ".parquet" else _text)(path, options))


def _text(path: Path, options: dict) -> Iterator[str]:
    found = layout(path, options)
    column = _only(found.targets, path)
    name = f" ({found.names[column]!r})" if found.names else ""
    with open_text(path) as file:
        for number, line in enumerate(file, start=1):
            if number <= found.header or not line.strip():
                continue
            fields = split_fields(line, found.delimiter)
            check_width(fields, found.count, path, number)
            yield _present(fields[column], f"{path}, line {number}, column {column + 1}{name}")


def _parquet(path: Path, options: dict) -> Iterator[str]:
    with open_parquet(path) as file:
        names = file.schema_arrow.names
        column = names[_only(columns(len(names), names, options, path)[1], path)]
        row = 0
        for batch in file.iter_batches(columns=[column]):
            for value in batch.column(0).to_pylist():
                yield _present("" if value is None else str(value), f"{path}, row {row}, column {column!r}")
                row += 1


def _only(targets: list[int], path: Path) -> int:
    if len(targets) != 1:
        raise UserError(f"{path}: {len(targets)} target columns; classes need one: set dataset.target")
    return targets[0]


def _present(label: str, where: str) -> str:
    if label.strip().lower() in MISSING:
        raise NotANumber(f"{where} has no label; every row needs one: fill or drop such rows")
    return label.strip()
