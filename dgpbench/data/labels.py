"""Class labels and counts: any labels of a source as 0 .. C-1, and what is refused because it is none."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dgpbench.data.cache import Data
from dgpbench.data.catalogue import Entry
from dgpbench.data.sources.chain import Note
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
