"""Fields of a record. Change them only together with SCHEMA_VERSION and a migration."""

from __future__ import annotations

import json
import math
from datetime import datetime, timezone
from typing import Any

SCHEMA_VERSION = 1
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
        "config": cfg,
        "finished": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        **fields,
    }
    for name, value in record.get("metrics", {}).items():
        if status == "done" and value is not None and not math.isfinite(value):
            raise ValueError(f"metric {name} of a done record is {value}")
    record = {name: plain(value) for name, value in {**EMPTY, **record}.items()}
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
    for name in ("key", "config_key"):
        if len(record[name]) != 64 or set(record[name]) - set("0123456789abcdef"):
            raise ValueError(f"field {name} is not 64 hexadecimal digits")


def plain(value: Any) -> Any:
    """Numpy scalars and arrays as Python values, numbers that are not finite as None."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def dumps(record: dict) -> str:
    """JSON with one top-level field per line: small, and still readable by eye and by diff."""
    lines = (f' "{name}": {json.dumps(value, allow_nan=False)}' for name, value in record.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"
