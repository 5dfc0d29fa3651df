"""Records as rows: one per record, or one per config with mean (standard error) over its splits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from dgpbench.evaluate.metric_table import known_metrics
from dgpbench.store.differences import dataset_label, differences
from dgpbench.store.scan import Unit

NAMES = ("dataset", "model", "inference", "protocol")


class Mean(NamedTuple):
    """Mean over n of `of` values, those that there are, with its standard error (None for one value)."""

    mean: float
    error: float | None
    n: int
    of: int


def average(values: Sequence[float | None]) -> Mean | None:
    found = [value for value in values if value is not None]
    if not found:
        return None
    error = stdev(found) / math.sqrt(len(found)) if len(found) > 1 else None
    return Mean(fmean(found), error, len(found), len(values))


def training_seconds(record: dict) -> float | None:
    """Seconds in training steps, without loading, compilation and evaluation."""
    return record["training"].get("seconds")


def mixing(record: dict) -> dict[str, float]:
    """How the chains of a sampler mix: `effective` samples and `rhat` of the worst coordinate; {} without."""
    checks = record["training"].get("checks")
    found = checks.get("chains") if isinstance(checks, dict) else None
    numbers = found.items() if isinstance(found, dict) else ()
    return {name: value for name, value in numbers if isinstance(value, int | float)}


def usual_metrics(units: Sequence[Unit]) -> list[str]:
    """The metrics that are shown unless others are asked for."""
    known = {name for unit in units for name in unit.record["metrics"]}
    return [name for name, own in known_metrics().items() if own.usual and name in known]


def per_record(units: Sequence[Unit], metrics: Sequence[str], config_dirs: Sequence[str] = ()) -> list[dict]:
    """One row per record; `settings` is what is not the default, `place` the folder or the reference file."""
    settings, sampled = _settings(units, config_dirs), any(mixing(unit.record) for unit in units)
    rows = []
    for unit in units:
        record = unit.record
        row = _names(record) | {"settings": settings[record["config_key"]]}
        row |= {name: record[name] for name in ("split", "seed", "status")}
        row.update({name: record["metrics"].get(name) for name in metrics})
        if sampled:
            row.update({name: mixing(record).get(name) for name in MIXING})
        row.update(
            train_seconds=training_seconds(record),
            seconds=record["wall_seconds"],
            reason=record["reason"] or "",
            key=record["key"][:8],
            place=str(unit.path if unit.is_reference else unit.folder),
        )
        rows.append(row)
    return rows


def per_config(units: Sequence[Unit], metrics: Sequence[str], config_dirs: Sequence[str] = ()) -> list[dict]:
    """One row per config_key, with what is not the default as `settings`; units that are not done are
    counted, never left out in silence."""
    groups: dict[str, list[dict]] = {}
    for unit in units:
        groups.setdefault(unit.record["config_key"], []).append(unit.record)
    settings, sampled = _settings(units, config_dirs), any(mixing(unit.record) for unit in units)
    rows = []
    for key, records in groups.items():
        done = [r for r in records if r["status"] == "done"]
        row: dict = _names(records[0]) | {"settings": settings[key], "done": len(done)}
        others = Counter(r["status"] for r in records if r["status"] != "done")
        row["not_done"] = ", ".join(f"{count} {status}" for status, count in sorted(others.items()))
        for name in metrics:
            row[name] = average([r["metrics"].get(name) for r in done])
        if sampled:
            row |= {name: worst([mixing(r).get(name) for r in done]) for name, worst in MIXING.items()}
        row["train_seconds"] = _mean([training_seconds(r) for r in done])
        row["seconds"] = _mean([r["wall_seconds"] for r in done])
        row["config_key"] = key[:8]
        rows.append(row)
    return rows


def _worst(choose: Callable) -> Callable[[Sequence[float | None]], float | None]:
    return lambda values: choose((v for v in values if v is not None), default=None)


MIXING = {
    "effective": _worst(min),
    "rhat": _worst(max),
}  # columns of samplers, and which of the splits counts


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _names(record: dict) -> dict:
    return {name: record[name] for name in NAMES} | {"dataset": dataset_label(record)}


def _settings(units: Sequence[Unit], config_dirs: Sequence[str]) -> dict[str, str]:
    """By config_key what is not the default, as overrides; the data's hash where that alone tells apart."""
    examples = {unit.record["config_key"]: unit.record for unit in units}
    texts = {key: " ".join(differences(record, config_dirs)) for key, record in examples.items()}
    shown = {key: (*_names(record).values(), texts[key]) for key, record in examples.items()}
    alike: dict[tuple, set[str]] = {}
    for key, record in examples.items():
        alike.setdefault(shown[key], set()).add(record["data_hash"] or "")
    out = dict(texts)
    for key, record in examples.items():
        if len(alike[shown[key]]) > 1:
            out[key] = f"{texts[key]} data={(record['data_hash'] or '')[:8]}".strip()
    return out
