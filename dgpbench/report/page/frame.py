"""The frame of a page: head, style and script within one file. Nothing is loaded from elsewhere."""

from __future__ import annotations

from html import escape
from pathlib import Path

HERE = Path(__file__).resolve().parent
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


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
