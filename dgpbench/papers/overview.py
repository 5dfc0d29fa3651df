"""Overview: which tables there are and how far each has been run."""

from __future__ import annotations

from pathlib import Path

from dgpbench.papers import lacks, specs
from dgpbench.papers.table import Table
from dgpbench.report.grid import Grid, plain

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
            "lacks": lacks.of_table(t),
        }
        for t in tables
    ]
    lines += [
        {"table": name, "what": other["title"], **dict.fromkeys(EMPTY, ""), "lacks": other["why"]}
        for name, other in specs.others().items()
        if "why" in other
    ]
    empty = not any(cell.units for table in tables for cell in table.cells.values())
    begin = "no record of these tables here; dgpbench run experiment=dsvi2017_sgp dataset=boston makes one"
    notes = (
        *((begin,) if empty else ()),
        f"records from {folder}, its reference/ and community/; ours: splits done / expected",
        "dgpbench tables 5.1 prints one; --compare, --stats, --calibration, --frontier, --missing, --format",
    )
    return plain("Tables", lines, name="overview", notes=notes)
