"""Compressed records that travel with the project: results/reference/*.jsonl.gz."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable
from pathlib import Path

from dgpbench.store.scan import Unit

NO_PATHS = {"results": "results", "datasets": "datasets", "mirror": None, "config_dirs": []}


def export(units: Iterable[Unit], path: str | Path) -> int:
    """Write records, one JSON line each, in the order of their keys; returns how many.

    The folders of the machine they were made on are left out, and so are the companions, which stay there.
    The bytes depend on the records alone.
    """
    path = Path(path)
    records = sorted((unit.record for unit in units), key=lambda record: record["key"])
    temporary = path.with_name(f".tmp-{os.getpid()}-{path.name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(temporary, "wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
            for record in records:
                portable = {**record, "config": {**record["config"], "paths": NO_PATHS}, "files": {}}
                file.write(json.dumps(portable, allow_nan=False, ensure_ascii=False).encode() + b"\n")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return len(records)
