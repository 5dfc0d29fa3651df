"""Garbage of a results folder: leftovers of killed processes, checkpoints of no more use.

Only what lies where dgpbench puts it, under the names that dgpbench gives it, and no link: a folder that
happens to hold other things as well keeps them.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from dgpbench.engine.checkpoint import NAME as CHECKPOINT
from dgpbench.engine.checkpoint import key_of
from dgpbench.errors import UserError
from dgpbench.store.record import COMPANIONS
from dgpbench.store.scan import folders, read_record
from dgpbench.sweep.lease import LEASES, leases
from dgpbench.sweep.plan import SWEEPS, load_plan, plans
from dgpbench.sweep.state import Observer

LEFTOVER_DAYS = 1.0  # a temporary file this old belongs to no living writer
UNIT = re.compile(r"split\d+-([0-9a-f]{8}|[0-9a-f]{64})")
LEASE = re.compile(r"[0-9a-f]{32}\.json")
TEMPORARY = re.compile(
    rf"\.tmp-\d+-[0-9a-f]{{8}}(-.*)?|\.tmp-claim-.*|\.{re.escape(CHECKPOINT)}\.\d+\.tmp"
    r"|\.(plan\.json|job\.json|latest)\..+\.part"
)
Found = Iterator[tuple[Path, str]]


def garbage(results: Path, days: float, warn: Callable[[str], None] = lambda text: None) -> Found:
    """Files and folders to remove, each with the reason. Units that run now are left alone."""
    running = {lease.key[:8] for lease, alive in leases(results) if alive}
    for path in _files(results / LEASES):
        if LEASE.fullmatch(path.name) and path.stem[:8] not in running:
            yield path, "lease of a process that is dead"
    for folder in (results, results / LEASES, results / SWEEPS):
        yield from _leftovers(folder)
    for folder in map(Path, folders(results, warn)):
        found = UNIT.fullmatch(folder.name)
        if not found:
            continue
        yield from _leftovers(folder)
        if found[1][:8] not in running:
            yield from _of_unit(folder, found[1], days)
    yield from _old_sweeps(results, days, warn)


def remove(path: Path) -> int:
    """Remove a file or folder; returns the bytes it took."""
    files = [f for f in path.rglob("*") if f.is_file()] if path.is_dir() else [path]
    size = sum(file.lstat().st_size for file in files)
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
        with suppress(OSError):  # the folder of a unit that left nothing else
            if UNIT.fullmatch(path.parent.name):
                path.parent.rmdir()
    return size


def _of_unit(folder: Path, key: str, days: float) -> Found:
    try:
        record = read_record(folder)
    except (ValueError, OSError):
        record = None
    done = record if record is not None and record.done else None
    checkpoint = folder / CHECKPOINT
    if (key_of(folder) or "").startswith(key):
        if done:
            yield checkpoint, "checkpoint of a done unit"
        elif _age_days(checkpoint) > days:
            yield checkpoint, f"checkpoint older than {days:g} days"
    if done:
        named = {entry.get("name", name) for name, entry in done["files"].items()}
        ours = {place for places in COMPANIONS.values() for place in places}
        files = {path: path.lstat().st_ino for path in _files(folder) if path.name in ours}
        kept = {inode for path, inode in files.items() if path.name in named}  # one file may have two names
        for path, inode in files.items():
            if inode not in kept and _age_days(path) > LEFTOVER_DAYS:
                yield path, "of a record that was replaced"


def _leftovers(folder: Path) -> Found:
    for path in _files(folder):
        if TEMPORARY.fullmatch(path.name) and _age_days(path) > LEFTOVER_DAYS:
            yield path, "left by a writer that was killed"


def _files(folder: Path) -> list[Path]:
    """The regular files of a folder."""
    try:
        return sorted(Path(e.path) for e in os.scandir(folder) if e.is_file(follow_symlinks=False))
    except OSError:
        return []


def _old_sweeps(results: Path, days: float, warn: Callable[[str], None]) -> Found:
    """Plans that are done to the last unit and not the latest: everything they say is in the records."""
    for path in list(plans(results).values())[1:]:
        try:
            plan = load_plan(path)
        except UserError as error:
            warn(str(error))
            continue
        if path.parent.name != plan.name or path.parent.is_symlink() or _age_days(path) <= days:
            continue
        if all(state.status == "done" for state in Observer(plan, results).look().values()):
            yield results / SWEEPS / path.parent.name, f"plan of a sweep done more than {days:g} days ago"


def _age_days(path: Path) -> float:
    """Age by the clock; a file from the future, as after a clock was set back, is old too."""
    try:
        return abs(time.time() - path.lstat().st_mtime) / 86400
    except OSError:
        return 0.0
