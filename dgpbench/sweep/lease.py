"""Leases: who runs a unit right now. A file per running unit, made exclusively, renewed by a heartbeat.

A lease is advice, not a lock: if two processes hold one unit after all, work is done twice and no record is
harmed. On the holder's own host its process tells whether it is alive; elsewhere the age of the heartbeat
does, by the clock of the file system and in either direction, so that a clock set back keeps none alive.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from dgpbench.store.record import is_hash, is_name, is_number
from dgpbench.store.untrusted import parse_json, read_regular

LEASES = ".leases"  # in the results folder
HEARTBEAT = 10.0  # seconds between two renewals
MAX_BYTES = 1 << 16
STALE = 120.0  # seconds without one after which the holder is taken for dead


@dataclass(frozen=True)
class Lease:
    """Host, process and job that hold a unit, and how far they are."""

    key: str
    host: str
    pid: int
    started: str  # start of the process, since numbers of processes are used again
    job: str | None = None  # of SLURM or Ray
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    progress: dict = field(default_factory=dict)

    def describe(self) -> str:
        return f"process {self.pid} on {self.host}" + (f", job {self.job}" if self.job else "")


def process_start(pid: int) -> str:
    """Start of a process, as its system tells it; empty if there is none (or it is a zombie)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        if os.path.isdir("/proc/self"):
            return ""
    import psutil

    try:
        return str(psutil.Process(pid).create_time())
    except psutil.Error:
        return ""


def take(results: Path, key: str, pid: int, job: str | None = None) -> Lease | None:
    """A lease of the unit for process `pid` of this host; None if another holds it and is alive."""
    lease = Lease(key, socket.gethostname(), pid, process_start(pid), job)
    path = _path(results, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = _write(path, lease)
    try:
        for _ in range(3):
            if _place(draft, path):
                return lease
            held = read(path)
            if held is not None and alive(held, path) and not _same_job(held, lease):
                return None
            with _claim(path, held) as ours:
                if ours:
                    with suppress(IsADirectoryError):  # work may be done twice: a lease is advice
                        os.replace(draft, path)
                    return lease
        return None
    finally:
        draft.unlink(missing_ok=True)


def renew(results: Path, lease: Lease, progress: dict) -> None:
    """Heartbeat. A lease that someone else took over, or that cannot be written, is left alone."""
    path = _path(results, lease.key)
    held = read(path)
    if held is None or held.token != lease.token:
        return
    with suppress(OSError):
        os.replace(_write(path, Lease(**(asdict(lease) | {"progress": progress}))), path)


def release(results: Path, lease: Lease) -> None:
    held = read(_path(results, lease.key))
    if held is not None and held.token == lease.token:
        _path(results, lease.key).unlink(missing_ok=True)


def leases(results: Path) -> Iterator[tuple[Lease, bool]]:
    """All leases of a results folder, each with whether its holder is alive."""
    for path in sorted((Path(results) / LEASES).glob("*.json")):
        lease = read(path)
        if lease is not None and path == _path(results, lease.key):
            yield lease, alive(lease, path)


def read(path: Path) -> Lease | None:
    """The lease in a file; None if there is none, or what lies there is none."""
    try:
        lease = Lease(**parse_json(read_regular(path, MAX_BYTES)))
    except (OSError, ValueError, TypeError):
        return None
    return lease if _is_ours(lease) else None


def _is_ours(lease: Lease) -> bool:
    """Whether the fields are what `take` and `renew` write."""
    texts = is_name(lease.host) and isinstance(lease.started, str)
    texts = texts and (lease.job is None or is_name(lease.job))
    process = type(lease.pid) is int and lease.pid > 0
    token = isinstance(lease.token, str) and re.fullmatch(r"[0-9a-f]{16}", lease.token)
    return bool(texts and process and token and is_hash(lease.key) and _is_progress(lease.progress))


def _is_progress(progress: object) -> bool:
    known = {"step", "steps", "left"}
    return isinstance(progress, dict) and all(
        name in known and (value is None or is_number(value)) for name, value in progress.items()
    )


def alive(lease: Lease, path: Path) -> bool:
    if lease.host == socket.gethostname():
        return bool(lease.started) and process_start(lease.pid) == lease.started
    try:
        return abs(_now(path.parent) - path.stat().st_mtime) < STALE
    except OSError:
        return False


def drop_stale(results: Path, key: str) -> None:
    """Remove the lease of a unit whose holder is dead, once its end is recorded."""
    path = _path(results, key)
    held = read(path)
    if held is not None and not alive(held, path):
        with _claim(path, held) as ours:
            if ours:
                path.unlink(missing_ok=True)


def _path(results: Path, key: str) -> Path:
    return Path(results) / LEASES / f"{key[:32]}.json"


def _write(path: Path, lease: Lease) -> Path:
    draft = path.with_name(f".tmp-{os.getpid()}-{secrets.token_hex(4)}")
    draft.write_text(json.dumps(asdict(lease)), encoding="utf-8")
    return draft


def _place(draft: Path, path: Path) -> bool:
    """Give the draft its name unless that is taken."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without links: here two may both believe they were first
        if path.exists():
            return False
        os.replace(draft, path)
    return True


def _same_job(held: Lease, ours: Lease) -> bool:
    """A job that was requeued to another host finds the lease of its first life, and need not see it age."""
    return held.job is not None and held.job == ours.job and held.host != ours.host


@contextmanager
def _claim(path: Path, held: Lease | None) -> Iterator[bool]:
    """True while this process alone may replace or remove the stale lease `held`; False if another may.

    The right belongs to the process that creates a mark file named after the lease's token. With the mark in
    hand the lease is read again, since an earlier owner of the mark may have replaced it. A mark whose owner
    died is removed once it is older than STALE.
    """
    mark = path.with_name(f".tmp-claim-{path.stem}-{held.token if held else 'unreadable'}")
    try:
        handle = os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        with suppress(OSError):
            if _abandoned(mark):
                mark.unlink()
        yield False
        return
    os.write(handle, f"{socket.gethostname()} {os.getpid()} {process_start(os.getpid())}".encode())
    os.close(handle)
    try:
        found = read(path)
        same = found is None if held is None else found is not None and found.token == held.token
        yield same and path.exists()
    finally:
        mark.unlink(missing_ok=True)


def _abandoned(mark: Path) -> bool:
    """Whether the maker of a claim is dead: by its process on this host, by the claim's age elsewhere."""
    with suppress(OSError, ValueError):
        host, pid, started = read_regular(mark, MAX_BYTES).decode().split(" ")
        if host == socket.gethostname():
            return process_start(int(pid)) != started
    return abs(_now(mark.parent) - mark.stat().st_mtime) > STALE


def _now(folder: Path) -> float:
    """The file system's own clock, which may differ from this host's."""
    probe = folder / f".tmp-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        probe.touch()
        return probe.stat().st_mtime
    except OSError:  # a folder that can only be read
        return time.time()
    finally:
        with suppress(OSError):
            probe.unlink()
