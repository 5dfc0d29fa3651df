"""Runs by what a user says of them: a folder, a record, the first digits of a key, or field=value words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from dgpbench.errors import UserError
from dgpbench.store.filters import select
from dgpbench.store.layout import RECORD
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
        units += [u for u in found if any(u.record["key"].startswith(key) for key in keys)]
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
