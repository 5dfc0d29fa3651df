"""Records as rows: one per record, or one per config with mean (standard error) over its splits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from dgpbench.config.keys import likelihood_settings
from dgpbench.config.schema import show_value
from dgpbench.config.sections import flatten
from dgpbench.store.scan import Unit

NAMES = ("dataset", "model", "inference", "protocol")
NOT_SETTINGS = ("paths.", "launcher.", "engine.", "dataset.")  # do not make a variant
NOT_A_VARIANT = ("split", "seed", "device", "threads")


class Mean(NamedTuple):
    """Mean over n values with its standard error (None for one value)."""

    mean: float
    error: float | None
    n: int


def average(values: Sequence[float]) -> Mean | None:
    if not values:
        return None
    error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return Mean(fmean(values), error, len(values))


def per_record(units: Sequence[Unit], metrics: Sequence[str]) -> list[dict]:
    """One row per record; `place` is the folder, or the reference file."""
    rows = []
    for unit in units:
        record = unit.record
        row = {name: record[name] for name in (*NAMES, "split", "seed", "status")}
        row.update({name: record["metrics"].get(name) for name in metrics})
        row.update(
            seconds=record["wall_seconds"],
            reason=record["reason"] or "",
            key=record["key"][:8],
            place=str(unit.path if unit.is_reference else unit.folder),
        )
        rows.append(row)
    return rows


def per_config(units: Sequence[Unit], metrics: Sequence[str]) -> list[dict]:
    """One row per config_key. Configs of one name that differ in a setting stay apart, with the difference
    as `variant`; units that are not done are counted, never left out in silence."""
    groups: dict[str, list[dict]] = {}
    for unit in units:
        groups.setdefault(unit.record["config_key"], []).append(unit.record)
    variants = _variants({key: records[0] for key, records in groups.items()})
    rows = []
    for key, records in groups.items():
        done = [r for r in records if r["status"] == "done"]
        row: dict = {name: records[0][name] for name in NAMES}
        row.update(variant=variants[key], done=len(done))
        others = Counter(r["status"] for r in records if r["status"] != "done")
        row["not_done"] = ", ".join(f"{count} {status}" for status, count in sorted(others.items()))
        for name in metrics:
            row[name] = average([v for r in done if (v := r["metrics"].get(name)) is not None])
        row["seconds"] = average([r["wall_seconds"] for r in done if r["wall_seconds"] is not None])
        row["config_key"] = key[:8]
        rows.append(row)
    return rows


def _variants(examples: dict[str, dict]) -> dict[str, str]:
    """Differences of each config from the others of the same names, as overrides."""
    named: dict[tuple, list[str]] = {}
    for key, record in examples.items():
        named.setdefault(tuple(record[name] for name in NAMES), []).append(key)
    out = dict.fromkeys(examples, "")
    for keys in named.values():
        if len(keys) == 1:
            continue
        flat = {key: _settings(examples[key]) for key in keys}
        fields = sorted({field for settings in flat.values() for field in settings})
        telling = [f for f in fields if len({show_value(settings.get(f)) for settings in flat.values()}) > 1]
        for key in keys:
            out[key] = " ".join(f"{f}={show_value(flat[key][f])}" for f in telling if f in flat[key])
    return out


def _settings(record: dict) -> dict:
    flat = flatten(record["config"] | {"likelihood": likelihood_settings(record["config"])})
    likelihood = flat["likelihood.name"]  # unlike other names it stands for no other field
    kept = {
        f: v
        for f, v in flat.items()
        if f not in NOT_A_VARIANT and not f.startswith(NOT_SETTINGS) and not f.endswith(".name")
    }
    return {**kept, "likelihood": likelihood, "data": (record["data_hash"] or "")[:8]}
