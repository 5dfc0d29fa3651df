"""The record of a run: its fields, their checks, and its text on disk.

Change a field only together with SCHEMA_VERSION and a migration. `Record` is the typed view that other code
reads; the file holds the same names and values as JSON.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, ItemsView, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, get_type_hints

from dgpbench.store.untrusted import check_depth

SCHEMA_VERSION = 2  # 2: seconds and memory of the evaluation; the file ends with a checksum of itself
CHECKSUM, CHECKSUM_SINCE = "checksum", 2  # name of the last member; schema version that introduced it
REASON_LENGTH = 2000
STATUSES = ("done", "failed", "diverged", "timeout", "oom", "interrupted")

GROUPS = ("dataset", "model", "inference", "protocol")
SECTIONS = (*GROUPS, "budget", "launcher", "paths", "engine", "likelihood")
MODEL_FILES = {"joblib": "model.joblib", "torch": "model.pt", "onnx": "model.onnx"}  # of other libraries
COMPANIONS = {  # a file of a record -> the names that it may have on disk
    name: (name, name.replace(".", ".b."))
    for name in ("predictions.parquet", "draws.parquet", "params.npz", *MODEL_FILES.values())
}
FILE_FIELDS = {"sha256", "bytes", "name"}
NAME_LENGTH, TEXT_LENGTH, ITEMS = 200, 100_000, 10_000
LARGEST_SEED = 2**31 - 1
AMOUNTS = (
    *("wall_seconds", "steps_per_second", "predict_seconds", "evaluate_seconds", "peak_memory_bytes"),
    "threads",
)


class NewerRecord(ValueError):
    """A record whose schema is newer than this version of dgpbench can read."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Record(Mapping[str, Any]):
    """A run as it is stored: an immutable view with named fields.

    It is also a mapping, so that `record["metrics"]` and `record.metrics` are the same.
    """

    schema: int = SCHEMA_VERSION
    key: str  # 64 hex digits: what determines the numbers
    config_key: str  # the same without split and seed
    status: str
    reason: str | None = None  # why the run is not done
    dataset: str
    model: str
    inference: str
    protocol: str
    split: int
    seed: int
    experiment: str | None = None
    deviations: list = field(default_factory=list)  # from the experiment
    config: dict  # full and resolved
    data_hash: str | None = None
    sizes: dict = field(default_factory=dict)  # n_train, n_test, inputs, outputs, parameters
    metrics: dict = field(default_factory=dict)
    details: dict = field(default_factory=dict)  # of the evaluation, such as the PIT histogram
    training: dict = field(default_factory=dict)  # summary and trace
    wall_seconds: int | float | None = None
    steps_per_second: int | float | None = None
    predict_seconds: int | float | None = None  # of the model, for the test rows
    evaluate_seconds: int | float | None = None  # of predictions and metrics together
    peak_memory_bytes: int | float | None = None  # main memory of the process during the run
    threads: int | None = None
    device: str | None = None
    versions: dict = field(default_factory=dict)
    git_commit: str | None = None
    finished: str  # UTC
    notes: list = field(default_factory=list)  # printed to the user during the run
    files: dict = field(default_factory=dict)  # companion name -> sha256, bytes

    def __getitem__(self, name: str) -> Any:
        return self.__dict__[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__)

    def __len__(self) -> int:
        return len(self.__dict__)

    def items(self) -> ItemsView[str, Any]:
        return self.__dict__.items()  # ten times as fast as the one that Mapping derives

    def __or__(self, changes: Mapping[str, Any]) -> Record:
        """Return a copy with changed fields."""
        return replace(self, **changes)

    @property
    def done(self) -> bool:
        return self.status == "done"

    @property
    def training_seconds(self) -> float | None:
        """Seconds in training steps, without loading, compilation and evaluation."""
        return self.training.get("seconds")

    @property
    def core_share(self) -> float:
        """Share of its training time in which a run on the CPU had a core: below 1 next to other work."""
        spent, wall = (self.training.get(name) or 0.0 for name in ("cpu_seconds", "seconds"))
        known = spent > 0 and wall > 0 and str(self.device).startswith("cpu")
        return min(1.0, spent / wall) if known else 1.0

    @property
    def core_seconds(self) -> float | None:
        """Seconds of training in which the run had a core; of the whole run if training was not timed."""
        spent = self.training.get("seconds", self.wall_seconds)
        return None if spent is None else self.core_share * spent


FIELDS: dict[str, Any] = get_type_hints(Record)


def build_record(cfg: dict, *, key: str, config_key: str, status: str, **fields: Any) -> Record:
    """Return a valid record of the run that `cfg` describes; fields that are not given are empty.

    Numbers that are not finite become null (JSON has no others), except in the metrics of a done record,
    where one is an error.
    """
    for name, value in fields.get("metrics", {}).items():
        if status == "done" and value is not None and not math.isfinite(value):
            raise ValueError(f"metric {name} of a done record is {value}")
    found: dict[str, Any] = {
        "key": key,
        "config_key": config_key,
        "status": status,
        **{group: cfg[group]["name"] for group in GROUPS},
        "split": cfg["split"],
        "seed": cfg["seed"],
        "experiment": cfg.get("experiment"),
        "config": {name: part for name, part in cfg.items() if name != "tracker"},
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        **fields,
    }
    found = plain(found)
    for section in KNOWN:
        found[section] = known_fields(section, found.get(section, {}))
    if len(found.get("reason") or "") > REASON_LENGTH:
        found["reason"] = found["reason"][:REASON_LENGTH] + " ..."
    known = Record(**{name: value for name, value in found.items() if name in FIELDS})
    return validate_record({**known, **found})


def validate_record(record: Any) -> Record:
    """Return the record of a mapping; raise ValueError, naming the field, if the schema does not allow it."""
    if not isinstance(record, Mapping):
        raise ValueError("not a JSON object")
    for name, types in FIELDS.items():
        if name not in record:
            raise ValueError(f"field {name} is missing")
        value = record[name]
        if not isinstance(value, types) or isinstance(value, bool):
            raise ValueError(f"field {name} is {type(value).__name__}")
    if record["schema"] != SCHEMA_VERSION:
        raise ValueError(f"schema is {record['schema']}, not {SCHEMA_VERSION}")
    if record["status"] not in STATUSES:
        raise ValueError(f"status is {record['status']}, not one of {', '.join(STATUSES)}")
    if unknown := set(record) - set(FIELDS):
        raise ValueError(f"unknown field {', '.join(sorted(unknown))}")
    found = Record(**record)
    check_contents(found)
    return found


def plain(value: Any) -> Any:
    """Return a value that JSON can hold.

    NumPy values become Python values, numbers that are not finite None, and other objects their text.
    """
    if isinstance(value, dict):
        return {plain(str(k)): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, str):
        return str(value) if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return plain(str(value))


# ---- contents ----------------------------------------------------------------------------------------


def is_hash(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 64 and not set(value) - set("0123456789abcdef")


def is_name(value: Any) -> bool:
    """Return whether a value is text for a table cell: not empty, short, without control characters."""
    return isinstance(value, str) and 0 < len(value) <= NAME_LENGTH and value.isprintable()


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def check_contents(record: Record) -> None:
    """Raise ValueError, naming the field, for content that dgpbench never writes."""
    config = record.config
    check_depth({**record, "training": {k: v for k, v in record.training.items() if k != "trace"}})
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
    for name in AMOUNTS:
        _require(record[name] is None or 0 <= record[name] < math.inf, name, "out of range")
    for name in ("key", "config_key"):
        _require(is_hash(record[name]), name, "not 64 hexadecimal digits")
    _require(record.data_hash is None or is_hash(record.data_hash), "data_hash", "no sha256")
    _require(len(record.reason or "") <= TEXT_LENGTH, "reason", "too long")
    _check_time(record.finished)
    for name in ("notes", "deviations"):
        _require(all(isinstance(text, str) for text in record[name]), name, "no list of texts")
    _check_mapping("metrics", record.metrics, lambda v: v is None or is_number(v))
    _check_mapping("sizes", record.sizes, lambda v: type(v) is int and v >= 0)
    _check_mapping("versions", record.versions, lambda v: v is None or isinstance(v, str))
    for name, entry in record.files.items():
        _require(name in COMPANIONS and _is_file(name, entry), "files", "not ours")
    _require(len(record.files.keys() & set(MODEL_FILES.values())) <= 1, "files", "not ours")
    for section, fields in KNOWN.items():
        for name, fits in fields.items():
            if name in record[section]:
                _require(fits(record[section][name]), f"{section}.{name}", "not what it should be")


def known_fields(section: str, values: dict) -> dict:
    """Drop values of known names that have another form: a user's model may return anything."""
    fields = KNOWN[section]
    return {name: value for name, value in values.items() if name not in fields or fields[name](value)}


def _require(fits: bool, field: str, problem: str) -> None:
    if not fits:
        raise ValueError(f"field {field} is {problem}")


def _check_mapping(field: str, values: dict, fits: Callable[[Any], bool]) -> None:
    _require(len(values) <= ITEMS, field, "too long")
    for name, value in values.items():
        _require(is_name(name) and fits(value), f"{field}.{name[:NAME_LENGTH]}", "not what it should be")


def _check_time(text: str) -> None:
    try:
        datetime.fromisoformat(text[:40]).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("field finished is no time") from None


def _is_file(name: str, entry: Any) -> bool:
    if not isinstance(entry, dict) or not is_hash(entry.get("sha256")) or set(entry) - FILE_FIELDS:
        return False
    size = entry.get("bytes")
    return type(size) is int and size >= 0 and entry.get("name", name) in COMPANIONS[name]


def _numbers(value: Any) -> bool:
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


# ---- text and migrations ----------------------------------------------------------------------------

CHECKSUM_MEMBER = f'"{CHECKSUM}": "'
CHECKSUM_END = re.compile(rb'"\s*\}\s*')


def dumps(record: Mapping[str, Any]) -> str:
    """Return JSON with one top-level field per line, which stays readable in an editor and a diff."""
    lines = (f' "{name}": {json.dumps(value, allow_nan=False)}' for name, value in record.items())
    return _with_checksum("{\n" + ",\n".join(lines) + ",\n ", "\n}\n")


def dumps_line(record: Mapping[str, Any]) -> str:
    """Return the JSON of a record in a single line, as in reference files."""
    return _with_checksum(json.dumps(dict(record), allow_nan=False, ensure_ascii=False)[:-1] + ", ", "}\n")


def checksum_fits(content: bytes) -> bool:
    """Return whether a text ends with the sha256 of all text before its last member."""
    head, _, tail = content.rpartition(CHECKSUM_MEMBER.encode())
    stated = tail[:64].decode("ascii", "replace")
    return bool(CHECKSUM_END.fullmatch(tail[64:])) and hashlib.sha256(head).hexdigest() == stated


def _with_checksum(head: str, end: str) -> str:
    return f'{head}{CHECKSUM_MEMBER}{hashlib.sha256(head.encode()).hexdigest()}"{end}'


def _to_2(record: dict) -> dict:
    """Add the times and memory of the evaluation, which version 1 did not store."""
    return {**record, "predict_seconds": None, "evaluate_seconds": None, "peak_memory_bytes": None}


# version -> function that takes a record of that version to the next one
MIGRATIONS: dict[int, Callable[[dict], dict]] = {1: _to_2}


def migrate(record: dict) -> dict:
    """Return the record in the current schema; raise ValueError if it cannot be migrated."""
    version = record.get("schema")
    if type(version) is not int:
        raise ValueError("field schema is missing")
    if version > SCHEMA_VERSION:
        raise NewerRecord(
            f"it was written by {_writer(record)} (schema {version}), and this version reads schemas up to "
            f"{SCHEMA_VERSION}; update dgpbench"
        )
    while version < SCHEMA_VERSION:
        if version not in MIGRATIONS:
            raise ValueError(f"schema {version} has no migration to {SCHEMA_VERSION}")
        record = {**MIGRATIONS[version](dict(record)), "schema": version + 1}
        version += 1
    return record


def _writer(record: dict) -> str:
    """Return 'dgpbench 0.3.0' if the record states its version in a usable form."""
    versions = record.get("versions")
    stated = versions.get("dgpbench") if isinstance(versions, dict) else None
    return f"dgpbench {stated}" if re.fullmatch(r"[\w.+-]{1,30}", str(stated or "")) else "a newer dgpbench"
