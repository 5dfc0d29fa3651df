"""A comparison as a LaTeX table for a paper; what its columns are stands in comments above it."""

from __future__ import annotations

from dgpbench.report.comparison.columns import columns_grid
from dgpbench.report.comparison.fair import marks
from dgpbench.report.comparison.fill import Comparison
from dgpbench.report.comparison.view import paper_grid
from dgpbench.report.render import latex


def render(comparison: Comparison) -> str:
    """booktabs table with caption and label; settings, budgets and marks as comments."""
    lines = []
    for line in columns_grid(comparison).data.to_dict("records"):
        facts = [
            f"{name} {_shown(value)}" for name, value in line.items() if name != "column" and _said(value)
        ]
        lines.append(f"{line['column']}: {', '.join(facts)}")
    for text in marks(comparison):
        lines.append(f"note: {text}")
    if lacking := sum(len(cell.missing) for cell in comparison.table.cells.values()):
        lines.append(f"note: {lacking} splits have not been run")
    comments = "".join(f"% {' '.join(line.split())}\n" for line in lines)
    return comments + latex.render(paper_grid(comparison))


def _shown(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _said(value: object) -> bool:
    return value not in ("", None) and value == value
