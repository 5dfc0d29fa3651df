"""Records of older schemas are brought up to date when they are read; the files are left as they are."""

from __future__ import annotations

from collections.abc import Callable

from dgpbench.store.schema import SCHEMA_VERSION


def _to_2(record: dict) -> dict:
    """Version 1 did not know how long an evaluation took, nor how much memory."""
    return {**record, "predict_seconds": None, "evaluate_seconds": None, "peak_memory_bytes": None}


# version -> function that takes a record of that version to the next one
MIGRATIONS: dict[int, Callable[[dict], dict]] = {1: _to_2}


def migrate(record: dict) -> dict:
    """The record in the current schema. ValueError where that cannot be done."""
    version = record.get("schema")
    if type(version) is not int:
        raise ValueError("field schema is missing")
    if version > SCHEMA_VERSION:
        raise ValueError(f"schema {version} is of a newer dgpbench (this one knows {SCHEMA_VERSION})")
    while version < SCHEMA_VERSION:
        if version not in MIGRATIONS:
            raise ValueError(f"schema {version} has no migration to {SCHEMA_VERSION}")
        record = {**MIGRATIONS[version](dict(record)), "schema": version + 1}
        version += 1
    return record
