"""The published tables, cell by cell: one plan from a list of sweeps, records published as they finish."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from dgpbench.errors import UserError
from dgpbench.store.layout import REFERENCE
from dgpbench.store.reference import load, publish
from dgpbench.sweep.plan import Plan, Planned
from dgpbench.sweep.planner import make_plan
from dgpbench.sweep.state import State, find_record
from dgpbench.sweep.watch import Watcher

VERDICTS = ("done", "diverged")  # facts about a method; other ends are facts about a machine
NO_NUMBERS = ("launcher.", "device=", "threads=")  # beginnings of settings that change no cell
UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}


class Line(NamedTuple):
    """One line of the list: the reference file and the words of a sweep."""

    file: str
    words: list[str]


def read_cells(path: Path, only: Sequence[str] = ()) -> list[Line]:
    """The lines of a list of cells that contain every text of `only`."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot read the cells {path} ({error.strerror}); name them with --cells") from None
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        file, *words = line.partition("#")[0].split() or [""]
        if not file or not all(part in line for part in only):
            continue
        if "=" in file or not words or not re.fullmatch(r"[A-Za-z0-9_]+", file):
            raise UserError(f"{path}, line {number}: write NAME name=values ..., NAME a file of {REFERENCE}/")
        lines.append(Line(file, words))
    if not lines:
        raise UserError(f"no cells in {path}" + (f" with {' and '.join(only)}" if only else ""))
    return lines


def check_extra(words: Sequence[str]) -> None:
    """UserError for a word that would make another cell, or another launcher."""
    for word in words:
        if not word.startswith(NO_NUMBERS):
            raise UserError(
                f"'{word}' cannot be set here, where the cells say what is run; launcher.NAME=, device= and "
                "threads= can. For other settings use dgpbench sweep"
            )


def joint_plan(lines: Sequence[Line], extra: Sequence[str], *, fetch: bool, note: Callable[[str], None]):
    """One plan of all lines in their order, and for each of its configs the name of its reference file."""
    configs, hashes, files = [], [], []
    units: dict[str, Planned] = {}
    threads = [] if any(word.startswith("threads=") for word in extra) else ["threads=1"]
    for file, words in lines:
        part = make_plan([*words, *threads, *extra], fetch=fetch, note=note)
        for unit in part.units:
            units.setdefault(unit.key, unit._replace(config=unit.config + len(configs)))
        configs += part.configs
        hashes += part.hashes
        files += [file] * len(part.configs)
    command = [word for line in lines for word in line.words]
    return Plan(os.getcwd(), command, configs, hashes, list(units.values())), files


class Reference:
    """The files that the records of a plan are published in; what other folders hold is known too."""

    def __init__(self, plan: Plan, files: Sequence[str], folder: Path, known: Sequence[Path] = ()):
        self.plan, self.folder, self.files = plan, folder, files
        places = {place.resolve(): place for place in (*reversed(known), folder)}
        self.held = {
            unit.record["key"]: unit.record["status"]
            for place in places.values()
            for name in dict.fromkeys(files)
            for unit in load(place / f"{name}.jsonl.gz")
        }

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl.gz"

    def publish(self, index: int) -> int:
        """Add the record of a unit that has come to a verdict; returns 1 if it is new."""
        if self.held.get(self.plan.units[index].key) == "done":
            return 0
        unit = find_record(self.plan, index)
        if unit is None or unit.record["status"] not in VERDICTS:
            return 0
        added = publish([unit], self._path(self.files[self.plan.units[index].config]))
        self.held[unit.record["key"]] = unit.record["status"]
        return added

    def over(self, states: dict[int, State]) -> dict[int, State]:
        """The states of units here, or of those published where there is no verdict here."""
        out = {}
        for index, state in states.items():
            status = self.held.get(self.plan.units[index].key)
            better = status == "done" or state.status in ("missing", "interrupted", "stale")
            out[index] = State(status) if status and better else state
        return out


class Publisher(Watcher):
    """Shows what runs, and publishes each record as soon as it is there."""

    def __init__(self, reference: Reference, total: int, quiet: bool = False, verbose: bool = False):
        super().__init__(reference.plan, total, quiet, verbose)
        self.reference = reference

    def ended(self, index: int, status: str, reason: str | None) -> None:
        super().ended(index, status, reason)
        self.reference.publish(index)


def seconds_of(text: str) -> float:
    """Seconds of '2h', '90m', '1h30m' or '45s'."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([hms])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UserError(f"'{text}' is no length of time; write 2h, 90m, 1h30m or 45s")
    return sum(float(number) * UNITS[unit] for number, unit in parts)
