"""Results as a picture: grouped bars, one panel per group of cases, logarithmic time."""

from __future__ import annotations

import math
from pathlib import Path

from benchmarks.ratios import cells_of, median_ms
from benchmarks.systems import SYSTEMS
from benchmarks.tables import GROUPS

COLOURS = {  # one hue per library, paler for lower precision
    "dgpbench-float64": "#08519c",
    "dgpbench-mixed": "#3182bd",
    "dgpbench-float32": "#9ecae1",
    "own-mixed": "#41b6c4",
    "own-float32": "#a1dab4",
    "iwvi-float64": "#54278f",
    "iwvi-mixed": "#9e9ac8",
    "gpflow-float64": "#31a354",
    "gpflux-float64": "#d94801",
    "gpflux-float32": "#fdae6b",
    "gpytorch-float64": "#6a51a3",
    "gpytorch-float32": "#bcbddc",
}


def draw(results: dict, path: Path) -> None:
    """Write the plot as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    groups: dict[str, list[str]] = {}
    for case in results["cases"]:
        groups.setdefault(case.partition("-")[0], []).append(case)
    measured = {cell["system"] for cell in results["cells"]}
    systems = [name for name in SYSTEMS if name in measured]
    figure = Figure(figsize=(11, 1.2 + 3.6 * len(groups)), layout="constrained")
    FigureCanvasAgg(figure)
    handles: dict = {}
    for row, (group, cases) in enumerate(groups.items()):
        axes = figure.add_subplot(len(groups), 1, row + 1)
        handles |= _panel(axes, cells_of(results), cases, systems)
        axes.set_title(GROUPS.get(group, group), loc="left")
    labels = [name.replace("-", " ") for name in handles]
    figure.legend(handles.values(), labels, loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(path, dpi=120)


def _panel(axes, cells: dict, cases: list[str], systems: list[str]) -> dict:
    """Bars of all cases; returns a legend handle per system. Only systems that a case has take up room."""
    handles, lowest, absent = {}, math.inf, []
    for x, case in enumerate(cases):
        present = [name for name in systems if (case, name) in cells]
        width = 0.84 / max(len(present), 1)
        for i, name in enumerate(present):
            cell, at = cells[case, name], x - 0.42 + (i + 0.5) * width
            middle = median_ms(cell)
            if math.isnan(middle):
                absent.append((at, "NaN" if cell["status"] == "nan" else "failed"))
                continue
            spread = [[middle - min(cell["step_ms"])], [max(cell["step_ms"]) - middle]]
            bar = axes.bar(at, middle, width * 0.94, color=COLOURS[name])
            axes.errorbar(at, middle, spread, color="0.2", linewidth=0.8, capsize=1.5)
            axes.annotate(
                _label(middle),
                (at, max(cell["step_ms"])),
                (0, 2),
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize=6.5,
            )
            handles[name], lowest = bar, min(lowest, middle)
    axes.set_yscale("log")
    axes.margins(y=0.12)
    if lowest < math.inf:
        axes.set_ylim(bottom=lowest / 2)
    for at, text in absent:
        axes.annotate(
            text,
            (at, 0),
            (0, 3),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=7,
            rotation=90,
            color="0.3",
        )
    axes.set_xticks(range(len(cases)), [case.partition("-")[2].upper() or case for case in cases])
    axes.set_xlim(-0.55, len(cases) - 0.45)
    axes.set_ylabel("ms per step")
    axes.grid(axis="y", which="both", color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return handles


def _label(ms: float) -> str:
    return f"{ms:.1f}" if ms < 10 else f"{ms:.0f}"
