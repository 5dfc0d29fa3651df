"""Claims of a record that can be checked without its data: sizes, times and texts. Problems in words."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any

from dgpbench.config.derived import budget_of, own_test, planned_steps
from dgpbench.config.keys import likelihood_name
from dgpbench.evaluate.metric_table import ANY, IMAGES, LOGLIK, SHARE, built_in, known_metrics
from dgpbench.evaluate.metrics import (
    ACCURACY,
    BINS,
    BRIER,
    COVERAGE,
    CRPS,
    ECE,
    ERROR_RATE,
    LAYER_VARIANCE,
    LOGLIK_KDE,
    LOGLIK_PER_PIXEL,
    PIT_KS,
    RMSE,
)
from dgpbench.store.record import Record

CLOCKS = timedelta(days=1)  # by which clocks may differ
EARLIEST = datetime(2017, 1, 1, tzinfo=UTC)  # the year of the first paper that is rebuilt here
SHORTEST_STEP, SHORTEST_RUN = 1e-6, 1e-3  # seconds that no step and no run can stay below
TEXT, NOTES, RECORD_BYTES = 2000, 20_000, 1 << 18  # characters of a text and of all notes; without the trace


def size_problems(record: Record, entry: dict) -> Iterator[str]:
    """Rows, inputs and outputs that do not follow from the catalogue's `entry` and the protocol."""
    sizes, protocol = record.sizes, record.config["protocol"]
    train, test = sizes.get("n_train"), sizes.get("n_test")
    if not train or not test or not sizes.get("inputs") or not sizes.get("outputs"):
        yield "it does not say how many rows, inputs and outputs it was trained and tested on"
        return
    if sizes["outputs"] != 1 and not entry.get("image") and not entry.get("generator"):
        yield f"it has {sizes['outputs']:,} outputs, and the data have 1"
    facts = entry if entry.get("data_sha256") else entry | record.config["dataset"]
    levels = facts.get("level") is not None  # n counts the rows of the highest alone
    rows, inputs = None if levels else facts.get("n"), facts.get("d")
    used = max(train, test) if protocol["name"] == "whole" else train + test
    if rows and used > rows:
        yield f"it was trained and tested on {used:,} rows, and the data have {rows:,}"
    most = protocol.get("train_rows")
    if most and train > most:
        yield f"it was trained on {train:,} rows, and its protocol allows {most:,}"
    own = {
        "n": rows,
        "image": entry.get("image"),
        "train_rows": record.config["dataset"].get("train_rows"),
    }
    expected = division(own, protocol)
    if expected is None:
        return
    classes = min(sizes.get("classes", 0), expected[0] // 10)
    slack = classes if protocol.get("stratify") else 0  # every class trains
    for name, found, wanted in (("trained", train, expected[0]), ("tested", test, expected[1])):
        if abs(found - wanted) > slack:
            yield f"it was {name} on {found:,} rows, and its protocol gives {wanted:,}"
    if inputs and not protocol.get("row_number") and sizes["inputs"] != inputs:
        yield f"it has {sizes['inputs']:,} inputs, and the data have {inputs:,}"


def division(dataset: dict, protocol: dict) -> tuple[int, int] | None:
    """Rows that train and rows that test, as data/load.py divides them; None where data must be read."""
    rows, rule = dataset.get("n"), protocol["split_rule"]
    if not rows or rule == "published" or dataset.get("image"):
        return None
    if own_test(dataset, protocol):
        train = dataset["train_rows"]
    elif rule == "cover":
        train = rows - protocol["test_rows"]
    elif rule == "extrapolate":
        train = rows - int(rows * (1.0 - protocol["train_fraction"]))
    else:
        train = int(rows * protocol["train_fraction"])
    test = rows - train
    if protocol["name"] == "whole" and not test:
        test = train
    train = min(train, protocol.get("train_rows") or train)
    test = min(test, protocol.get("max_test") or test)
    if protocol.get("validation"):
        train -= max(1, round(protocol["validation"] * train))
    return train, test


def time_problems(record: Record) -> Iterator[str]:
    """Steps that are not those of the budget, and times that cannot be."""
    cfg, training, wall = record.config, record.training, record.wall_seconds
    steps, seconds, budget = training.get("steps"), training.get("seconds"), budget_of(cfg)
    wanted = planned_steps(budget, record.sizes["n_train"])
    own = cfg["model"].get("own_training")
    may_end = budget["seconds"] or budget["stop"] != "none" or own
    if wanted and steps is not None and (steps > wanted or (steps < wanted and not may_end)):
        yield f"it took {steps:,} training steps, and its budget is {wanted:,}"
    if wanted and not steps and not own and not cfg["model"].get("closed_form"):
        yield "it does not say how many training steps it took"
    begun = max(training.get("resumed_from") or [0])  # else its times are those of the last part
    whole, part = not training.get("resumed_from"), (steps or 0) - begun
    if begun and part <= 0:
        yield f"it says that it resumed from step {begun:,}, and that it took {steps or 0:,}"
    if whole and steps and seconds and record.steps_per_second:
        if not 0.5 < record.steps_per_second * seconds / steps < 2:
            yield "its steps, seconds and steps per second do not fit together"
    if wall is None:
        yield "it does not say how long it ran"
    elif wall < SHORTEST_RUN or wall < SHORTEST_STEP * part:
        of = f" of {steps:,} steps" if steps else ""
        yield f"it ran for {wall:g} seconds, which is too short for any run{of}"
    elif whole and seconds and wall < 0.99 * seconds:
        yield "it trained longer than it ran"
    elif max(record.predict_seconds or 0, record.evaluate_seconds or 0) > wall:
        yield "it was evaluated for longer than it ran"
    for name in ("seconds", "cpu_seconds"):
        if training.get(name) is not None and training[name] < SHORTEST_STEP * part:
            yield f"training.{name} is {training[name]:g}, which is too short for {part:,} steps"
    finished = datetime.fromisoformat(record.finished).astimezone(UTC)
    if wall is not None and wall > (finished - EARLIEST).total_seconds() >= 0:
        yield f"it ran for {wall:g} seconds, and would have begun before {EARLIEST.year}"
    if finished > datetime.now(UTC) + CLOCKS:
        yield "it finishes in the future"
    if finished < EARLIEST:
        yield f"it finished in {finished.year}, before there were such runs"


def text_problems(record: Record) -> Iterator[str]:
    """Texts that are too long, or hold what a terminal would obey."""
    if record.reason is not None:
        yield "it is done and has a reason why it is not"
    if record.git_commit and not re.fullmatch(r"[0-9a-f]{40}\+?", record.git_commit):
        yield "git_commit is no commit"
    if sum(map(len, record.notes)) > NOTES:
        yield f"its notes are longer than {NOTES:,} characters"
    short = {**record, "training": {k: v for k, v in record.training.items() if k != "trace"}}
    for place, text in _texts(short, ""):
        if len(text) > TEXT:
            yield f"{place} holds a text longer than {TEXT:,} characters"
        if not text.isprintable() and any(not c.isprintable() and c not in "\n\t" for c in text):
            yield f"{place} holds control characters"
    if len(json.dumps(short)) > RECORD_BYTES:
        yield f"it is larger than {RECORD_BYTES >> 10} kB without its trace"


def _texts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Every text in a record, names of fields included, with the field at the top that it is in."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield place or "a name", name
            yield from _texts(part, place or name)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part, place)


PAIRED = (LOGLIK, LOGLIK_KDE, RMSE, CRPS)  # in original and standardised units
SAME = 1e-4  # relative: one deviation of the targets maps all metrics of a record
SPREAD = 0.5  # how far a training set's log deviation may be from the whole data's
LARGEST, SMALLEST = 1e15, 1e-12  # any metric; errors in deviations of the targets: numbers have 16 digits
EQUAL = 1e-6  # of shares and of sums that are kept as they are computed
FLOOR = 1e-6  # the least variance of Gaussian noise (gp/parameters.py): densities are no higher than its peak
HIGHEST = 20.0  # nat per output: a density as narrow as 1e-9 deviations of the targets
WIDEST = 100.0  # CRPS over RMSE; 4 is the most in the reference records
OF_BRIER, OF_BRIER_OF_TWO = 1.22, 2.45  # -log p is at least so many times the Brier score


def kind_of(record: Record) -> str:
    """The task of a record, or images."""
    dataset = record.config["dataset"]
    return IMAGES if dataset.get("image") else str(dataset.get("task"))


def metric_problems(record: Record, entry: dict) -> Iterator[str]:
    """What is wrong with a record's metrics, the plainest first; `entry`: its dataset in the catalogue."""
    metrics, task = record.metrics, record.config["dataset"].get("task")
    kind, known = kind_of(record), known_metrics()
    for name in ("task", "image"):
        if record.config["dataset"].get(name) != entry.get(name):
            yield f"dataset.{name} is not that of the catalogue"
            return
    validated = bool(record.config["protocol"].get("validation"))
    for name in metrics:
        plain = re.sub("^valid_", "test_", name) if validated else name  # of the rows held out as well
        if LAYER_VARIANCE.fullmatch(name):
            continue
        if plain not in known:
            yield f"there is no metric {name}"
        elif kind not in known[plain].tasks or known[plain].generated and not entry.get("generator"):
            yield f"{name} is no metric of {record.dataset}"
    required = [name for name, own in known.items() if built_in(own) and kind in own.required]
    if lacking := [name for name in required if metrics.get(name) is None]:
        yield f"it has no {', '.join(lacking)}"
        return
    yield from _range_problems(metrics)
    if task in ("binary", "multiclass"):
        yield from _class_problems(record)
        return
    yield from _density_problems(record)
    if kind == "images":
        yield from _image_problems(record)
        return
    if metrics[CRPS] > WIDEST * metrics[RMSE]:
        yield f"{CRPS} is over 100 times {RMSE}: predictions are not that wide around so small errors"
    yield from _calibration_problems(record)
    if record.sizes.get("outputs", 1) == 1:
        yield from _scale_problems(record, entry.get("target_std"))


def _range_problems(metrics: dict) -> Iterator[str]:
    """Metrics outside of what they can be; those that are missing say nothing."""
    known = known_metrics()
    for name, value in metrics.items():
        if value is None:
            continue
        own = known.get(name)
        low, high = own.span if own else ANY
        if (low, high) == SHARE and not 0 <= value <= 1:
            yield f"{name} is {value:g}, and a share lies between 0 and 1"
        elif own and own.positive and value <= 0:
            yield f"{name} is {value:g}, and must be above 0"
        elif value < low or value > high:
            limits = "negative" if low == 0 > value else f"outside {low:g} to {high:g}"
            yield f"{name} is {value:g}, and cannot be {limits}"
        if abs(value) > LARGEST:
            yield f"{name} is {value:g}, and no run gives more than {LARGEST:g}"
        if name in (f"{RMSE}_std", f"{CRPS}_std") and 0 < value < SMALLEST:
            yield f"{name} is {value:g}, and numbers of 16 digits give no less than {SMALLEST:g}"


def _is_count(share: float, rows: int) -> bool:
    """Whether a share is that of a whole number of rows."""
    return abs(share * rows - round(share * rows)) <= EQUAL * max(1, rows)


def _calibration_problems(record: Record) -> Iterator[str]:
    """Coverage, PIT histogram and Kolmogorov-Smirnov distance are of the same PIT values."""
    metrics, found = record.metrics, record.details.get("pit_histogram")
    coverage, distance = metrics[COVERAGE], metrics[PIT_KS]
    rows = record.sizes["n_test"] * record.sizes["outputs"]
    if not _is_count(coverage, rows):
        yield f"{COVERAGE} is {coverage:g}, which is no share of {rows:,} test rows"
    if not found or None in found:
        yield "it has no details.pit_histogram"
        return
    rest = 1.0 - sum(found)  # a PIT value may be outside of 0 and 1 by rounding
    whole = min(found) >= 0 and -EQUAL <= rest <= 0.1 and all(_is_count(share, rows) for share in found)
    if len(found) != BINS or not whole:
        yield f"details.pit_histogram is none of {rows:,} test rows"
        return
    least, most = _distances(found, rest)
    if not least - EQUAL <= distance <= most + EQUAL:
        yield f"{PIT_KS} is {distance:g}, and its PIT histogram gives {least:.3g} to {most:.3g}"
    inner = sum(found[1:-1])
    if coverage < inner - EQUAL:
        yield f"{COVERAGE} is {coverage:g}, and its PIT histogram has {inner:.3g} between 0.1 and 0.9"


def _distances(histogram: list[float], rest: float) -> tuple[float, float]:
    """The least and the largest Kolmogorov-Smirnov distance from uniform that values with this histogram can
    have: it is known at the borders of the bins, and between them the values may lie at either end."""
    bins = len(histogram)
    below = [0.0, *accumulate(histogram)]  # shares below the borders
    least = max(abs(below[k] - k / bins) for k in range(bins + 1)) - rest
    most = max(max(below[k + 1] - k / bins, (k + 1) / bins - below[k]) for k in range(bins)) + rest
    return least, most


def _density_problems(record: Record) -> Iterator[str]:
    """Densities above what noise of the least variance, or numbers of 16 digits, allow."""
    cfg, outputs = record.config, record.sizes["outputs"]
    highest = {f"{LOGLIK}_std": HIGHEST, f"{LOGLIK_KDE}_std": HIGHEST}
    if cfg["dataset"].get("task") == "counts":  # probabilities; in their own units
        highest = {LOGLIK: 0.0}
    elif "layers" in cfg["model"] and likelihood_name(cfg, "regression") == "gaussian":
        highest[f"{LOGLIK}_std"] = -0.5 * math.log(2 * math.pi * FLOOR)
    for name, most in highest.items():
        value = record.metrics.get(name)
        if value is not None and value > most * outputs + EQUAL:
            yield f"{name} is {value:g}, and cannot be above {most * outputs:.3g}"


def _image_problems(record: Record) -> Iterator[str]:
    metrics, pixels = record.metrics, record.sizes["outputs"]
    whole = metrics[LOGLIK_PER_PIXEL] * pixels
    if abs(whole - metrics[LOGLIK]) > EQUAL * max(1.0, abs(whole)):
        yield f"{LOGLIK} is not {pixels:,} times {LOGLIK_PER_PIXEL}"


def _class_problems(record: Record) -> Iterator[str]:
    """Accuracy, error, ECE and reliability are of the same rows; probabilities bound the log-likelihood."""
    metrics, rows, bins = record.metrics, record.sizes["n_test"], record.details.get("reliability")
    accuracy, error, loglik = (metrics[name] for name in (ACCURACY, ERROR_RATE, LOGLIK))
    two = record.config["dataset"].get("task") == "binary" or record.sizes.get("classes") == 2
    if not _is_count(accuracy, rows) or abs(1 - accuracy - error) > EQUAL:
        yield f"{ACCURACY} {accuracy:g} and {ERROR_RATE} {error:g} are no two shares of {rows:,} test rows"
    if bins is None:
        yield "it has no details.reliability"
        return
    columns = (bins[name] for name in ("count", "confidence", "accuracy"))
    lines = [line for line in zip(*columns, strict=True) if line[0]]
    if sum(bins["count"]) != rows or any(None in line for line in lines):
        yield f"details.reliability is none of {rows:,} test rows"
        return
    found = {
        ACCURACY: sum(n * right for n, _, right in lines) / rows,
        ECE: sum(n * abs(right - sure) for n, sure, right in lines) / rows,
    }
    for name, value in found.items():
        if abs(metrics[name] - value) > EQUAL:
            yield f"{name} is {metrics[name]:g}, and details.reliability gives {value:g}"
    if loglik > -math.log(2) * error + EQUAL:
        yield f"{LOGLIK} is {loglik:g}: a wrong row has at most probability 1/2, and {error:.3g} are wrong"
    brier = metrics[BRIER]
    if loglik > -(OF_BRIER_OF_TWO if two else OF_BRIER) * brier + EQUAL:
        yield f"{LOGLIK} is {loglik:g}, too high for {BRIER} {brier:g}"
    if brier < (0.25 if two else 0.5) * error - EQUAL:
        yield f"{BRIER} is {brier:g}, too low for {ERROR_RATE} {error:g}"


def _scale_problems(record: Record, deviation: float | None) -> Iterator[str]:
    """One deviation of the training targets maps standardised to original units, in every metric."""
    metrics = record.metrics
    scales = {}
    for name in PAIRED:
        value, scaled = metrics.get(name), metrics.get(f"{name}_std")
        if value is None or scaled is None:
            if value is not scaled:
                yield f"it has {name} in one unit only"
        elif name.startswith(LOGLIK):
            scales[name] = scaled - value
        elif value > 0 and scaled > 0:
            scales[name] = math.log(value / scaled)
    if scales and max(scales.values()) - min(scales.values()) > SAME:
        least, most = min(scales, key=scales.__getitem__), max(scales, key=scales.__getitem__)
        yield f"{least} and {most} do not follow from their standardised values by one and the same scale"
    cfg = record.config
    stated = deviation if likelihood_name(cfg, "regression") == "gaussian" else None
    whose = "the catalogue's"
    if cfg["protocol"].get("scaling") == "none":  # targets stay as they are
        stated, whose = 1.0, "its protocol's"
    if scales and stated and abs(next(iter(scales.values())) - math.log(stated)) > SPREAD:
        yield f"its metrics imply another deviation of the targets than {whose} {stated:g}"
