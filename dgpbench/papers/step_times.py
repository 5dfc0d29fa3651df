"""Cells of a table of step times, from a file that `python -m benchmarks` has written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from dgpbench.errors import UserError
from dgpbench.papers.cells import Cell
from dgpbench.papers.published import find
from dgpbench.papers.specs import Spec
from dgpbench.store.untrusted import parse_json, read_regular


class Measured(NamedTuple):
    """Seconds of a step by turn, and why there are none."""

    seconds: tuple[float, ...] = ()
    failure: str | None = None


def perf_cells(spec: Spec, files: Sequence[Path]) -> dict[tuple[str, str], Cell]:
    """Step times from the first of the files that exists, in seconds, by turn."""
    path = next((path for path in files if path.is_file()), None)
    times = _times(path) if path else {}
    out = {}
    for at, place in spec.places.items():
        cell = out[at] = Cell(place, published=find(place.published))
        if not place.case or not place.system:
            cell.absent = "not measured: python -m benchmarks runs on the processor"
            continue
        found = times.get((place.case, place.system), Measured())
        cell.values = dict(enumerate(found.seconds))
        cell.expected = max(len(cell.values), 1)
        if found.failure:
            cell.failed = {0: found.failure}
    return out


def _times(path: Path) -> dict[tuple[str, str], Measured]:
    """Step times by case and system; UserError for a file of another kind."""
    try:
        cells = parse_json(read_regular(path.resolve()))["cells"]
        return {(cell["case"], cell["system"]): _measured(cell) for cell in cells}
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise UserError(f"{path} holds no step times ({why}); measure again: python -m benchmarks") from None


def _measured(cell: dict) -> Measured:
    failure = None if cell["status"] == "ok" else f"{cell['status']}: {cell['reason']}"
    return Measured(tuple(float(ms) / 1000 for ms in cell["step_ms"]), failure)
