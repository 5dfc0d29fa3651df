"""Pictures of a comparison: dots, ranks, training curves, accuracy against seconds, calibration."""

from __future__ import annotations

from collections.abc import Callable

from dgpbench.report.figures import FigureSpec, calibration, dots, frontier, ranks, traces
from dgpbench.report.figures.picture import Nothing, Picture
from dgpbench.report.own.fill import Comparison

TITLES = {
    "dots": "{}",
    "ranks": "Average ranks: {}",
    "curves": "Training curves",
    "seconds": "{} against training seconds",
    "calibration": "Calibration",
}


def comparison_pictures(comparison: Comparison, prefix: str = "compare") -> tuple[list[Picture], list[str]]:
    """What can be drawn of a comparison, and what not with the reason."""
    drawn, undrawn = [], []
    for kind, title in TITLES.items():
        name = f"{prefix}-{kind}"
        spec = FigureSpec(name, kind, title.format(comparison.metric.title), x="seconds")
        try:
            drawn.append(_painters()[kind](spec, comparison))
        except Nothing as nothing:
            undrawn.append(f"{kind}: {nothing}")
    return drawn, undrawn


def _painters() -> dict[str, Callable[[FigureSpec, Comparison], Picture]]:
    return {
        "dots": lambda spec, comparison: dots.picture(spec, comparison.table),
        "ranks": _ranks,
        "curves": _curves,
        "seconds": lambda spec, comparison: frontier.picture(spec, comparison.table),
        "calibration": lambda spec, comparison: calibration.picture(spec, comparison.table),
    }


def _ranks(spec: FigureSpec, comparison: Comparison) -> Picture:
    if comparison.metric.better is None:
        raise Nothing(f"of {comparison.metric.name} neither higher nor lower is better")
    return ranks.picture(spec, comparison.table)


def _curves(spec: FigureSpec, comparison: Comparison) -> Picture:
    """One panel per dataset, one colour per column."""
    cells = comparison.table.cells.items()
    names = {u.record["key"]: at for at, cell in cells for u in cell.units if u.record["status"] == "done"}
    units = [u for _, cell in cells for u in cell.units if u.record["key"] in names]
    return traces.picture(spec, units, named=lambda record: names[record["key"]])
