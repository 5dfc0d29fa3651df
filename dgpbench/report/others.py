"""Records of others in tables: the mark of cells that hold them, and the note that says which these are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from dgpbench.store.scan import Unit

if TYPE_CHECKING:
    from dgpbench.report.table import Cell

MARK = "‡"
NOT_RERUN = "consistent, not re-run"
SHOWN_CELLS = 12


def community(units: Iterable[Unit]) -> list[Unit]:
    """Those that come from results/community/."""
    return [unit for unit in units if unit.is_community]


def not_recomputed(units: Iterable[Unit]) -> str:
    """', metrics not recomputed', with how many if not of all; nothing if all were."""
    found = community(units)
    bare = sum(not unit.is_recomputed for unit in found)
    if not bare:
        return ""
    return f", metrics{'' if bare == len(found) else f' of {bare}'} not recomputed"


def others_note(cells: Mapping[tuple[str, str], Cell]) -> list[str]:
    """What the mark means and which cells have it; nothing where none has."""
    told = [
        f"{row} {column} ({cell.community} of {len(cell.units)} records{not_recomputed(cell.units)})"
        for (row, column), cell in cells.items()
        if cell.community
    ]
    if not told:
        return []
    more = len(told) - SHOWN_CELLS
    named = "; ".join(told[:SHOWN_CELLS]) + (f"; and {more} more cells" if more > 0 else "")
    return [f"{MARK}: with records of others from results/community/, {NOT_RERUN}: {named}"]
