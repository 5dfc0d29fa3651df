"""The report: a page that begins with the user's runs and goes on to the papers; a page for each run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from dgpbench.config.protocol import is_trial
from dgpbench.report.comparison.methods import methods
from dgpbench.report.comparison.plots import overview_pictures
from dgpbench.report.page.board import board
from dgpbench.report.page.frame import Part, figure, frame, told
from dgpbench.report.page.links import Links
from dgpbench.report.page.provenance import provenance
from dgpbench.report.page.runs import MOST, latest, run_list, run_pages
from dgpbench.store.scan import Unit

SHOWN = ("curves", "calibration", "seconds")  # pictures of the user's runs together
ABOUT = "Your runs first, then the papers' tables with our numbers beside the published ones."


MakePart = Callable[[Sequence[Unit], Path, Links], Part]


def pages(
    units: Sequence[Unit], results: Path, output: Path, more: Sequence[MakePart] = ()
) -> tuple[dict[str, str], list[str]]:
    """Return the pages by file name within `output`, and which figures could not be drawn and why.

    Each of `more` adds its sections behind those of the user's runs.
    """
    own = [unit for unit in units if not unit.is_reference and not is_trial(unit.record["config"])]
    links = Links(output, [unit.record["key"] for unit in latest(own)[:MOST]])
    added = [make(units, results, links) for make in more]
    parts = [("runs", "Your runs", board(methods(own), links))]
    if own:
        done = [unit for unit in own if unit.record["status"] == "done"]
        pictures, left = overview_pictures(done, "own", SHOWN)
        drawn = "".join(figure(picture, "") for picture in pictures)
        parts.append(("curves", "Curves, calibration, seconds", drawn + told("Not drawn", left)))
        parts.append(("single", "Single runs", run_list(own, links)))
    parts += [section for part in added for section in part.sections]
    sources = "".join(part.sources for part in added)
    parts.append(("provenance", "Provenance", provenance(units) + sources))
    menu = "".join(f'<a href="#{key}">{escape(title)}</a>' for key, title, _ in parts)
    body = "".join(
        f'<section id="{key}"><h2>{escape(title)}</h2>{html}</section>' for key, title, html in parts
    )
    index = frame("dgpbench report", ABOUT, menu, body, ("page.js", "board.js"))
    return {"index.html": index, **run_pages(own)}, [text for part in added for text in part.undrawn]
