"""The report: a page that begins with the user's runs and continues with the papers; a page for each run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

import pandas as pd

from dgpbench import __version__
from dgpbench.config.derived import is_trial
from dgpbench.evaluate.metric_table import known_metrics
from dgpbench.report.comparison.methods import as_comparison, common_settings, methods, most_run
from dgpbench.report.grid import plain
from dgpbench.report.page.frame import Links, Part, folded_list, frame
from dgpbench.report.page.method_board import board
from dgpbench.report.page.page_overview import behaviour, overview
from dgpbench.report.page.run_pages import MOST, latest, run_list, run_pages
from dgpbench.report.render import to_html
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
    own = [unit for unit in units if not unit.is_reference and not is_trial(unit.record.config)]
    links = Links(output, [unit.record.key for unit in latest(own)[:MOST]])
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
    done = [unit for unit in own if unit.record.done]
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
    parts = [
        ("runs", "Your runs", html + folded_list("Not in the charts", left) + board(methods(own), links))
    ]
    if compared and (more := behaviour(compared[0], "own")):
        parts.append(("curves", "Calibration and training", more))
    return [*parts, ("single", "Single runs", run_list(own, links))]


def provenance(units: Sequence[Unit]) -> str:
    """Return a table of the records' facts, counted."""
    records = [unit.record for unit in units]
    places = Counter(_place(unit) for unit in units)
    facts = {
        "records": [f"{name}: {count}" for name, count in sorted(places.items())],
        "status": _counted(record.status for record in records),
        "finished": _span([record.finished for record in records]),
        "git commit": _counted((record.git_commit or "unknown")[:10] for record in records),
        "device": _counted(
            f"{record.device}, threads: {record.threads or 'not recorded'}" for record in records
        ),
        **{
            name: _counted(record.versions.get(name, "unknown") for record in records)
            for name in sorted({key for record in records for key in record.versions})
        },
        "this page": [f"dgpbench {__version__}"],
    }
    lines = [{"what": name, "found": "; ".join(values)} for name, values in facts.items() if values]
    return to_html(plain("Records", pd.DataFrame(lines), name="records"))


def _counted(values: Iterable) -> list[str]:
    return [f"{name} ({count})" for name, count in Counter(map(str, values)).most_common(8)]


def _span(times: list[str]) -> list[str]:
    return [f"{min(times)} to {max(times)}"] if times else []


def _place(unit: Unit) -> str:
    if unit.is_community:
        return f"community {unit.path.name} (consistent, not re-run)"
    return f"reference {unit.path.name}" if unit.is_reference else "own results"
