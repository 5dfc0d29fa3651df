"""The frame of a page: head, style and script within one file. Nothing is loaded from elsewhere."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from dgpbench.report.figures.picture import Picture

DPI = 110  # of pictures in a page
HERE = Path(__file__).resolve().parent
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


class Part(NamedTuple):
    """Addition to the report by another package."""

    sections: list[tuple[str, str, str]]  # id, title and HTML
    undrawn: list[str]  # figures that could not be drawn, and why
    sources: str = ""  # HTML of whose numbers these are, for the section on provenance


def frame(title: str, about: str, menu: str, body: str, scripts: tuple[str, ...] = ("page.js",)) -> str:
    """A whole page; `menu` and `body` are HTML, `title` and `about` text."""
    style = (HERE / "page.css").read_text(encoding="utf-8")
    script = "\n".join((HERE / name).read_text(encoding="utf-8") for name in scripts)
    navigation = f"<nav>{menu}</nav>" if menu else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<style>
{style}</style>
</head>
<body>
<header><h1>{escape(title)}</h1>
<p>{escape(about)}</p>
<button id="theme" type="button">light / dark</button>
{navigation}</header>
<main>{body}</main>
<div id="detail" role="tooltip" hidden></div>
<script>
{script}</script>
</body>
</html>
"""


def standalone(title: str, body: str) -> str:
    """A page of its own for one comparison."""
    return frame(title, "A comparison by dgpbench.", "", body)


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


def told(title: str, lines: Sequence[str]) -> str:
    """Lines folded under a title with their number."""
    if not lines:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return (
        f"<details><summary>{escape(title)}: {len(lines)}</summary><ul class='notes'>{items}</ul></details>"
    )
