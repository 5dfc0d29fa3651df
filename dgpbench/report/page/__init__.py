"""The report: a page that begins with the user's runs and goes on to the papers; a page for each run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path

from dgpbench.config.protocol import is_trial
from dgpbench.evaluate.metric_table import known_metrics
from dgpbench.report.comparison.methods import as_comparison, common_settings, methods
from dgpbench.report.comparison.plots import most_run
from dgpbench.report.page.board import board
from dgpbench.report.page.frame import Part, frame, told
from dgpbench.report.page.links import Links
from dgpbench.report.page.overview import behaviour, overview
from dgpbench.report.page.provenance import provenance
from dgpbench.report.page.runs import MOST, latest, run_list, run_pages
from dgpbench.store.scan import Unit
from dgpbench.store.summary import usual_metrics

ABOUT = "Your runs first, then the papers' tables with our numbers next to the published ones."
SHIPPED = "Runs that come with dgpbench; your own will be listed first."
Tell = Callable[[str], None]
MakePart = Callable[[Sequence[Unit], Path, Links, Tell, bool], Part]


def pages(
    units: Sequence[Unit],
    results: Path,
    output: Path,
    tell: Tell,
    more: Sequence[MakePart] = (),
    everything: bool = False,
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
    more : sequence of callable
        Each returns a `Part` with further sections, such as the papers' tables.
    everything : bool, default=False
        Include sections, such as tables, in which the user has no runs.
    """
    own = [unit for unit in units if not unit.is_reference and not is_trial(unit.record["config"])]
    links = Links(output, [unit.record["key"] for unit in latest(own)[:MOST]])
    tell("comparing models")
    added = [make(units, results, links, tell, everything or not own) for make in more]
    if own:
        parts = _own(own, links)
    else:
        shipped = "".join(part.shipped for part in added)
        parts = [("runs", "Which model is best", shipped + board([], links))]
    parts += [section for part in added for section in part.sections]
    sources = "".join(part.sources for part in added)
    parts.append(("provenance", "Provenance", provenance(units) + sources))
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
    known = known_metrics()
    names = [name for name in usual_metrics(done) if name in known] if kept else []
    common = common_settings(kept)
    tables = [as_comparison(kept, known[name], common) for name in names]
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
