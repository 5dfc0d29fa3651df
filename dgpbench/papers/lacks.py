"""What a table or a figure still needs: runs, data that only a hand can place; or why there is none."""

from __future__ import annotations

from collections.abc import Sequence

from dgpbench.papers.figures import FigureSpec
from dgpbench.papers.figures.records import pairs
from dgpbench.papers.table import Table
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
