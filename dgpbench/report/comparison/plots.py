"""Pictures of a comparison or of chosen runs: dots, ranks, curves, accuracy and seconds, calibration."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dgpbench.evaluate.metric_table import LOGLIK, find_metric
from dgpbench.report.comparison.compare_runs import Comparison
from dgpbench.report.comparison.methods import Method, as_comparison, commonest_protocol, methods
from dgpbench.report.figures import calibration, dots, frontier, ranks, traces
from dgpbench.report.figures.picture import Nothing, Picture, PictureSpec
from dgpbench.report.runs.picture import KINDS, run_picture
from dgpbench.store.scan import Unit

TITLES = {
    "dots": "{}",
    "ranks": "Average ranks: {}",
    "curves": "Training curves",
    "seconds": "{} against training seconds",
    "calibration": "Calibration",
}
MOST_METHODS, MOST_SETS = 8, 12  # colours and panels of one picture
MOST_RUNS = 12  # drawn one by one


def comparison_pictures(
    comparison: Comparison, prefix: str = "compare", kinds: Sequence[str] = tuple(TITLES)
) -> tuple[list[Picture], list[str]]:
    """What can be drawn of a comparison, and what not with the reason."""
    drawn, undrawn = [], []
    for kind in kinds:
        title = TITLES[kind].format(comparison.metric.title)
        try:
            drawn.append(
                PAINTERS[kind](PictureSpec(f"{prefix}-{kind}", kind, title, x="seconds"), comparison)
            )
        except Nothing as nothing:
            undrawn.append(f"{kind}: {nothing}")
    return drawn, undrawn


def _ranks(spec: PictureSpec, comparison: Comparison) -> Picture:
    if comparison.metric.better is None:
        raise Nothing(f"of {comparison.metric.name} neither higher nor lower is better")
    return ranks.picture(spec, comparison.table)


def _curves(spec: PictureSpec, comparison: Comparison) -> Picture:
    """One panel per dataset, one colour per column."""
    cells = comparison.table.cells.items()
    names = {u.record["key"]: at for at, cell in cells for u in cell.units if u.record["status"] == "done"}
    units = [u for _, cell in cells for u in cell.units if u.record["key"] in names]
    return traces.picture(spec, units, named=lambda record: names[record["key"]])


PAINTERS: dict[str, Callable[[PictureSpec, Comparison], Picture]] = {
    "dots": lambda spec, comparison: dots.picture(spec, comparison.table),
    "ranks": _ranks,
    "curves": _curves,
    "seconds": lambda spec, comparison: frontier.picture(spec, comparison.table),
    "calibration": lambda spec, comparison: calibration.picture(spec, comparison.table),
}


def pictures_of_runs(units: Sequence[Unit], kinds: Sequence[str]) -> tuple[list[Picture], list[str]]:
    """Pictures of chosen runs: of one run its panels; of several what compares them, and each by itself."""
    undrawn: list[str] = []
    if len(units) == 1:
        return [run_picture(units[0], tuple(kinds))], undrawn
    drawn, undrawn = overview_pictures(units, "runs", [k for k in kinds if k in ("curves", "calibration")])
    alone = [kind for kind in kinds if kind in KINDS]
    for unit in units[:MOST_RUNS] if "predictions" in alone or "reliability" in alone else ():
        try:
            drawn.append(run_picture(unit, tuple(alone)))
        except Nothing as nothing:
            undrawn.append(str(nothing))
    if len(units) > MOST_RUNS:
        undrawn.append(
            f"{len(units) - MOST_RUNS} of {len(units)} runs by themselves; choose with field=value"
        )
    return drawn, undrawn


def overview_pictures(
    units: Sequence[Unit], prefix: str, kinds: Sequence[str], metric: str = LOGLIK
) -> tuple[list[Picture], list[str]]:
    """What can be drawn of runs together: those of the commonest protocol, not more than a picture holds."""
    if not kinds:
        return [], []
    kept, left = most_run(units)
    if not kept:
        return [], []
    drawn, undrawn = comparison_pictures(as_comparison(kept, find_metric(metric)), prefix, kinds)
    return drawn, [*undrawn, *(f"left out: {text}" for text in left)]


def most_run(units: Sequence[Unit]) -> tuple[list[Method], list[str]]:
    """Return the methods and datasets with most runs, of the commonest protocol, and what is omitted."""
    found = methods(units)
    if not found:
        return [], []
    protocol = commonest_protocol(found)
    kept = sorted((m for m in found if m.protocol == protocol), key=lambda m: -len(m.units))[:MOST_METHODS]
    sets: dict[str, int] = {}
    for method in kept:
        for name, runs in method.units.items():
            sets[name] = sets.get(name, 0) + len(runs)
    shown = sorted(sets, key=lambda name: -sets[name])[:MOST_SETS]
    for method in kept:
        method.units = {name: runs for name, runs in method.units.items() if name in shown}
    left = []
    if len(found) > len(kept):
        left.append(f"{len(found) - len(kept)} of {len(found)} methods (protocol {protocol} is drawn)")
    if len(sets) > len(shown):
        left.append(f"{len(sets) - len(shown)} of {len(sets)} datasets")
    return kept, left
