"""One run by what a user has in hand: its folder, its record.json, or the first digits of its key."""

from __future__ import annotations

import re
from pathlib import Path

from dgpbench.errors import UserError
from dgpbench.store.layout import RECORD, results_folder
from dgpbench.store.scan import Unit, read_record, scan

KEY = re.compile(r"[0-9a-f]{4,64}")
HOW = "give a run's folder, its record.json, or the key that `dgpbench show --each` lists"


def locate(run: str | Path, results: str | Path | None = None) -> Unit:
    """The finished run that `run` names; UserError if there is none, or more than one."""
    path = Path(run).expanduser()
    folder = path.parent if path.name == RECORD else path
    if folder.is_dir():
        return _finished(_in_folder(folder))
    if not KEY.fullmatch(str(run)):
        raise UserError(f"no run {run}; {HOW}")
    where = results_folder(results)
    found = scan(where, reference=False, traces=True, trials=True)
    units = [unit for unit in found if unit.record["key"].startswith(str(run))]
    if not units:
        raise UserError(f"no run in {where} has a key that begins with {run}; {HOW}")
    if len(units) > 1:
        raise UserError(f"{len(units)} runs in {where} have a key that begins with {run}; give more digits")
    return _finished(units[0])


def _in_folder(folder: Path) -> Unit:
    try:
        record = read_record(folder)
    except ValueError as error:
        raise UserError(f"{folder / RECORD} cannot be read: {error}") from None
    if record is None:
        raise UserError(f"{folder} holds no {RECORD}; {HOW}")
    return Unit(record, folder / RECORD)


def _finished(unit: Unit) -> Unit:
    status = unit.record["status"]
    if status != "done":
        reason = unit.record["reason"] or "no reason recorded"
        raise UserError(f"{unit.path} is {status} ({reason}); run it again to have a fitted model")
    return unit
