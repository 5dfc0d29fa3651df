"""The class column of the user's own file: text or whole numbers, read before the inputs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dgpbench.data.cache import load_data
from dgpbench.data.catalogue import entry_from_config
from dgpbench.data.labels import AUTO_CLASSES, refuse_broken, task_of
from dgpbench.data.readers.text import NotANumber, check_width, open_text, split_fields
from dgpbench.data.readers.user_file import (
    columns,
    file_of,
    is_number,
    is_streamed,
    layout,
    open_parquet,
)
from dgpbench.errors import UserError

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
