"""Whether stored results agree with themselves: schema, keys, checksums, and metrics with predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dgpbench.config.derived import is_trial
from dgpbench.errors import UserError
from dgpbench.evaluate.metric_table import CLASSES, IMAGES, known_metrics
from dgpbench.evaluate.metrics import QUANTILE_NAMES, class_inputs, reliability_bins
from dgpbench.store import read
from dgpbench.store.layout import PACKED, RECORD, unit_folders
from dgpbench.store.read import PARAMS, PREDICTIONS
from dgpbench.store.record import MODEL_FILES, Record
from dgpbench.store.scan import Unit, packed_units, scan_own
from dgpbench.store.trust import check_config, check_keys, code_packages

OF_NUMBERS, OF_CLASSES = ("row", "output", "y", "mean", "log_density", "pit"), ("row", "y", "predicted")
COLUMNS = {  # of predictions, by task, and of images
    "regression": (*OF_NUMBERS, "shapiro_w"),
    "counts": OF_NUMBERS,
    "binary": OF_CLASSES,
    "multiclass": OF_CLASSES,
    "images": ("row", "log_density", "squared_error"),
}
TOLERANCE = 1e-6  # relative: predictions are stored in original units, metrics come from standardised ones


def verify(results: Path, reference: bool, problem: Callable[[str], None]) -> int:
    """Report everything that does not agree; returns how many records were looked at."""
    count = 0
    for unit in scan_own(results, problem):
        count += 1
        for text in (*record_problems(unit.record), *_place_problems(results, unit), *file_problems(unit)):
            problem(f"{unit.path}: {text}")
    for unit in _packed(results, problem) if reference else ():
        count += 1
        for text in record_problems(unit.record):
            problem(f"{unit.path}: record {unit.record.key[:8]}: {text}")
    return count


def _packed(results: Path, problem: Callable[[str], None]) -> Iterator[Unit]:
    """Records that come with the project, then those of others."""
    for name in PACKED:
        yield from packed_units(Path(results) / name, problem)


def record_problems(record: Record) -> Iterator[str]:
    """What is wrong with config and keys. A config that names code of others is not checked: that would take
    a call of it."""
    checks: list[tuple[Callable[..., None], Any]] = [(check_keys, record)]
    if not code_packages([record.config]):
        checks.append((check_config, record.config))
    for check, subject in checks:
        try:
            check(subject)
        except ValueError as error:
            yield str(error)


def _place_problems(results: Path, unit: Unit) -> Iterator[str]:
    folders = unit_folders(results, unit.record, unit.record.key)
    if unit.path not in [folder / RECORD for folder in folders]:
        yield "it does not lie where its names and its key belong"


def file_problems(unit: Unit) -> Iterator[str]:
    """What is wrong with the companions: content, form, and metrics that do not follow from predictions."""
    record = unit.record
    if record.done and PARAMS not in record.files and not is_trial(record.config):
        yield f"it is done, but has no {PARAMS}"
    for name in record.files:
        try:
            if name == PARAMS:
                read.parameters(unit)
            elif name == PREDICTIONS:
                predictions = read.predictions(unit)
                yield from row_problems(record.sizes, predictions)
                yield from disagreements(record.metrics, predictions)
            elif name in MODEL_FILES.values():
                read.companion(unit, name)  # its checksum; what is in it is not loaded
            else:
                read.draws(unit)
        except UserError as error:
            yield str(error)


def row_problems(sizes: dict, predictions: dict[str, np.ndarray]) -> Iterator[str]:
    """Predictions of other rows than the record counts: of numbers there is a line for each output."""
    stated, rows = sizes.get("n_test"), predictions.get("row")
    if stated is None or rows is None:
        return
    outputs = sizes.get("outputs") or 1
    lines = len(rows) // outputs if "output" in predictions else len(rows)
    different = len(np.unique(rows))
    if not stated == different == lines:
        yield f"sizes.n_test is {stated}, but {PREDICTIONS} has {lines} rows, {different} of them different"


def column_problems(kind: str, predictions: dict[str, np.ndarray]) -> Iterator[str]:
    """Columns without which the metrics of a task do not follow, and those of other tasks, which `recompute`
    would take instead."""
    needed = COLUMNS[kind]
    if lacking := [name for name in needed if name not in predictions]:
        yield f"{PREDICTIONS} has no {', '.join(lacking)}"
        return
    if foreign := {"predicted", "squared_error"} & set(predictions) - set(needed):
        yield f"{PREDICTIONS} has {', '.join(sorted(foreign))}, which is none of {kind}"
    for name in needed:
        if predictions[name].dtype.kind not in "iuf" or not np.isfinite(predictions[name]).all():
            yield f"{name} of {PREDICTIONS} holds what is no finite number"
    if predictions["row"].dtype.kind == "f" or min(predictions["row"], default=0) < 0:
        yield f"row of {PREDICTIONS} holds what is no row number"


def disagreements(metrics: dict, predictions: dict[str, np.ndarray]) -> Iterator[str]:
    """Metrics that are not those of the stored predictions."""
    try:
        found = recompute(predictions)
    except (KeyError, ValueError, IndexError, TypeError) as error:
        yield f"{PREDICTIONS} gives no metrics ({type(error).__name__}: {error})"
        return
    for name, value in found.items():
        if name in metrics and not _close(metrics[name], value, predictions):
            yield f"{name} is {metrics[name]}, but {PREDICTIONS} gives {value}"


def recompute(predictions: dict[str, np.ndarray]) -> dict[str, float | None]:
    """The metrics that follow from the stored predictions alone."""
    kind, inputs = _inputs(predictions)
    found = {}
    for name, own in known_metrics().items():
        if own.needs and kind in own.tasks and not name.endswith("_std"):
            if all(inputs.get(need) is not None for need in own.needs):
                found[name] = own(inputs)
    return found


def _inputs(predictions: dict[str, np.ndarray]) -> tuple[str, dict[str, Any]]:
    """Return the task of stored predictions, and the inputs of its metrics in original units."""
    if "predicted" in predictions:
        count = sum(name.startswith("p_") for name in predictions)
        probs = np.column_stack([predictions[f"p_{c}"] for c in range(count)])
        labels = predictions["y"].astype(int)
        if not len(labels) or labels.min() < 0 or labels.max() >= count:
            raise ValueError("labels are not those of the probabilities")
        return CLASSES[count > 2], class_inputs(probs, labels, reliability_bins(probs, labels))
    inputs: dict[str, Any] = {"log_scale": 0.0}
    if "squared_error" in predictions:  # of images, each a row
        inputs |= {name: predictions[name] for name in ("squared_error", "log_density")}
        return IMAGES, inputs | {"standard_log_density": inputs["log_density"]}
    names = ("y", "mean", "sd", "pit", "shapiro_w")
    inputs |= {name: predictions[name] for name in names if name in predictions}
    if not len(inputs["y"]):
        raise ValueError("no rows")
    inputs["squared_error"] = (inputs["y"] - inputs["mean"]) ** 2
    if "log_density" in predictions:  # of the row, over all its outputs
        inputs["log_density"] = predictions["log_density"][predictions["output"] == 0]
        inputs["standard_log_density"] = inputs["log_density"]
    if all(name in predictions for name in QUANTILE_NAMES):
        inputs["quantiles"] = np.column_stack([predictions[name] for name in QUANTILE_NAMES])
    return "regression" if "shapiro_w" in predictions else "counts", inputs


def _close(stated: float | None, value: float | None, predictions: dict[str, np.ndarray]) -> bool:
    """Whether two values of a metric are the same but for rounding, or both missing."""
    if stated is None or value is None:
        return stated is value
    largest = float(np.abs(predictions["y"]).max()) if "y" in predictions else 0.0
    rounding = 1e-12 * largest  # of differences between large numbers
    return bool(
        np.isfinite(value) and abs(stated - value) <= TOLERANCE * max(abs(stated), abs(value)) + rounding
    )
