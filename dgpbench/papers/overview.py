"""Which tables there are, how far each has been run, and what a table or a figure still needs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from dgpbench.papers import specs
from dgpbench.papers.compare import agreement
from dgpbench.papers.figures import FigureSpec
from dgpbench.papers.figures.records import pairs
from dgpbench.papers.table import Table
from dgpbench.report.grid import Entry, Grid, Line, plain
from dgpbench.store.filters import select
from dgpbench.store.scan import Unit


def of_table(table: Table) -> str:
    """In words, or '' for a table whose splits are all done."""
    if not table.expected:
        return table.spec.lacks or "experiments, and their runs"
    parts = []
    if left := table.expected - table.done:
        parts.append(f"{left:,} runs" if table.spec.ours == "records" else f"{left:,} measurements")
    named = [(cell.place.dataset, cell) for cell in table.cells.values() if cell.place.dataset]
    unknown = {name for name, cell in named if (cell.absent or "").startswith("no dataset")}
    used = {name for name, cell in named if cell.missing}
    by_hand = sorted(unknown | {name for name in used if _by_hand(name)})
    if by_hand:
        parts.append(f"data of {', '.join(by_hand)}")
    return "; ".join(parts)


def _by_hand(dataset: str) -> bool:
    """Whether a dataset's page asks for a login, so that its file is placed by hand."""
    from dgpbench.data.catalogue import catalogue

    entry = catalogue().get(dataset)
    return entry is not None and bool(entry.sources) and all(s.kind == "manual" for s in entry.sources)


def of_figure(spec: FigureSpec, units: Sequence[Unit], tables: dict[str, Table]) -> str:
    """In words, or '' for a figure that needs no records or has those it takes."""
    if spec.lacks:
        return f"lacks {spec.lacks}" if spec.lacks.startswith("data") else f"not drawn: {spec.lacks}"
    if spec.table:
        table = tables[spec.table]
        with_runs = {column for (_, column), cell in table.cells.items() if cell.values}
        few = len(with_runs) < (2 if spec.kind == "ranks" else 1)
        return f"lacks runs of table {spec.table}" if few else ""
    if not spec.records:
        return ""
    found = [unit for unit in select(units, spec.select) if unit.record["status"] == "done"]
    if not found:
        return f"lacks runs with {' '.join(spec.select)}" + (f"; {spec.needs}" if spec.needs else "")
    if spec.kind == "gains" and not pairs(found):
        return f"lacks pairs of runs with {' '.join(spec.select)}, on one split with one model.num_inducing"
    if spec.files and all(unit.is_reference for unit in found):
        return f"lacks runs here with {' '.join(spec.select)}: published records come without {spec.files}"
    return ""


NUMBERS = 54  # characters of a line of the first screen besides what the table is
SHORTEST = 24  # characters of what a table is
BEGIN = "no record of these tables here; dgpbench run experiment=dsvi2017_sgp dataset=boston makes one"
EMPTY = ("ours", "failed", "published cells")  # of a table without numbers


def overview(tables: list[Table], folder: Path) -> Grid:
    """One line per table: what it is and how far it has been run."""
    lines = [
        {
            "table": " ".join([t.spec.name, *t.spec.chosen]),
            "what": t.spec.title,
            "ours": f"{t.done}/{t.expected}" if t.expected else "",
            "failed": t.failed,
            "published cells": sum(c.published is not None for c in t.cells.values()),
            "lacks": of_table(t),
        }
        for t in tables
    ]
    lines += [
        {"table": name, "what": other["title"], **dict.fromkeys(EMPTY, ""), "lacks": other["why"]}
        for name, other in specs.others().items()
        if "why" in other
    ]
    empty = not any(cell.units for table in tables for cell in table.cells.values())
    notes = (
        *((BEGIN,) if empty else ()),
        f"records from {folder}, its reference/ and community/; ours: splits done / expected",
        "dgpbench tables 5.1 prints one; --compare, --stats, --calibration, --frontier, --missing, --format",
    )
    return plain("Tables", lines, name="overview", notes=notes)


def first_screen(tables: Sequence[Table], folder: Path, width: int) -> Grid:
    """Return one line of `width` per table: what it is, cells filled, and agreement with print.

    A table and its variants share a line.
    """
    room = max(SHORTEST, width - NUMBERS)
    groups: dict[str, list[Table]] = {}
    for table in tables:
        groups.setdefault(table.spec.name, []).append(table)
    lines = []
    for name, group in groups.items():
        filled = {at for table in group for at, cell in table.cells.items() if cell.values}
        found = agreement(group)
        compared = found["compared"]
        entries = (
            Entry(textwrap.shorten(group[0].spec.title, room, placeholder=" ...", break_on_hyphens=False)),
            Entry(f"{len(filled)}/{len(group[0].cells)}"),
            Entry(f"{found['within 2 s.e.']}/{compared}" if compared else "", value=compared),
            Entry(str(found["explained"] or ""), value=found["explained"]),
            Entry(str(found["open"] or ""), value=found["open"]),
        )
        lines.append(Line((name,), entries))
    names = ", ".join(name for name, other in specs.others().items() if "why" in other)
    varied = [name for name, group in groups.items() if len(group) > 1]
    every = agreement(tables)
    notes = (
        *((BEGIN,) if not any(cell.units for table in tables for cell in table.cells.values()) else ()),
        f"in all {every['within 2 s.e.']} of {every['compared']} cells agree; records from {folder}, its "
        "reference/ and community/",
        "filled: cells with a run; agree: within 2 combined standard errors of the published number; "
        "explained: another run agrees; open: neither",
        f"with variants (--variant NAME) counted in: {', '.join(varied)}" if varied else "",
        "dgpbench tables S7 prints a table; add --compare, --stats, --calibration, --frontier or --missing",
        "dgpbench tables kin8nm prints all numbers of a dataset",
        f"dgpbench tables --all prints every comparison, and what is missing; {names} have no numbers",
    )
    heads = ("what", "filled", "agree", "explained", "open")
    return Grid("tables", "Tables", "", ("table",), heads, tuple(lines), [], tuple(filter(None, notes)))
