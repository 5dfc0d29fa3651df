"""Packed files read before, without traces: a fifth of the time, from the user's cache folder.

An entry is found by the bytes of the packed file and the source of the packages that read records. It
holds each config once for all its splits and seeds. What another user owns or may write, and what is damaged,
is left aside; so is everything where there is no cache folder (DGPBENCH_CACHE).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from dgpbench.machine import cache_folder, read_cached, write_cached

NAME = "records"
FILES = 24  # packed files that stay known
LEAST = 50_000  # bytes; smaller files are read as quickly


def recall(path: Path) -> list[dict] | None:
    """The records of a packed file, if it was read before as it is; their nested sections are shared."""
    place = _place(path)
    found: Any = read_cached(place, NAME) if place else None
    try:
        configs, records = found["configs"], found["records"]
        return [
            {**record, "config": {**configs[number], "split": record["split"], "seed": record["seed"]}}
            for number, record in records
        ]
    except (TypeError, KeyError, IndexError, ValueError):
        return None


def remember(path: Path, records: Sequence[dict]) -> None:
    """Keep the records of a packed file that was read whole."""
    place = _place(path)
    if place is None:
        return
    numbers: dict[str, int] = {}
    configs: list[dict] = []
    kept: list[list] = []
    for record in records:
        shared = {name: part for name, part in record["config"].items() if name not in ("split", "seed")}
        text = json.dumps(shared)
        if text not in numbers:
            numbers[text] = len(configs)
            configs.append(shared)
        kept.append([numbers[text], {name: part for name, part in record.items() if name != "config"}])
    write_cached(place, NAME, {"configs": configs, "records": kept}, FILES)


def _place(path: Path) -> Path | None:
    base = cache_folder()
    try:
        if base is None or path.is_symlink() or path.stat().st_size < LEAST:
            return None
        digest = hashlib.sha256(_source() + hashlib.sha256(path.read_bytes()).digest())
    except OSError:
        return None
    return base / f"{NAME}-{digest.hexdigest()[:32]}.json"


@lru_cache(maxsize=1)
def _source() -> bytes:
    """Digest of the code that decides what a record is."""
    digest, package = hashlib.sha256(), Path(__file__).resolve().parent.parent
    for part in ("store", "config"):
        for file in sorted((package / part).glob("*.py")):
            digest.update(file.read_bytes())
    return digest.digest()
