"""Commands that make what a table lacks. Their wording stands here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from shlex import quote

from dgpbench.report.table import Cell

SHOWN_SPLITS = 4  # one by one in a command; more are a range


def run_command(cell: Cell, split: int) -> str:
    """The command of one unit."""
    place = cell.place
    if place.command:
        return place.command
    return " ".join(["dgpbench run", *_settings(cell), f"dataset={place.dataset}", f"split={split}"])


def sweep_command(cells: Sequence[Cell]) -> str:
    """The command of all that is missing in cells of one experiment; a sweep leaves out what is done."""
    datasets = ",".join(dict.fromkeys(cell.place.dataset for cell in cells if cell.place.dataset))
    splits = sorted({split for cell in cells for split in cell.missing})
    chosen = cells[0].place.splits or cells[0].wanted is not None  # not simply all splits of the protocol
    few = [_split_word(splits)] if chosen or len(splits) < (cells[0].expected or 0) else []
    return " ".join(["dgpbench sweep", *_settings(cells[0]), f"dataset={datasets}", *few])


def _split_word(splits: Sequence[int]) -> str:
    """split=3,7 or, of many that follow each other, 'split=range(3,20)'."""
    first, last = splits[0], splits[-1]
    if len(splits) > SHOWN_SPLITS and len(splits) == last - first + 1:
        return quote(f"split=range({first},{last + 1})")
    return f"split={','.join(map(str, splits))}"


def commands(cells: Iterable[Cell]) -> list[str]:
    """Commands for every unit that is neither done nor failed, ready for a shell."""
    return [_one_for_all(group) for group in _groups(cells)]


def summary(cells: Iterable[Cell]) -> list[str]:
    """One line per command: columns that lack something, how many runs in how many cells, what makes them."""
    lines = []
    for group in _groups(cells):
        columns = ", ".join(dict.fromkeys(cell.place.column for cell in group))
        units = len({(cell.place.dataset, split) for cell in group for split in cell.missing})
        lines.append(f"{columns}: {units} in {len(group)} cells, {_one_for_all(group)}")
    return lines


def _one_for_all(group: Sequence[Cell]) -> str:
    return run_command(group[0], 0) if group[0].place.command else sweep_command(group)


def _groups(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Cells that lack something, together where one sweep serves them all: columns may share their runs."""
    found: dict[tuple, list[Cell]] = {}
    for cell in cells:
        if cell.missing:
            place = cell.place
            found.setdefault((place.words, place.config_dirs, place.command), []).append(cell)
    return list(found.values())


def _settings(cell: Cell) -> list[str]:
    folders = [word for folder in cell.place.config_dirs for word in ("--config-dir", folder)]
    return [quote(word) for word in (*folders, *cell.place.words)]
