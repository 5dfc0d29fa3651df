"""The frame of a page: head, style, scripts and links. Pages load nothing from the network."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import NamedTuple

from dgpbench.report.charts.picture import THEMES
from dgpbench.store.scan import Unit

HERE = Path(__file__).resolve().parent
LIBRARY = "vega.js"  # the copy of Vega that pages of runs share
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {sources}"


class Part(NamedTuple):
    """Addition to the report by another package."""

    sections: list[tuple[str, str, str]]  # id, title and HTML
    sources: str = ""  # HTML that names the sources of published numbers, for the section on provenance
    shipped: str = ""  # HTML that the report opens with if the user has no runs


def frame(
    title: str, about: str, menu: str, body: str, *, board: bool = False, library: str | None = None
) -> str:
    """Return a whole page.

    Parameters
    ----------
    title, about : str
        Text of the heading and of the line below it.
    menu, body : str
        HTML of the navigation and of the page.
    board : bool, default=False
        Whether the page has a leaderboard.
    library : str, optional
        ``"inline"`` puts Vega into the page, a file name refers to it; without it the page has no charts.
    """
    text = "\n".join(_file(name) for name in ("page.js", "charts.js", "board.js")[: 3 if board else 2])
    inline = [vega(), text] if library == "inline" else [text]
    sources = [f"'sha256-{_digest(f'{script}')}'" for script in inline]
    scripts = "".join(f"<script>{script}</script>\n" for script in inline)
    if library not in (None, "inline"):
        sources += ["'self'", "file:"]
        scripts = f'<script src="{escape(library)}"></script>\n{scripts}'
    navigation = f"<nav>{menu}</nav>" if menu else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY.format(sources=" ".join(sources))}">
<title>{escape(title)}</title>
<style>
{_palette()}
{_file("page.css")}</style>
</head>
<body>
<header><h1>{escape(title)}</h1>
<p>{escape(about)}</p>
<button id="theme" type="button">light / dark</button>
{navigation}</header>
<main>{body}</main>
<div id="detail" role="tooltip" hidden></div>
{scripts}</body>
</html>
"""


def standalone(title: str, body: str) -> str:
    """Return a separate page for one comparison."""
    return frame(title, "A comparison by dgpbench.", "", body)


def folded_list(title: str, lines: Sequence[str]) -> str:
    """Lines folded under a title with their number."""
    if not lines:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return (
        f"<details><summary>{escape(title)}: {len(lines)}</summary><ul class='notes'>{items}</ul></details>"
    )


@lru_cache(maxsize=1)
def vega() -> str:
    """Return Vega, its interpreter (an ES module, made a plain script) and Vega-Lite as one script."""
    folder = HERE / "vega"
    module = (folder / "vega-interpreter.js").read_text(encoding="utf-8")
    module = re.sub(r"^import (\{[^}]*\}) from 'vega-util';", r"const \1 = vega;", module)
    module = re.sub(
        r"export \{ (\w+) as expressionInterpreter \};\s*//#.*\s*$",
        r"globalThis.expressionInterpreter = \1;",
        module,
    )
    first, last = (
        (folder / name).read_text(encoding="utf-8") for name in ("vega.min.js", "vega-lite.min.js")
    )
    return f"{first}\n(() => {{\n{module}\n}})();\n{last}"


@lru_cache(maxsize=8)
def _file(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


@lru_cache(maxsize=8)
def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _palette() -> str:
    """The colours of models, --c0 to --c7, light and dark as in the plots."""
    light, dark = (
        "; ".join(f"--c{i}: {colour}" for i, colour in enumerate(THEMES[name]["colours"]))
        for name in ("light", "dark")
    )
    system = f"@media (prefers-color-scheme: dark) {{ :root:not([data-theme=light]) {{ {dark} }} }}"
    return f":root {{ {light} }}\n{system}\n:root[data-theme=dark] {{ {dark} }}"


FOLDER = "runs"  # of the pages of single runs, beside index.html


class Links:
    """Links from index.html in `output`; `pages` are the keys of runs with a page of their own."""

    def __init__(self, output: Path, pages: Collection[str] = ()) -> None:
        self.output, self.pages = output, frozenset(pages)

    def of(self, unit: Unit) -> str:
        """The page of a run, or its record."""
        key = unit.record.key
        return page_name(key) if key in self.pages else self.relative(str(unit.path))

    def relative(self, path: str) -> str:
        """A path as index.html sees it."""
        return os.path.relpath(path, self.output)


def page_name(key: str) -> str:
    """The file of a run's page, from the report's folder."""
    return f"{FOLDER}/{key[:12]}.html"
