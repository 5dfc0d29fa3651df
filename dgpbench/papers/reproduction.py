"""The published tables, cell by cell: one plan from a list of sweeps, records published as they finish.

Before each unit stands what it is, what it costs and what comes after it.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from dgpbench.errors import UserError
from dgpbench.store.layout import REFERENCE
from dgpbench.store.reference import load, publish
from dgpbench.sweep.costs import Costs
from dgpbench.sweep.launch import Watcher
from dgpbench.sweep.plan import Plan, Planned
from dgpbench.sweep.planner import Hashes, make_plan
from dgpbench.sweep.state import NOT_TRIED_OUT, State, find_record

VERDICTS = ("done", "diverged")  # facts about a method; other ends are facts about a machine
NO_NUMBERS = ("launcher.", "device=", "threads=")  # beginnings of settings that change no cell
UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}


class Line(NamedTuple):
    """One line of the list: the reference file, the words of a sweep, and where the line stands."""

    file: str
    words: list[str]
    place: str  # 'cells.txt, line 3'


def read_cells(path: Path, only: Sequence[str] = ()) -> list[Line]:
    """The lines of a list of cells that contain every text of `only`."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot read the cells {path} ({error.strerror}); name them with --cells") from None
    except UnicodeDecodeError as error:
        where = error.object.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}, line {where}: no text in UTF-8; a list of cells is a text file") from None
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        file, *words = line.partition("#")[0].split() or [""]
        if not file or not all(part in line for part in only):
            continue
        place = f"{path}, line {number}"
        if "=" in file or not words or not re.fullmatch(r"[A-Za-z0-9_]+", file):
            raise UserError(f"{place}: write NAME name=values ..., NAME a file of {REFERENCE}/")
        lines.append(Line(file, words, place))
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


def joint_plan(
    lines: Sequence[Line], extra: Sequence[str], *, fetch: bool, note: Callable[[str], None]
) -> tuple[Plan, list[int], dict[int, str]]:
    """One plan of all lines in their order, for each of its configs the number of its line, and for those
    whose data are not available the reason."""
    configs: list[dict] = []
    hashes: list[str] = []
    owners: list[int] = []
    units: dict[str, Planned] = {}
    data = Hashes(fetch, note, skip=True)
    given = {word.partition("=")[0] for word in extra}
    modest = [f"{name}=1" for name in ("threads", "launcher.workers") if name not in given]
    for number, line in enumerate(lines):
        try:
            part = make_plan([*line.words, *modest, *extra], fetch=fetch, note=note, hashes=data)
        except UserError as error:
            if any(name in str(error) for name in given):  # a word of the command, not of the list
                raise
            raise UserError(f"{line.place}: {error}") from None
        for unit in part.units:
            units.setdefault(unit.key, unit._replace(config=unit.config + len(configs)))
        configs += part.configs
        hashes += part.hashes
        owners += [number] * len(part.configs)
    command = [word for line in lines for word in line.words]
    lacking = {i: reason for i, cfg in enumerate(configs) if (reason := data.lacking(cfg))}
    return Plan(os.getcwd(), command, configs, hashes, list(units.values())), owners, lacking


def skipped(plan: Plan, todo: Iterable[int], lacking: dict[int, str]) -> list[str]:
    """One line for each dataset that is not available: the units that wait for it and the reason."""
    waiting: dict[str, list[int]] = {}
    for index in todo:
        if reason := lacking.get(plan.units[index].config):
            waiting.setdefault(reason, []).append(index)
    out = []
    for reason, indices in waiting.items():
        configs = [plan.configs[plan.units[i].config] for i in indices]
        names = ", ".join(dict.fromkeys(cfg["experiment"] or cfg["model"]["name"] for cfg in configs))
        count = f"{len(indices)} unit" + "s" * (len(indices) > 1)
        out.append(f"skipped {count} ({names} on {configs[0]['dataset']['name']}): {reason}")
    return out


class Reference:
    """The files that the records of a plan are published in; what other folders hold is known too."""

    def __init__(self, plan: Plan, files: Sequence[str], folder: Path, known: Sequence[Path] = ()):
        self.plan, self.folder, self.files = plan, folder, files
        places = {place.resolve(): place for place in (*reversed(known), folder)}
        self.known = list(places.values())
        self.held = {
            unit.record.key: unit.record.status
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
        if unit is None or unit.record.status not in VERDICTS:
            return 0
        added = publish([unit], self._path(self.files[self.plan.units[index].config]))
        self.held[unit.record.key] = unit.record.status
        return added

    def over(self, states: dict[int, State]) -> dict[int, State]:
        """The states of units here, or of those published where there is no verdict here."""
        out = {}
        for index, state in states.items():
            status = self.held.get(self.plan.units[index].key)
            better = status == "done" or state.status in NOT_TRIED_OUT
            out[index] = State(status) if status and better else state
        return out


def agenda(lines: Sequence[Line], owners: Sequence[int], states: dict[int, State], costs: Costs) -> list[str]:
    """What is done and what the rest costs, line by line of the list; then what comes first."""
    left: dict[int, list[int]] = {number: [] for number in range(len(lines))}
    done = Counter[int]()
    for index, state in states.items():
        owner = owners[costs.plan.units[index].config]
        if state.status in NOT_TRIED_OUT:
            left[owner].append(index)
        else:
            done[owner] += 1
    out = []
    for number, line in enumerate(lines):
        count = f"{done[number]}/{done[number] + len(left[number])}"
        cost = costs.hours(left[number]) if left[number] else "done"
        out.append(f"{count:>7}  {cost:<16}  {line.file}  {' '.join(line.words)}")
    return out


class Publisher(Watcher):
    """Shows what runs, what it costs and what is next, and publishes each record as soon as it is there."""

    def __init__(
        self,
        reference: Reference,
        todo: Sequence[int],
        costs: Costs,
        quiet: bool = False,
        verbose: bool = False,
    ):
        super().__init__(reference.plan, todo, quiet, verbose, costs)
        self.reference, self.waiting = reference, dict.fromkeys(todo)

    def started(self, index: int, slot) -> None:
        """Say what runs now, what comes next and what is left."""
        super().started(index, slot)
        left = self.costs.hours(self.waiting)
        self.waiting.pop(index, None)
        after = next(iter(self.waiting), None)
        then = "" if after is None else f"; next {self.costs.text(after)}"
        self.say(f"now {self.costs.text(index)}{then}; {left} left")

    def ended(self, index: int, status: str, reason: str | None) -> None:
        """Publish the record."""
        super().ended(index, status, reason)
        self.reference.publish(index)


def seconds_of(text: str) -> float:
    """Seconds of '2h', '90m', '1h30m' or '45s'."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([hms])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UserError(f"'{text}' is no length of time; write 2h, 90m, 1h30m or 45s")
    seconds = sum(float(number) * UNITS[unit] for number, unit in parts)
    if not seconds:
        raise UserError(f"{text} leaves no time to run anything; --dry-run lists what there is to do")
    return seconds
