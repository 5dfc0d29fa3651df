"""What stands inside a record's fields: names, ranges, lengths. Whoever wrote it, readers may rely on it."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from dgpbench.store.untrusted import check_depth

EVALUATION = ("predict_seconds", "evaluate_seconds", "peak_memory_bytes")
GROUPS = ("dataset", "model", "inference", "protocol")
SECTIONS = (*GROUPS, "budget", "launcher", "paths", "engine", "likelihood")
MODEL_FILES = {"joblib": "model.joblib", "torch": "model.pt", "onnx": "model.onnx"}  # of other libraries
COMPANIONS = {  # a file of a record -> the names that it may have on disk
    name: (name, name.replace(".", ".b."))
    for name in ("predictions.parquet", "draws.parquet", "params.npz", *MODEL_FILES.values())
}
NAME_LENGTH, TEXT_LENGTH, ITEMS = 200, 100_000, 10_000
LARGEST_SEED = 2**31 - 1


def is_hash(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 64 and not set(value) - set("0123456789abcdef")


def is_name(value: Any) -> bool:
    """Text that fits in a table: not empty, not long, without control characters."""
    return isinstance(value, str) and 0 < len(value) <= NAME_LENGTH and value.isprintable()


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def check_contents(record: dict) -> None:
    """ValueError, naming the field, for the first content that a record of ours could not have."""
    config = record["config"]
    check_depth({**record, "training": {k: v for k, v in record["training"].items() if k != "trace"}})
    for name in SECTIONS:
        if not isinstance(config.get(name, {}), dict):
            raise ValueError(f"config.{name} is no section")
    for name in GROUPS:
        _require(is_name(record[name]), name, "no name")
        _require(config.get(name, {}).get("name") == record[name], name, f"not that of config.{name}")
    for name in ("split", "seed"):
        _require(0 <= record[name] <= LARGEST_SEED, name, "out of range")
        _require(config.get(name) == record[name], name, f"not that of config.{name}")
    for name in ("experiment", "device", "git_commit"):
        _require(record[name] is None or is_name(record[name]), name, "no short text")
    for name in ("wall_seconds", "steps_per_second", "threads", *EVALUATION):
        _require(record[name] is None or 0 <= record[name] < math.inf, name, "out of range")
    for name in ("key", "config_key"):
        _require(is_hash(record[name]), name, "not 64 hexadecimal digits")
    _require(record["data_hash"] is None or is_hash(record["data_hash"]), "data_hash", "no sha256")
    _require(len(record["reason"] or "") <= TEXT_LENGTH, "reason", "too long")
    _check_time(record["finished"])
    for name in ("notes", "deviations"):
        _require(all(isinstance(text, str) for text in record[name]), name, "no list of texts")
    _check_mapping("metrics", record["metrics"], lambda v: v is None or is_number(v))
    _check_mapping("sizes", record["sizes"], lambda v: type(v) is int and v >= 0)
    _check_mapping("versions", record["versions"], lambda v: v is None or isinstance(v, str))
    for name, entry in record["files"].items():
        _require(name in COMPANIONS and _is_file(name, entry), "files", "not ours")
    _require(len(record["files"].keys() & set(MODEL_FILES.values())) <= 1, "files", "not ours")
    for section, fields in KNOWN.items():
        for name, fits in fields.items():
            if name in record[section]:
                _require(fits(record[section][name]), f"{section}.{name}", "not what it should be")


def known_fields(section: str, values: dict) -> dict:
    """The values without those that have a known name and an unknown form: a model of a user's may say
    anything."""
    fields = KNOWN[section]
    return {name: value for name, value in values.items() if name not in fields or fields[name](value)}


def _require(fits: bool, field: str, problem: str) -> None:
    if not fits:
        raise ValueError(f"field {field} is {problem}")


def _check_mapping(field: str, values: dict, fits) -> None:
    _require(len(values) <= ITEMS, field, "too long")
    for name, value in values.items():
        _require(is_name(name) and fits(value), f"{field}.{name[:NAME_LENGTH]}", "not what it should be")


def _check_time(text: str) -> None:
    try:
        datetime.fromisoformat(text[:40]).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise ValueError("field finished is no time") from None


def _is_file(name: str, entry: Any) -> bool:
    if not isinstance(entry, dict) or not is_hash(entry.get("sha256")) or set(entry) - _FILE:
        return False
    size = entry.get("bytes")
    return type(size) is int and size >= 0 and entry.get("name", name) in COMPANIONS[name]


_FILE = {"sha256", "bytes", "name"}


def _numbers(value: Any) -> bool:
    """Finite they are: JSON of ours has no others."""
    return isinstance(value, list) and {int, float, type(None)}.issuperset(map(type, value))


def _is_trace(value: Any) -> bool:
    return isinstance(value, list) and all(map(_numbers, value))


def _is_reliability(value: Any) -> bool:
    names = ("count", "confidence", "accuracy")
    if not isinstance(value, dict) or set(value) != set(names):
        return False
    if not all(map(_numbers, value.values())) or len({len(column) for column in value.values()}) != 1:
        return False
    return all(type(count) is int and count >= 0 for count in value["count"])


def _is_amount(value: Any) -> bool:
    return value is None or (is_number(value) and value >= 0)


def _is_recipe(value: Any) -> bool:
    from dgpbench.data.prepare import Recipe

    try:
        return bool(Recipe.from_document(value))
    except (ValueError, TypeError):
        return False


KNOWN: dict[str, dict[str, Callable[[Any], bool]]] = {
    "training": {
        **dict.fromkeys(("seconds", "cpu_seconds", "steps"), _is_amount),
        "trace": _is_trace,
        "resumed_from": lambda v: isinstance(v, list) and all(type(step) is int for step in v),
    },
    "details": {"pit_histogram": _numbers, "reliability": _is_reliability, "prepare": _is_recipe},
}
