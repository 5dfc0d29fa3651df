"""Grids as text: terminal, Markdown, CSV, LaTeX, HTML. Each module has `render(grid) -> str`."""

from __future__ import annotations

import importlib

FORMATS = ("table", "markdown", "csv", "latex", "html")


def render(grid, name: str) -> str:
    """The grid in one of FORMATS but `table`, which prints by itself (terminal.show)."""
    return importlib.import_module(f"dgpbench.report.render.{name}").render(grid)
