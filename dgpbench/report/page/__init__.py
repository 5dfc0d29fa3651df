"""The report: one self-contained page with tables, figures and where they come from. No network."""

from __future__ import annotations

import base64
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

import pandas as pd

from dgpbench import __version__
from dgpbench.report import figures
from dgpbench.report.calibration import calibration
from dgpbench.report.compare import comparison
from dgpbench.report.figures.picture import Nothing, Picture
from dgpbench.report.frontier import frontier
from dgpbench.report.grid import Grid, Line, plain
from dgpbench.report.load import all_tables
from dgpbench.report.overview import overview
from dgpbench.report.published import citations
from dgpbench.report.render.html import render
from dgpbench.report.significance import significance_grids
from dgpbench.report.table import Table
from dgpbench.report.views import side_by_side
from dgpbench.store.scan import Unit

HERE = Path(__file__).resolve().parent
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
DPI = 110


def page(units: Sequence[Unit], results: Path, output: Path) -> tuple[str, list[str]]:
    """The page as text, and which figures could not be drawn and why. Links are relative to `output`."""
    tables = all_tables(units, results)
    begun = [table for table in tables if table.done or table.failed]
    pictures, undrawn = _pictures(units, {t.spec.name: t for t in tables if not t.spec.chosen})
    parts = [
        ("overview", "Overview", _overview(tables, results)),
        *((f"t-{'-'.join(_label(t))}", f"Table {' '.join(_label(t))}", _begun(t, output)) for t in begun),
        ("figures", "Figures", "".join(map(_figure, pictures)) + _list("Not drawn", undrawn)),
        ("published", "Published only", "".join(_waiting(table) for table in tables if table not in begun)),
        ("provenance", "Provenance", _provenance(units)),
    ]
    menu = "".join(f'<a href="#{key}">{escape(title)}</a>' for key, title, _ in parts)
    body = "".join(
        f'<section id="{key}"><h2>{escape(title)}</h2>{html}</section>' for key, title, html in parts
    )
    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    return _frame(style, script, menu, body), undrawn


def _label(table: Table) -> tuple[str, ...]:
    return table.spec.name, *table.spec.chosen


def _frame(style: str, script: str, menu: str, body: str) -> str:
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>dgpbench report</title>
<style>
{style}</style>
</head>
<body>
<header><h1>dgpbench report</h1>
<p>Deep Gaussian processes: our runs beside the published tables.</p>
<button id="theme" type="button">light / dark</button>
<nav>{menu}</nav></header>
<main>{body}</main>
<div id="detail" role="tooltip" hidden></div>
<script>
{script}</script>
</body>
</html>
"""


def _overview(tables: list[Table], results: Path) -> str:
    return render(replace(overview(tables, results), notes=HOW_TO_READ))


HOW_TO_READ = (
    "ours: splits done / expected. Click a column to sort by it; rest on or tap a cell for its reasons and "
    "records.",
    "Mean (standard error) over splits; bold where error bars overlap the best; italics where marginals are "
    "not Gaussian; ? marks a doubtful reading of a damaged copy.",
)


def _begun(table: Table, output: Path) -> str:
    """A table with runs of ours: side by side, then folded away what goes further."""
    compared = comparison(table)
    folded = [("Ours against published, cell by cell", [replace(compared, notes=compared.notes[:2])])]
    if table.spec.ours == "records" and table.done:
        folded.append(("Paired tests", significance_grids(table)))
        folded.append(("Calibration", [calibration(table)]))
        folded.append(("Accuracy against training seconds", [frontier(table)]))
    html = render(_linked(side_by_side(table), output))
    for i, (title, grids) in enumerate(folded):
        inside = "".join(render(replace(_linked(grid, output), missing=(), blocks=())) for grid in grids)
        html += f"<details{' open' if i == 0 else ''}><summary>{escape(title)}</summary>{inside}</details>"
    return html


def _waiting(table: Table) -> str:
    grid = side_by_side(table)
    about = f"<summary>{escape(table.spec.title)}</summary>"
    return f'<details class="waiting">{about}{render(grid)}</details>'


def _linked(grid: Grid, output: Path) -> Grid:
    """Record links as the page needs them: relative to its folder."""

    def relative(line: Line) -> Line:
        entries = (
            replace(e, links=tuple(os.path.relpath(path, output) for path in e.links)) for e in line.entries
        )
        return replace(line, entries=tuple(entries))

    return replace(grid, lines=tuple(map(relative, grid.lines)))


def _pictures(units: Sequence[Unit], tables: dict[str, Table]) -> tuple[list[Picture], list[str]]:
    drawn, undrawn = [], []
    for name, spec in figures.figure_specs().items():
        try:
            drawn.append(figures.make(spec, units, (), tables))
        except Nothing as nothing:
            undrawn.append(f"{name}: {spec.title}: {nothing}")
    return drawn, undrawn


def _figure(picture: Picture) -> str:
    images = ""
    for theme in ("light", "dark"):
        data = base64.b64encode(picture.image("png", theme, DPI)).decode()
        alt = escape(picture.title)
        width = round(picture.size[0] * DPI)
        images += f'<img class="only-{theme}" width="{width}" alt="{alt}" src="data:image/png;base64,{data}">'
    notes = "".join(f"<li>{escape(note)}</li>" for note in picture.notes)
    command = f"<code>dgpbench figures {escape(picture.name)}</code>"
    return (
        f'<figure class="picture" id="figure-{escape(picture.name)}"><div class="scroll">{images}</div>'
        f"<figcaption>{escape(picture.title)}</figcaption>"
        f'<ul class="notes">{notes}<li>{command}</li></ul></figure>'
    )


def _list(title: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return (
        f"<details><summary>{escape(title)}: {len(lines)}</summary><ul class='notes'>{items}</ul></details>"
    )


def _provenance(units: Sequence[Unit]) -> str:
    """Where the records come from, with what they were made, and whose numbers stand beside them."""
    records = [unit.record for unit in units]
    places = Counter(str(unit.path) if unit.is_reference else "own results" for unit in units)
    facts = {
        "records": [f"{name}: {count}" for name, count in sorted(places.items())],
        "status": _counted(record["status"] for record in records),
        "finished": _span([record["finished"] for record in records]),
        "git commit": _counted((record["git_commit"] or "unknown")[:10] for record in records),
        "device": _counted(
            f"{record['device']}, threads: {record['threads'] or 'not recorded'}" for record in records
        ),
        **{
            name: _counted(record["versions"].get(name, "unknown") for record in records)
            for name in sorted({key for record in records for key in record["versions"]})
        },
        "this page": [f"dgpbench {__version__}"],
    }
    lines = [{"what": name, "found": "; ".join(values)} for name, values in facts.items() if values]
    cited = [{"source": name, "reference": text} for name, text in citations().items()]
    return render(plain("Records", pd.DataFrame(lines), name="records")) + render(
        plain("Published numbers", pd.DataFrame(cited), name="sources")
    )


def _counted(values) -> list[str]:
    return [f"{name} ({count})" for name, count in Counter(map(str, values)).most_common(8)]


def _span(times: list[str]) -> list[str]:
    return [f"{min(times)} to {max(times)}"] if times else []
