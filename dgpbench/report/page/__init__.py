"""The report: a page that begins with the user's runs and goes on to the papers; a page for each run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path

from dgpbench.config.protocol import is_trial
from dgpbench.report import specs
from dgpbench.report.comparison.fill import Comparison
from dgpbench.report.comparison.methods import as_comparison, common_settings, methods
from dgpbench.report.comparison.plots import most_run
from dgpbench.report.load import all_tables, tables_of
from dgpbench.report.metrics import METRICS
from dgpbench.report.page.board import board
from dgpbench.report.page.frame import frame
from dgpbench.report.page.links import Links
from dgpbench.report.page.overview import behaviour, overview
from dgpbench.report.page.papers import leaderboards, papers, told
from dgpbench.report.page.provenance import provenance
from dgpbench.report.page.runs import MOST, latest, run_list, run_pages
from dgpbench.store.scan import Unit
from dgpbench.store.summary import usual_metrics

ABOUT = "Your runs first, then the papers' tables with our numbers next to the published ones."
SHIPPED = "Runs that come with dgpbench; your own will be listed first."
Tell = Callable[[str], None]


def pages(
    units: Sequence[Unit], results: Path, output: Path, tell: Tell, everything: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield file names within `output` and contents: the pages of the user's runs, then index.html.

    Parameters
    ----------
    units : sequence of Unit
        All records.
    results, output : Path
        Where the records are from and where the pages go.
    tell : callable
        Receives progress, one short text at a time.
    everything : bool, default=False
        Include the papers' tables and figures in which the user has no runs.
    """
    own = [unit for unit in units if not unit.is_reference and not is_trial(unit.record["config"])]
    links = Links(output, [unit.record["key"] for unit in latest(own)[:MOST]])
    tell("comparing models")
    parts = _own(own, links) if own else _shipped(units, results)
    parts.append(("leaderboard", "Leaderboard", leaderboards(units, results)))
    tables = all_tables(units, results)
    paper = papers(units, tables, results, links, tell, everything or not own)
    parts += [("papers", "Papers", paper), ("provenance", "Provenance", provenance(units))]
    yield from run_pages(own, tell)
    menu = "".join(f'<a href="#{key}">{escape(title)}</a>' for key, title, _ in parts)
    body = "".join(
        f'<section id="{key}"><h2>{escape(title)}</h2>{html}</section>' for key, title, html in parts
    )
    about = ABOUT if own else SHIPPED
    yield "index.html", frame("dgpbench report", about, menu, body, board=True, library="inline")


def _own(own: Sequence[Unit], links: Links) -> list[tuple[str, str, str]]:
    """The user's runs: which model is best, the leaderboard, calibration and curves, single runs."""
    done = [unit for unit in own if unit.record["status"] == "done"]
    kept, left = most_run(done)
    names = [name for name in usual_metrics(done) if name in METRICS] if kept else []
    common = common_settings(kept)
    tables = [as_comparison(kept, METRICS[name], common) for name in names]
    compared = [comparison for comparison in tables if comparison.table.spec.rows]
    html = f"<p>Settings of all: <code>{escape(' '.join(common))}</code></p>" if common else ""
    for number, comparison in enumerate(compared):
        inside = overview(comparison, comparison.metric.name)
        title = escape(comparison.metric.title)
        html += f"<details><summary>By {title}</summary>{inside}</details>" if number else inside
    parts = [("runs", "Your runs", html + told("Not in the charts", left) + board(methods(own), links))]
    if compared and (more := behaviour(compared[0], "own")):
        parts.append(("curves", "Calibration and training", more))
    return [*parts, ("single", "Single runs", run_list(own, links))]


def _shipped(units: Sequence[Unit], results: Path) -> list[tuple[str, str, str]]:
    """The overview of the tables that are leaderboards, from the records that come with dgpbench."""
    wanted = [spec for name in specs.names() if (spec := specs.load(name)).board]
    html = ""
    for table in tables_of(wanted, units, results):
        metric = METRICS[next(iter(table.cells.values())).place.metric or "test_loglik"]
        if table.done:
            comparison = Comparison(table, metric, {}, ())
            html += overview(comparison, table.spec.name) + behaviour(comparison, table.spec.name)
    none = board([], Links(results))
    return [("runs", "Which model is best", html + none)]
