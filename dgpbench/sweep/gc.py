"""Garbage of a results folder: leftovers of killed processes, checkpoints of no more use."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from dgpbench.engine.checkpoint import NAME as CHECKPOINT
from dgpbench.store.layout import RECORD
from dgpbench.store.scan import read_record
from dgpbench.sweep.lease import LEASES, leases
from dgpbench.sweep.plan import SWEEPS, load_plan, plans
from dgpbench.sweep.state import Observer

LEFTOVER_DAYS = 1.0  # a temporary file this old belongs to no living writer


def garbage(results: Path, days: float) -> Iterator[tuple[Path, str]]:
    """Files and folders to remove, each with the reason. Units that run now are left alone."""
    running = {lease.key[:8] for lease, alive in leases(results) if alive}
    for path in (results / LEASES).glob("*.json"):
        if path.stem[:8] not in running:
            yield path, "lease of a process that is dead"
    for folder, _, names in os.walk(results):
        place = Path(folder)
        busy = place.name.rpartition("-")[2][:8] in running
        for name in names:
            if _is_temporary(name) and _age_days(place / name) > LEFTOVER_DAYS:
                yield place / name, "left by a writer that was killed"
        if CHECKPOINT in names and not busy:
            if _status(place) == "done":
                yield place / CHECKPOINT, "checkpoint of a done unit"
            elif _age_days(place / CHECKPOINT) > days:
                yield place / CHECKPOINT, f"checkpoint older than {days:g} days"
    yield from _old_sweeps(results, days)


def remove(path: Path) -> int:
    """Remove a file or folder; returns the bytes it took."""
    files = [f for f in path.rglob("*") if f.is_file()] if path.is_dir() else [path]
    size = sum(file.stat().st_size for file in files)
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
        with suppress(OSError):  # the folder of a unit that left nothing else
            if not path.parent.name.startswith("."):
                path.parent.rmdir()
    return size


def _old_sweeps(results: Path, days: float) -> Iterator[tuple[Path, str]]:
    """Plans that are done to the last unit and not the latest: everything they say is in the records."""
    for path in list(plans(results).values())[1:]:
        states = Observer(load_plan(path), results).look()
        if _age_days(path) > days and all(state.status == "done" for state in states.values()):
            yield results / SWEEPS / path.parent.name, f"plan of a sweep done more than {days:g} days ago"


def _is_temporary(name: str) -> bool:
    return name.startswith(".tmp-") or (name.startswith(f".{CHECKPOINT}.") and name.endswith(".tmp"))


def _age_days(path: Path) -> float:
    """Age by the clock; a file from the future, as after a clock was set back, is old too."""
    try:
        return abs(time.time() - path.stat().st_mtime) / 86400
    except OSError:
        return 0.0


def _status(folder: Path) -> str | None:
    try:
        record = read_record(folder) if (folder / RECORD).exists() else None
    except (ValueError, OSError):
        return None
    return record["status"] if record else None
