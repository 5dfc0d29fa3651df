"""Records of older schemas are brought up to date when they are read; the files are left as they are."""

from __future__ import annotations

import re
from collections.abc import Callable

from dgpbench.store.schema import SCHEMA_VERSION


class NewerRecord(ValueError):
    """A record whose schema is newer than this version of dgpbench can read."""


def _to_2(record: dict) -> dict:
    """Version 1 did not know how long an evaluation took, nor how much memory."""
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
