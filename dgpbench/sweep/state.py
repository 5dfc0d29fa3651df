"""The state of every planned unit, from records and leases alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from dgpbench.config.keys import run_key
from dgpbench.store.layout import RECORD, labels_of, unit_folders
from dgpbench.store.record import NewerRecord
from dgpbench.store.scan import Unit, read_record, to_stderr
from dgpbench.sweep.lease import Lease, leases
from dgpbench.sweep.plan import Plan

NOT_TRIED_OUT = ("missing", "damaged", "interrupted", "stale")  # no verdict yet: to be run or resumed
RETRY = ("missing", "failed", "all", "none")


@dataclass(frozen=True)
class State:
    """State of one unit: the status of its record, or missing, damaged, newer, running or stale.

    A damaged record cannot be read and will be run again. A newer one was written by a later version of
    dgpbench and stays as it is.
    """

    status: str
    reason: str | None = None
    folder: Path | None = None
    seconds: float | None = None
    lease: Lease | None = None
    mark: tuple | None = None  # of the record's file: another one means a newer record


class Stored(NamedTuple):
    """The facts of a stored record that decide the state of a unit; an unreadable record has no key."""

    status: str
    reason: str | None
    mark: tuple
    key: str | None = None
    folder: Path | None = None
    seconds: float | None = None
    device: str | None = None
    threads: int | None = None


class Observer:
    """Looks at the units of a plan. A record that has not changed is not read again."""

    def __init__(self, plan: Plan, results: Path | None = None):
        self.plan, self.results = plan, Path(results or plan.results)
        self._seen: dict[Path, tuple[tuple, Stored | None]] = {}
        self._folders: dict[int, tuple[Path, ...]] = {}

    def look(self, indices: Sequence[int] | None = None) -> dict[int, State]:
        """The state of the units, by number."""
        held = {lease.key: (lease, alive) for lease, alive in leases(self.results)}
        numbers = range(len(self.plan.units)) if indices is None else indices
        return {i: self._state(i, held) for i in numbers}

    def _state(self, index: int, held: dict[str, tuple[Lease, bool]]) -> State:
        lease, alive = held.get(self.plan.units[index].key, (None, False))
        found = self._record(index)
        if found is None or found.status not in ("done", "newer"):
            if lease and alive:
                return State("running", lease.describe(), lease=lease)
            if lease:
                return State("stale", f"{lease.describe()} has gone without a word", lease=lease)
        if found is None:
            return State("missing")
        reason = None if found.status == "done" else found.reason
        return State(found.status, reason, found.folder, found.seconds, mark=found.mark)

    def _record(self, index: int) -> Stored | None:
        """Return what is stored of a unit, preferring a finished record."""
        found = None
        for folder in self._candidates(index):
            stored = self._read(folder)
            if stored is None or not self._belongs(stored, index):
                continue
            if not found or stored.status in ("done", "newer"):
                found = stored
        return found

    def _read(self, folder: Path) -> Stored | None:
        try:
            stat = os.lstat(folder / RECORD)
        except OSError:
            return None
        mark = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        if folder not in self._seen or self._seen[folder][0] != mark:
            self._seen[folder] = mark, _stored(folder, mark)
        return self._seen[folder][1]

    def _candidates(self, index: int) -> Sequence[Path]:
        if index not in self._folders:
            labels, key = labels_of(self.plan.config(index)), self.plan.units[index].key
            self._folders[index] = tuple(unit_folders(self.results, labels, key))
        own = self._folders[index]
        if not timed(self.plan.configs[self.plan.units[index].config]):
            return own
        return sorted(own[0].parent.glob(f"split{self.plan.units[index].split}-*"))

    def _belongs(self, stored: Stored, index: int) -> bool:
        """Return whether a stored record is of this unit.

        Under a time budget the key holds the machine too. A record of any machine counts if its threads are
        those of the plan, and its device if the plan names one. An unreadable one may be another machine's.
        """
        unit = self.plan.units[index]
        cfg = self.plan.configs[unit.config]
        if not timed(cfg):
            return stored.key in (None, unit.key)
        other_device = cfg["device"] != "auto" and not str(stored.device).startswith(cfg["device"])
        if stored.key is None or other_device or stored.threads not in (None, cfg["threads"]):
            return False
        machine = {"device": stored.device, "threads": stored.threads}
        key = run_key(cfg | {"split": unit.split, "seed": unit.seed} | machine, self.plan.data_hash(index))
        return stored.key == key


def timed(cfg: dict) -> bool:
    """True if device and threads are part of the key."""
    return cfg["budget"]["seconds"] is not None and not cfg["model"].get("closed_form")


def to_run(states: dict[int, State], retry: str) -> list[int]:
    """Return the units that a sweep has to run: by default those without a verdict.

    Units that run elsewhere, and records of a newer dgpbench, are never among them.
    """
    if retry == "none":
        return []
    keep = {
        "missing": lambda s: s in NOT_TRIED_OUT,
        "failed": lambda s: s not in ("done", "newer", "running"),
        "all": lambda s: s not in ("newer", "running"),
    }[retry]
    return [index for index, state in states.items() if keep(state.status)]


def find_record(plan: Plan, index: int) -> Unit | None:
    """The record of a planned unit with all its fields, whatever its status."""
    folder = Observer(plan).look([index])[index].folder
    if folder is None:
        return None
    record = read_record(folder)
    return Unit(record, folder / RECORD) if record else None


def _stored(folder: Path, mark: tuple) -> Stored | None:
    try:
        record = read_record(folder)
    except (ValueError, OSError) as error:
        newer = isinstance(error, NewerRecord)
        fate = "will not be replaced" if newer else "is damaged and will be run again"
        to_stderr(f"{folder / RECORD} {fate}: {error}")
        return Stored("newer" if newer else "damaged", str(error), mark)
    if record is None:
        return None
    machine = record.config.get("device"), record.config.get("threads")
    return Stored(record.status, record.reason, mark, record.key, folder, record.wall_seconds, *machine)
