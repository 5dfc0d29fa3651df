"""Taking in the records of another results folder, companions and all."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from dgpbench.errors import UserError
from dgpbench.store.scan import Unit, find, scan
from dgpbench.store.trust import check_record
from dgpbench.store.untrusted import open_regular
from dgpbench.store.write import copy_unit
from dgpbench.sweep.child import LOG

SAME = 1e-6  # relative; metrics of one key that differ by more are worth a word
MAX_LOG = 16 << 20
ReadExport = Callable[[Path], list[Unit]]


def merge(
    source: Path,
    results: Path,
    warn: Callable[[str], None],
    read_export: ReadExport,
    allow: Sequence[str] = (),
) -> Counter:
    """Copy what `results` lacks, or has not done, from a results folder or a file that `show --export` wrote;
    returns how many were taken, kept, damaged, refused, different. `allow`: packages whose code the records
    may name; `read_export` reads such a file (api.record_tables.read_export)."""
    counts: Counter[str] = Counter()
    for unit in _units(source, _counting(warn, counts), read_export):
        try:
            check_record(unit.record, allow)
        except ValueError as error:
            counts["refused"] += 1
            warn(f"{unit.path} is not taken: {error}")
            continue
        try:
            held = find(results, unit.record.config, unit.record.key)
        except UserError as error:  # ours was written by a newer dgpbench
            counts["refused"] += 1
            warn(f"{unit.path} is not copied: {error}")
            continue
        if held and held.record.done:
            counts["kept"] += 1
            if unit.record.done and (name := _difference(unit, held)):
                counts["different"] += 1
                warn(f"{unit.path} and {held.path} have one key and differ in {name}; ours stays")
            continue
        if held and not unit.record.done and held.record.finished >= unit.record.finished:
            counts["kept"] += 1
            continue
        try:
            taken, ours = copy_unit(results, unit)
        except (ValueError, FileNotFoundError) as error:
            counts["damaged"] += 1
            warn(f"{unit.path} is not taken: {error}")
            continue
        if ours:
            with suppress(OSError, ValueError):  # a log is good to have, not needed
                _copy_log(unit.folder / LOG, taken.folder / LOG)
        counts["taken" if ours else "kept"] += 1
    return counts


def _copy_log(source: Path, target: Path) -> None:
    """Copy a log of decent size to where there is none yet; neither end may be a link."""
    with os.fdopen(open_regular(source), "rb") as file:
        if os.fstat(file.fileno()).st_size > MAX_LOG:
            return
        with open(target, "xb") as out:
            shutil.copyfileobj(file, out)


def _units(source: Path, warn: Callable[[str], None], read_export: ReadExport) -> list[Unit]:
    if source.is_dir():
        return scan(source, reference=False, traces=True, trials=True, warn=warn)
    return read_export(source)


def _counting(warn: Callable[[str], None], counts: Counter) -> Callable[[str], None]:
    def told(text: str) -> None:
        counts["damaged"] += 1
        warn(text)

    return told


def _difference(one: Unit, other: Unit) -> str | None:
    """The first metric in which two records differ, with both values."""
    for name, value in one.record.metrics.items():
        theirs = other.record.metrics.get(name)
        if value is None or theirs is None:
            continue
        if abs(value - theirs) > SAME * max(1.0, abs(value), abs(theirs)):
            return f"{name} ({value:.6g} and {theirs:.6g})"
    return None
