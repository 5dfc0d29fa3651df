"""Choose runs by what a user writes, and read the predictions, draws and trace that were kept of a run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dgpbench.errors import UserError
from dgpbench.store import read
from dgpbench.store.filters import select
from dgpbench.store.layout import RECORD
from dgpbench.store.record import Record
from dgpbench.store.scan import Unit, read_record, scan

KEY = re.compile(r"[0-9a-f]{4,64}")


def choose(words: Sequence[str], results: Path) -> list[Unit]:
    """The runs that `words` name, with their traces; UserError if there are none."""
    if not words:
        raise UserError("name a run (its folder or the first digits of its key) or field=value, as for show")
    filters = [word for word in words if "=" in word and not Path(word).exists()]
    named = [word for word in words if word not in filters]
    units = [unit for word in named if (unit := _in_folder(word))]
    keys = [word for word in named if not _in_folder(word)]
    for word in keys:
        if not KEY.fullmatch(word):
            raise UserError(
                f"'{word}' is no run: give its folder, the first digits of its key, or field=value"
            )
    if keys or filters:
        found = scan(results, reference=False, traces=True)
        units += [u for u in found if any(u.record.key.startswith(key) for key in keys)]
        units += select(found, filters) if filters and not named else []
    if filters and named:
        units = select(units, filters)
    if not units:
        raise UserError(f"no run of {results} matches {' '.join(words)}; `dgpbench show --each` lists them")
    return units


def _in_folder(word: str) -> Unit | None:
    """The unit of a run's folder or of its record.json."""
    path = Path(word).expanduser()
    folder = path.parent if path.name == RECORD else path
    try:
        record = read_record(folder)
    except (ValueError, OSError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    return Unit(record, folder / RECORD) if record else None


def predictions_of(unit: Unit) -> tuple[dict[str, np.ndarray], str]:
    """Columns of the predictions, of several outputs the first; or none, and why."""
    try:
        columns = read.predictions(unit)
    except UserError as error:
        return {}, str(error)
    if "output" not in columns or not columns["output"].any():
        return columns, ""
    first = columns["output"] == 0
    return {name: values[first] for name, values in columns.items()}, "several outputs: the first is drawn"


def draws_over_x(unit: Unit) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """x (R,), observations (R,) and draws (R, n) of the kept rows, of several outputs the first; None where
    there is not one input, or nothing was kept."""
    if unit.record.sizes.get("inputs") != 1:
        return None
    try:
        kept = read.draws(unit)
    except UserError:
        return None
    first = kept["output"] == 0
    return kept["x"][first, 0], kept["y"][first], kept["draws"][first]


def trace_of(record: Record) -> list[list]:
    """Step, seconds and bound of each entry of the trace, the last two None where they are not known. Entries
    without a step or with fewer numbers, as others may have written them, are left out."""
    trace = record.training.get("trace") or ()
    return [line[:3] for line in trace if len(line) >= 3 and line[0] is not None]
