"""The papers' tables and figures, each table with the figures that belong to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

from dgpbench.papers import figures, specs
from dgpbench.papers.compare import comparison
from dgpbench.papers.leaderboard import board
from dgpbench.papers.load import all_tables, tables_of
from dgpbench.papers.overview import overview
from dgpbench.papers.published import citations
from dgpbench.papers.table import Table
from dgpbench.papers.views import side_by_side, title
from dgpbench.report.calibration import calibration
from dgpbench.report.figures.picture import Nothing, Picture
from dgpbench.report.frontier import frontier
from dgpbench.report.grid import Grid, Line, plain
from dgpbench.report.page.frame import Part, figure, told
from dgpbench.report.page.links import Links
from dgpbench.report.render.html import render
from dgpbench.report.significance import significance_grids
from dgpbench.store.scan import Unit

HOW_TO_READ = (
    "ours: splits done / expected. Click a column to sort by it; rest on or tap a cell for its reasons and "
    "records.",
    "Mean (standard error) over splits; bold where error bars overlap the best; italics where marginals are "
    "not Gaussian; ? marks a doubtful reading of a damaged copy, ‡ records of others, which were not re-run.",
)


def part(units: Sequence[Unit], results: Path, links: Links) -> Part:
    """The leaderboard and the papers' tables and figures, for `dgpbench report`."""
    html, undrawn = papers(units, all_tables(units, results), results, links)
    sections = [("leaderboard", "Leaderboard", leaderboards(units, results)), ("papers", "Papers", html)]
    cited = [{"source": name, "reference": text} for name, text in citations().items()]
    return Part(sections, undrawn, render(plain("Published numbers", cited, name="sources")))


def papers(
    units: Sequence[Unit], tables: Sequence[Table], results: Path, links: Links
) -> tuple[str, list[str]]:
    """Overview, tables (open where the user has runs in them) and figures; and which could not be drawn."""
    drawn, undrawn = _pictures(units, {t.spec.name: t for t in tables if not t.spec.chosen})
    html = render(replace(overview(list(tables), results), notes=HOW_TO_READ))
    for table in tables:
        own = [p for p in drawn if figures.find(p.name).table == table.spec.name and not table.spec.chosen]
        html += _table(table, own, links)
    rest = [picture for picture in drawn if figures.find(picture.name).table is None]
    inside = "".join(figure(picture, f"dgpbench figures {picture.name}") for picture in rest)
    html += f'<details id="figures"><summary>Figures: {len(rest)}</summary>{inside}</details>' if rest else ""
    return html + told("Figures not drawn", undrawn), undrawn


def _pictures(units: Sequence[Unit], tables: dict[str, Table]) -> tuple[list[Picture], list[str]]:
    drawn, undrawn = [], []
    for name, spec in figures.figure_specs().items():
        if spec.lacks or spec.same:
            continue
        if spec.asked:
            undrawn.append(f"{name}: {spec.title}: trained for; `dgpbench figures {name}` draws it")
            continue
        try:
            drawn.append(figures.make(spec, units, (), tables))
        except Nothing as nothing:
            undrawn.append(f"{name}: {spec.title}: {nothing}")
    return drawn, undrawn


def _table(table: Table, pictures: Sequence[Picture], links: Links) -> str:
    """One table in a fold: side by side, then what goes further, then its figures."""
    name = "-".join((table.spec.name, *table.spec.chosen))
    own = any(not unit.is_reference for cell in table.cells.values() for unit in cell.units)
    begun = table.done or table.failed
    state = f"ours {table.done} of {table.expected} splits" if begun else "no run"
    summary = f"<summary><b>{escape(' '.join((table.spec.name, *table.spec.chosen)))}</b> "
    summary += f"{escape(table.spec.title)} <small>{state}</small></summary>"
    html = render(_prepared(side_by_side(table), name, links))
    for heading, grids in _further(table) if begun else ():
        inside = "".join(render(replace(_prepared(g, name, links), missing=(), blocks=())) for g in grids)
        html += f"<details><summary>{escape(heading)}</summary>{inside}</details>"
    html += "".join(figure(picture, f"dgpbench figures {picture.name}") for picture in pictures)
    return f'<details class="paper" id="t-{escape(name)}"{" open" if own else ""}>{summary}{html}</details>'


def leaderboards(units: Sequence[Unit], results: Path) -> str:
    """The leaderboards of the tables that are one, a fold for each metric, and accuracy against seconds."""
    html = ""
    for spec in (found for name in specs.names() if (found := specs.load(name)).board):
        others = [
            specs.load(spec.name, [name]) for name in spec.variants if spec.variants[name].get("better")
        ]
        first, *rest = tables_of([spec, *others], units, results)
        html += render(board(first))
        folds = [(title(table), board(table)) for table in rest]
        folds.append(("Accuracy against training seconds", frontier(first)))
        for number, (heading, grid) in enumerate(folds if first.done else ()):
            inside = render(replace(grid, name=f"{spec.name}-fold{number}"))
            html += f"<details><summary>{escape(heading)}</summary>{inside}</details>"
    return html


def _further(table: Table) -> list[tuple[str, list[Grid]]]:
    compared = comparison(table)
    found = [("Ours against published, cell by cell", [replace(compared, notes=compared.notes[:2])])]
    if table.spec.ours == "records" and table.done:
        found.append(("Paired tests", significance_grids(table)))
        found.append(("Calibration", [calibration(table)]))
        found.append(("Accuracy against training seconds", [frontier(table)]))
    return found


def _prepared(grid: Grid, name: str, links: Links) -> Grid:
    """A grid whose id is its table's own, variants included, and whose links start at the page."""

    def relative(line: Line) -> Line:
        entries = (replace(e, links=tuple(map(links.relative, e.links))) for e in line.entries)
        return replace(line, entries=tuple(entries))

    own = grid.name.partition("-")[2] if "-" in grid.name else ""
    blocks = tuple(_prepared(block, name, links) for block in grid.blocks)
    full = f"{name}-{own}" if own else name
    return replace(grid, name=full, lines=tuple(map(relative, grid.lines)), blocks=blocks)
