"""The papers' tables and figures, each table with the figures that belong to it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

from dgpbench.evaluate.metric_table import LOGLIK, find_metric
from dgpbench.papers import figures, specs
from dgpbench.papers.paper_table import Table, all_tables, tables_of
from dgpbench.papers.published import citations
from dgpbench.papers.table_overview import overview
from dgpbench.papers.views import comparison, side_by_side
from dgpbench.report.charts import Nothing
from dgpbench.report.charts.picture import Picture
from dgpbench.report.charts.training_curves import CURVES, trace_frame, trace_panels
from dgpbench.report.charts.vega import group
from dgpbench.report.comparison.compare_runs import Comparison
from dgpbench.report.diagnostics import calibration, frontier
from dgpbench.report.grid import Grid, Line, plain
from dgpbench.report.leaderboard import board
from dgpbench.report.page.frame import Links, Part, folded_list
from dgpbench.report.page.page_overview import behaviour, figure_charts
from dgpbench.report.page.page_overview import overview as answer
from dgpbench.report.render import to_html
from dgpbench.report.significance import significance_grids
from dgpbench.store.filters import select
from dgpbench.store.scan import Unit

DPI = 110
HOW_TO_READ = (
    "ours: splits done / expected. Click a column to sort by it; rest on or tap a cell for its reasons and "
    "records.",
    "Mean (standard error) over splits; bold where error bars overlap the best; italics where marginals are "
    "not Gaussian; ? marks a doubtful reading of a damaged copy, ‡ records of others, which were not re-run.",
)


def part(
    units: Sequence[Unit], results: Path, links: Links, tell: Callable[[str], None], everything: bool
) -> Part:
    """Return the leaderboard and the papers' tables and figures, for `dgpbench report`."""
    html = papers(units, all_tables(units, results), results, links, tell, everything)
    sections = [("leaderboard", "Leaderboard", leaderboards(units, results)), ("papers", "Papers", html)]
    cited = [{"source": name, "reference": text} for name, text in citations().items()]
    sources = to_html(plain("Published numbers", cited, name="sources"))
    return Part(sections, sources, _shipped(units, results) if everything else "")


def _shipped(units: Sequence[Unit], results: Path) -> str:
    """Return the overview of the tables that are leaderboards, from the records that come with dgpbench."""
    wanted = [spec for name in specs.names() if (spec := specs.load(name)).board]
    html = ""
    for table in tables_of(wanted, units, results):
        metric = find_metric(next(iter(table.cells.values())).place.metric or LOGLIK)
        if table.done:
            comparison = Comparison(table, metric, {}, ())
            html += answer(comparison, table.spec.name) + behaviour(comparison, table.spec.name)
    return html


def papers(
    units: Sequence[Unit],
    tables: Sequence[Table],
    results: Path,
    links: Links,
    tell: Callable[[str], None],
    everything: bool,
) -> str:
    """Return the overview, the tables and the figures: those with the user's runs, or `everything`."""
    html = to_html(replace(overview(list(tables), results), notes=HOW_TO_READ))
    shown = [table for table in tables if everything or _has_own(table)]
    for number, table in enumerate(shown, 1):
        tell(f"table {number} of {len(shown)}: {table.spec.name}")
        html += _table(table, links)
    drawn, undrawn = _figures(units, tell, everything)
    html += (
        f'<details id="figures"><summary>Figures: {len(drawn)}</summary>{"".join(drawn)}</details>'
        if drawn
        else ""
    )
    names = [" ".join((table.spec.name, *table.spec.chosen)) for table in tables if table not in shown]
    without = [f"{name}: dgpbench tables {name}" for name in names]
    return (
        html
        + folded_list("Tables without your runs (dgpbench report --all)", without)
        + folded_list("Figures not drawn", undrawn)
    )


def _has_own(table: Table) -> bool:
    return any(not unit.is_reference for cell in table.cells.values() for unit in cell.units)


def _figures(
    units: Sequence[Unit], tell: Callable[[str], None], everything: bool
) -> tuple[list[str], list[str]]:
    """Figures without a table as HTML, training curves as charts and others as images; those not drawn."""
    drawn, undrawn = [], []
    for name, spec in figures.figure_specs().items():
        if spec.lacks or spec.same or spec.table:
            continue
        command = f"dgpbench figures {name}"
        chosen = [u for u in select(units, spec.select) if u.record.done] if spec.records else []
        if spec.asked or not spec.records:
            undrawn.append(f"{name}: {spec.title}: drawn from models, not from records; {command}")
        elif chosen and not everything and all(unit.is_reference for unit in chosen):
            undrawn.append(f"{name}: {spec.title}: none of your runs; {command}")
        else:
            tell(f"figure {name}")
            try:
                drawn.append(
                    _traces(spec, chosen) if spec.kind == "traces" and chosen else _image(spec, units)
                )
            except Nothing as nothing:
                undrawn.append(f"{name}: {spec.title}: {nothing}")
    return drawn, undrawn


def _image(spec: figures.FigureSpec, units: Sequence[Unit]) -> str:
    return figure(figures.make(spec, units), f"dgpbench figures {spec.name}")


def _traces(spec: figures.FigureSpec, units: Sequence[Unit]) -> str:
    """Training curves as charts: a panel of bounds for each dataset, then one of what else was recorded."""
    data = trace_frame(units, spec.panel, spec.strip)
    if data.empty:
        raise Nothing("these records hold no training trace")
    models = sorted(set(data.method))
    found = trace_panels(data, spec)
    return group(f"figure-{spec.name}", spec.title, found, CURVES, models)


def _table(table: Table, links: Links) -> str:
    """One table in a fold, open if the user has runs in it: side by side, then its charts, then tests."""
    name = "-".join((table.spec.name, *table.spec.chosen))
    begun = table.done or table.failed
    state = f"ours {table.done} of {table.expected} splits" if begun else "no run"
    summary = f"<summary><b>{escape(' '.join((table.spec.name, *table.spec.chosen)))}</b> "
    summary += f"{escape(table.spec.title)} <small>{state}</small></summary>"
    html = to_html(_prepared(side_by_side(table), name, links))
    if begun and not table.spec.chosen:
        html += _charts(table)
    for heading, grids in _further(table) if begun else ():
        inside = "".join(to_html(replace(_prepared(g, name, links), missing=(), blocks=())) for g in grids)
        html += f"<details><summary>{escape(heading)}</summary>{inside}</details>"
    is_open = " open" if _has_own(table) else ""
    return f'<details class="paper" id="t-{escape(name)}"{is_open}>{summary}{html}</details>'


def _charts(table: Table) -> str:
    """Charts in place of the figures that belong to a table."""
    html = ""
    for spec in figures.figure_specs().values():
        if spec.table == table.spec.name and not spec.lacks and not spec.same:
            html += figure_charts(table, spec.kind, f"figure-{spec.name}", spec.title)
    return html


def figure(picture: Picture, command: str) -> str:
    """A picture in light and dark with its notes and the command that draws it."""
    images = ""
    for theme in ("light", "dark"):
        data = base64.b64encode(picture.image("png", theme, DPI)).decode()
        alt = escape(picture.title)
        width = round(picture.size[0] * DPI)
        images += f'<img class="only-{theme}" width="{width}" alt="{alt}" src="data:image/png;base64,{data}">'
    notes = "".join(f"<li>{escape(note)}</li>" for note in picture.notes)
    drawn = f"<li><code>{escape(command)}</code></li>" if command else ""
    return (
        f'<figure class="picture" id="figure-{escape(picture.name)}"><div class="scroll">{images}</div>'
        f"<figcaption>{escape(picture.title)}</figcaption>"
        f'<ul class="notes">{notes}{drawn}</ul></figure>'
    )


def leaderboards(units: Sequence[Unit], results: Path) -> str:
    """The leaderboards of the tables that are one, a fold for each metric, and accuracy against seconds."""
    html = ""
    for spec in (found for name in specs.names() if (found := specs.load(name)).board):
        others = [
            specs.load(spec.name, [name]) for name in spec.variants if spec.variants[name].get("better")
        ]
        first, *rest = tables_of([spec, *others], units, results)
        html += to_html(board(first))
        folds = [(table.title, board(table)) for table in rest]
        folds.append(("Accuracy against training seconds", frontier(first)))
        for number, (heading, grid) in enumerate(folds if first.done else ()):
            inside = to_html(replace(grid, name=f"{spec.name}-fold{number}"))
            html += f"<details><summary>{escape(heading)}</summary>{inside}</details>"
    return html


def _further(table: Table) -> list[tuple[str, list[Grid]]]:
    """Comparisons with print and tests of a table."""
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
