"""A comparison as text: Markdown, LaTeX, CSV or one HTML page."""

from __future__ import annotations

from dgpbench.errors import UserError
from dgpbench.report.comparison import view
from dgpbench.report.comparison.fill import Comparison

FORMATS = ("markdown", "latex", "csv", "html")


def render(comparison: Comparison, name: str) -> str:
    """The comparison in the format of that name; of CSV its first table alone."""
    if name not in FORMATS:
        raise UserError(f"no format '{name}'; allowed: {', '.join(FORMATS)}")
    if name == "latex":
        from dgpbench.report.comparison.latex import render as latex

        return latex(comparison)
    grids = view.grids(comparison)
    if name == "html":
        from dgpbench.report.page.frame import standalone
        from dgpbench.report.render.html import render as fragment

        return standalone(comparison.metric.title, "".join(map(fragment, grids)))
    from dgpbench.report.render import render as table

    return "\n".join(table(grid, name) for grid in (grids[:1] if name == "csv" else grids))
