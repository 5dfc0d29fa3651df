"""Fields of a record. Change them only together with SCHEMA_VERSION and a migration."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from typing import Any

from dgpbench.store.deep import check_contents, known_fields
from dgpbench.store.seal import dumps

__all__ = ["FIELDS", "SCHEMA_VERSION", "STATUSES", "build_record", "dumps", "plain", "validate_record"]

SCHEMA_VERSION = (
    2  # 2: seconds and memory of the evaluation; the file ends with a checksum of itself (seal.py)
)
REASON_LENGTH = 2000
STATUSES = ("done", "failed", "diverged", "timeout", "oom", "interrupted")

TEXT_OR_NONE = (str, type(None))
NUMBER_OR_NONE = (int, float, type(None))
FIELDS: dict[str, tuple[type, ...]] = {
    "schema": (int,),
    "key": (str,),  # 64 hex: what determines the numbers
    "config_key": (str,),  # the same without split and seed
    "status": (str,),
    "reason": TEXT_OR_NONE,  # why it is not done
    "dataset": (str,),
    "model": (str,),
    "inference": (str,),
    "protocol": (str,),
    "split": (int,),
    "seed": (int,),
    "experiment": TEXT_OR_NONE,
    "deviations": (list,),  # from the experiment
    "config": (dict,),  # full and resolved
    "data_hash": TEXT_OR_NONE,
    "sizes": (dict,),  # n_train, n_test, inputs, outputs, parameters
    "metrics": (dict,),
    "details": (dict,),  # of the evaluation, such as the PIT histogram
    "training": (dict,),  # summary of the trace
    "wall_seconds": NUMBER_OR_NONE,
    "steps_per_second": NUMBER_OR_NONE,
    "predict_seconds": NUMBER_OR_NONE,  # of the model, for the test rows
    "evaluate_seconds": NUMBER_OR_NONE,  # of predictions and metrics together
    "peak_memory_bytes": NUMBER_OR_NONE,  # main memory of the process during the run
    "threads": (int, type(None)),
    "device": TEXT_OR_NONE,
    "versions": (dict,),
    "git_commit": TEXT_OR_NONE,
    "finished": (str,),  # UTC
    "notes": (list,),  # printed to the user during the run
    "files": (dict,),  # companion name -> sha256, bytes
}
EMPTY: dict[str, Any] = {
    "reason": None,
    "experiment": None,
    "deviations": [],
    "data_hash": None,
    "sizes": {},
    "metrics": {},
    "details": {},
    "training": {},
    "wall_seconds": None,
    "steps_per_second": None,
    "predict_seconds": None,
    "evaluate_seconds": None,
    "peak_memory_bytes": None,
    "threads": None,
    "device": None,
    "versions": {},
    "git_commit": None,
    "notes": [],
    "files": {},
}


def build_record(cfg: dict, *, key: str, config_key: str, status: str, **fields: Any) -> dict:
    """A valid record of the unit that `cfg` describes; fields not given are empty.

    Numbers that are not finite become null (JSON has no others), except in the metrics of a done record,
    where one is an error.
    """
    labels = {group: cfg[group]["name"] for group in ("dataset", "model", "inference", "protocol")}
    record = {
        "schema": SCHEMA_VERSION,
        "key": key,
        "config_key": config_key,
        "status": status,
        **labels,
        "split": cfg["split"],
        "seed": cfg["seed"],
        "experiment": cfg.get("experiment"),
        "config": {name: part for name, part in cfg.items() if name != "tracker"},
        "finished": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        **fields,
    }
    for name, value in record.get("metrics", {}).items():
        if status == "done" and value is not None and not math.isfinite(value):
            raise ValueError(f"metric {name} of a done record is {value}")
    record = {name: plain(value) for name, value in {**EMPTY, **record}.items()}
    for section in ("training", "details"):
        record[section] = known_fields(section, record[section])
    if len(record["reason"] or "") > REASON_LENGTH:
        record["reason"] = record["reason"][:REASON_LENGTH] + " ..."
    validate_record(record)
    return {name: record[name] for name in FIELDS}


def validate_record(record: Any) -> None:
    """ValueError, naming the field, if this is not a record of the current schema."""
    if not isinstance(record, dict):
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
    check_contents(record)


def plain(value: Any) -> Any:
    """A value as JSON takes it: numpy as Python values, numbers that are not finite as None, text as Unicode,
    anything else as its text."""
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
