"""Claims of a record about its metrics: names, ranges, and relations that hold whatever the model is.

Few metrics are bounded by the others: a wrong number can keep to all of this, and only predictions show it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import accumulate

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

PAIRED = (LOGLIK, LOGLIK_KDE, RMSE, CRPS)  # in original and standardised units
SAME = 1e-4  # relative: one deviation of the targets maps all metrics of a record
SPREAD = 0.5  # how far a training set's log deviation may be from the whole data's
LARGEST, SMALLEST = 1e15, 1e-12  # any metric; errors in deviations of the targets: numbers have 16 digits
EQUAL = 1e-6  # of shares and of sums that are kept as they are computed
FLOOR = 1e-6  # the least variance of Gaussian noise (gp/parameters.py): densities are no higher than its peak
HIGHEST = 20.0  # nat per output: a density as narrow as 1e-9 deviations of the targets
WIDEST = 100.0  # CRPS over RMSE; 4 is the most in the reference records
OF_BRIER, OF_BRIER_OF_TWO = 1.22, 2.45  # -log p is at least so many times the Brier score


def kind_of(record: dict) -> str:
    """The task of a record, or images."""
    dataset = record["config"]["dataset"]
    return IMAGES if dataset.get("image") else str(dataset.get("task"))


def metric_problems(record: dict, entry: dict) -> Iterator[str]:
    """What is wrong with a record's metrics, the plainest first; `entry`: its dataset in the catalogue."""
    metrics, task = record["metrics"], record["config"]["dataset"].get("task")
    kind, known = kind_of(record), known_metrics()
    for name in ("task", "image"):
        if record["config"]["dataset"].get(name) != entry.get(name):
            yield f"dataset.{name} is not that of the catalogue"
            return
    validated = bool(record["config"]["protocol"].get("validation"))
    for name in metrics:
        plain = re.sub("^valid_", "test_", name) if validated else name  # of the rows held out as well
        if LAYER_VARIANCE.fullmatch(name):
            continue
        if plain not in known:
            yield f"there is no metric {name}"
        elif kind not in known[plain].tasks or known[plain].generated and not entry.get("generator"):
            yield f"{name} is no metric of {record['dataset']}"
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
    if record["sizes"].get("outputs", 1) == 1:
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


def _calibration_problems(record: dict) -> Iterator[str]:
    """Coverage, PIT histogram and Kolmogorov-Smirnov distance are of the same PIT values."""
    metrics, found = record["metrics"], record["details"].get("pit_histogram")
    coverage, distance = metrics[COVERAGE], metrics[PIT_KS]
    rows = record["sizes"]["n_test"] * record["sizes"]["outputs"]
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


def _density_problems(record: dict) -> Iterator[str]:
    """Densities above what noise of the least variance, or numbers of 16 digits, allow."""
    cfg, outputs = record["config"], record["sizes"]["outputs"]
    highest = {f"{LOGLIK}_std": HIGHEST, f"{LOGLIK_KDE}_std": HIGHEST}
    if cfg["dataset"].get("task") == "counts":  # probabilities; in their own units
        highest = {LOGLIK: 0.0}
    elif "layers" in cfg["model"] and likelihood_name(cfg, "regression") == "gaussian":
        highest[f"{LOGLIK}_std"] = -0.5 * math.log(2 * math.pi * FLOOR)
    for name, most in highest.items():
        value = record["metrics"].get(name)
        if value is not None and value > most * outputs + EQUAL:
            yield f"{name} is {value:g}, and cannot be above {most * outputs:.3g}"


def _image_problems(record: dict) -> Iterator[str]:
    metrics, pixels = record["metrics"], record["sizes"]["outputs"]
    whole = metrics[LOGLIK_PER_PIXEL] * pixels
    if abs(whole - metrics[LOGLIK]) > EQUAL * max(1.0, abs(whole)):
        yield f"{LOGLIK} is not {pixels:,} times {LOGLIK_PER_PIXEL}"


def _class_problems(record: dict) -> Iterator[str]:
    """Accuracy, error, ECE and reliability are of the same rows; probabilities bound the log-likelihood."""
    metrics, rows, bins = record["metrics"], record["sizes"]["n_test"], record["details"].get("reliability")
    accuracy, error, loglik = (metrics[name] for name in (ACCURACY, ERROR_RATE, LOGLIK))
    two = record["config"]["dataset"].get("task") == "binary" or record["sizes"].get("classes") == 2
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


def _scale_problems(record: dict, deviation: float | None) -> Iterator[str]:
    """One deviation of the training targets maps standardised to original units, in every metric."""
    metrics = record["metrics"]
    scales = {}
    for name in PAIRED:
        value, scaled = metrics.get(name), metrics.get(f"{name}_std")
        if (value is None) != (scaled is None):
            yield f"it has {name} in one unit only"
        elif value is not None and name.startswith(LOGLIK):
            scales[name] = scaled - value
        elif value is not None and value > 0 and scaled > 0:
            scales[name] = math.log(value / scaled)
    if scales and max(scales.values()) - min(scales.values()) > SAME:
        least, most = min(scales, key=scales.__getitem__), max(scales, key=scales.__getitem__)
        yield f"{least} and {most} do not follow from their standardised values by one and the same scale"
    cfg = record["config"]
    stated = deviation if likelihood_name(cfg, "regression") == "gaussian" else None
    whose = "the catalogue's"
    if cfg["protocol"].get("scaling") == "none":  # targets stay as they are
        stated, whose = 1.0, "its protocol's"
    if scales and stated and abs(next(iter(scales.values())) - math.log(stated)) > SPREAD:
        yield f"its metrics imply another deviation of the targets than {whose} {stated:g}"
