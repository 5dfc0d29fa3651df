"""Which tables there are, how far each has been run, and what a table or a figure still needs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from dgpbench.papers import specs
from dgpbench.papers.figures import FigureSpec
from dgpbench.papers.figures.record_figures import pairs
from dgpbench.papers.paper_table import Table
from dgpbench.papers.verdict import EQUIVALENT, KINDS
from dgpbench.papers.views import agreement
from dgpbench.report.grid import Entry, Grid, Line, plain
from dgpbench.store.filters import select
from dgpbench.store.scan import Unit


def missing_of_table(table: Table) -> str:
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


def missing_of_figure(spec: FigureSpec, units: Sequence[Unit], tables: dict[str, Table]) -> str:
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
    found = [unit for unit in select(units, spec.select) if unit.record.done]
    if not found:
        return f"lacks runs with {' '.join(spec.select)}" + (f"; {spec.needs}" if spec.needs else "")
    if spec.kind == "gains" and not pairs(found):
        return f"lacks pairs of runs with {' '.join(spec.select)}, on one split with one model.num_inducing"
    if spec.files and all(unit.is_reference for unit in found):
        return f"lacks runs here with {' '.join(spec.select)}: published records come without {spec.files}"
    return ""


NUMBERS = 56  # characters of a line of the first screen besides what the table is
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
            "lacks": missing_of_table(t),
        }
        for t in tables
    ]
    lines += [
        {"table": name, "what": other["title"], **dict.fromkeys(EMPTY, ""), "lacks": other["why"]}
        for name, other in specs.other_tables().items()
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
    """Return one line of `width` per table: what it is, cells filled, and verdicts.

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
        kinds = [Entry(str(found[kind] or ""), value=found[kind]) for kind in KINDS[1:]]
        entries = (
            Entry(textwrap.shorten(group[0].spec.title, room, placeholder=" ...", break_on_hyphens=False)),
            Entry(f"{len(filled)}/{len(group[0].cells)}"),
            Entry(f"{found[EQUIVALENT]}/{compared}" if compared else "", value=compared),
            *kinds,
        )
        lines.append(Line((name,), entries))
    names = ", ".join(name for name, other in specs.other_tables().items() if "why" in other)
    varied = [name for name, group in groups.items() if len(group) > 1]
    every = agreement(tables)
    notes = (
        *((BEGIN,) if not any(cell.units for table in tables for cell in table.cells.values()) else ()),
        f"in all {every[EQUIVALENT]} of {every['compared']} compared cells are equivalent to print; records "
        f"from {folder}, its reference/ and community/",
        "filled: cells with a run; equiv.: equivalent, within 0.1 nat or 10 % over as many runs as print; "
        "diff.: different; undec.: undecided, too few runs; expl.: different, with a known cause",
        f"with variants (--variant NAME) counted in: {', '.join(varied)}" if varied else "",
        "dgpbench tables S7 prints a table; add --compare, --stats, --calibration, --frontier or --missing",
        "dgpbench tables kin8nm prints all numbers of a dataset",
        f"dgpbench tables --all prints every comparison, and what is missing; {names} have no numbers",
    )
    heads = ("what", "filled", "equiv.", "diff.", "undec.", "expl.")
    return Grid("tables", "Tables", "", ("table",), heads, tuple(lines), [], tuple(filter(None, notes)))
