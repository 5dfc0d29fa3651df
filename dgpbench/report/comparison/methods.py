"""Finished runs grouped into methods by datasets, and pictures of them, of comparisons and of chosen runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dgpbench.config import plugins
from dgpbench.config.derived import is_trial
from dgpbench.evaluate.metric_table import LOGLIK, Metric, find_metric
from dgpbench.report.charts import Nothing
from dgpbench.report.charts.picture import Picture, PictureSpec
from dgpbench.report.charts.run_charts import run_figures, run_picture
from dgpbench.report.charts.table_charts import PICTURES
from dgpbench.report.charts.training_curves import trace_picture
from dgpbench.report.comparison.compare_runs import Comparison, tuned_names
from dgpbench.report.result_table import Cell, Place, Spec, Table
from dgpbench.store.differences import dataset_label, differences
from dgpbench.store.record import Record
from dgpbench.store.scan import Unit

NAMES = ("model", "inference", "protocol")


@dataclass
class Method:
    """Runs that differ in data, split and seed only."""

    model: str
    inference: str
    protocol: str
    settings: str
    units: dict[str, list[Unit]] = field(default_factory=dict)  # by dataset

    @property
    def label(self) -> str:
        return " ".join(part for part in (self.model, self.settings) if part)


def methods(units: Iterable[Unit]) -> list[Method]:
    """Methods in the order of their names. Data of one name that are not the same go by their hash too."""
    units = [unit for unit in units if not is_trial(unit.record.config)]
    hashes: dict[str, set] = {}
    for unit in units:
        hashes.setdefault(_data_name(unit.record), set()).add(unit.record.data_hash)
    found: dict[tuple, Method] = {}
    known: dict[tuple[str, str | None], str] = {}  # settings by config_key and tuning
    for unit in units:
        record = unit.record
        key = record.config_key, record.config.get("tuned")
        if key not in known:
            known[key] = _settings(record)
        names = (*(record[name] for name in NAMES), known[key])
        data = _data_name(record)
        if len(hashes[data]) > 1:
            data = f"{data} ({(record.data_hash or 'unknown')[:4]})"
        found.setdefault(names, Method(*names)).units.setdefault(data, []).append(unit)
    return sorted(found.values(), key=lambda m: (m.protocol, m.model, m.inference, m.settings))


def _data_name(record: Record) -> str:
    """The dataset's name; a file of the user's own goes by its name without the ending."""
    label = dataset_label(record.config)
    return Path(label).stem if record.dataset == "csv" else label


def _settings(record: Record) -> str:
    """Settings that are not the defaults; of a refit what was tuned, not what was chosen."""
    names = tuned_names(str(record.config.get("tuned") or ""))
    words = [word for word in differences(record) if word.partition("=")[0] not in ("tuned", *names)]
    said = [f"tuned:{','.join(names)}"] if names[0] else []
    return " ".join([*(word for word in words if not word.startswith("dataset.")), *said])


def commonest_protocol(found: Sequence[Method]) -> str:
    """The protocol with most units."""
    count: dict[str, int] = {}
    for method in found:
        count[method.protocol] = count.get(method.protocol, 0) + sum(map(len, method.units.values()))
    return max(count, key=lambda name: (count[name], name))


def as_comparison(found: Sequence[Method], metric: Metric, common: Sequence[str] = ()) -> Comparison:
    """Methods of one protocol as a comparison: columns are methods, rows datasets with such a metric.

    Labels of columns omit the `common` settings.
    """
    labels = _distinct(found, common)
    rows = sorted({data for method in found for data in method.units})
    cells, configs = {}, {}
    for row in rows:
        for label, method in zip(labels, found, strict=True):
            units = method.units.get(row, [])
            place = Place(row, label, metric=metric.name, better=metric.better or "higher")
            cell = cells[row, label] = Cell(place, expected=len({u.record.split for u in units}))
            cell.take(units)
            if units:
                configs[row, label] = cell.units[0].record.config
    rows = [row for row in rows if any(cells[row, label].values for label in labels)]
    spec = Spec(
        name="runs",
        title=metric.title,
        units=metric.units,
        rows=tuple(rows),
        columns=tuple(labels),
        places={at: cell.place for at, cell in cells.items()},
        corrected_errors=True,
    )
    return Comparison(Table(spec, {at: c for at, c in cells.items() if at[0] in rows}), metric, configs, ())


def common_settings(found: Sequence[Method]) -> list[str]:
    """Return the settings that all methods with settings share, if there are several."""
    each = [method.settings.split() for method in found if method.settings]
    return [word for word in each[0] if all(word in words for words in each)] if len(each) > 1 else []


def _distinct(found: Sequence[Method], common: Sequence[str]) -> list[str]:
    """Labels; those that are equal are told apart by their inference."""
    labels = [" ".join(word for word in method.label.split() if word not in common) for method in found]
    return [
        f"{label} {method.inference}" if labels.count(label) > 1 else label
        for label, method in zip(labels, found, strict=True)
    ]


MOST_METHODS, MOST_SETS = 8, 12  # colours and panels of one picture
MOST_RUNS = 12  # drawn one by one


Draw = Callable[[PictureSpec, Comparison], Picture]


def comparison_figure(name: str, title: str = "{}") -> Callable[[Draw], Draw]:
    """Declare a figure of a comparison, for `compare --plot name`.

    Parameters
    ----------
    name : str
    title : str, default="{}"
        Title, where {} is the title of the metric.
    """

    def declare(draw: Draw) -> Draw:
        draw.title = title  # type: ignore[attr-defined]
        return draw

    return declare


def comparison_pictures(
    comparison: Comparison, prefix: str = "compare", kinds: Sequence[str] | None = None
) -> tuple[list[Picture], list[str]]:
    """Return what can be drawn of a comparison, and why the rest cannot."""
    drawn, undrawn = [], []
    known = plugins.entries("comparison_figure")
    for kind in known if kinds is None else kinds:
        draw = plugins.load(known[kind])
        title = draw.title.format(comparison.metric.title)
        try:
            drawn.append(draw(PictureSpec(f"{prefix}-{kind}", kind, title), comparison))
        except Nothing as nothing:
            undrawn.append(f"{kind}: {nothing}")
    return drawn, undrawn


@comparison_figure("dots")
def draw_dots(spec: PictureSpec, comparison: Comparison) -> Picture:
    return PICTURES["dots"](spec, comparison.table)


@comparison_figure("ranks", "Average ranks: {}")
def draw_ranks(spec: PictureSpec, comparison: Comparison) -> Picture:
    if comparison.metric.better is None:
        raise Nothing(f"of {comparison.metric.name} neither higher nor lower is better")
    return PICTURES["ranks"](spec, comparison.table)


@comparison_figure("curves", "Training curves")
def draw_curves(spec: PictureSpec, comparison: Comparison) -> Picture:
    """One panel per dataset, one colour per column."""
    units, names = named_units(comparison)
    return trace_picture(spec, units, named=lambda record: names[record.key])


@comparison_figure("seconds", "{} against training seconds")
def draw_seconds(spec: PictureSpec, comparison: Comparison) -> Picture:
    return PICTURES["frontier"](spec, comparison.table)


@comparison_figure("calibration", "Calibration")
def draw_calibration(spec: PictureSpec, comparison: Comparison) -> Picture:
    return PICTURES["calibration"](spec, comparison.table)


def named_units(comparison: Comparison) -> tuple[list[Unit], dict[str, tuple[str, str]]]:
    """Return the finished runs of a comparison, and the row and column of each by its key."""
    cells = comparison.table.cells.items()
    found = [(u, at) for at, cell in cells for u in cell.units if u.record.done]
    return [unit for unit, _ in found], {unit.record.key: at for unit, at in found}


def pictures_of_runs(units: Sequence[Unit], kinds: Sequence[str]) -> tuple[list[Picture], list[str]]:
    """Pictures of chosen runs: of one run its panels; of several what compares them, and each by itself."""
    undrawn: list[str] = []
    if len(units) == 1:
        return [run_picture(units[0], tuple(kinds))], undrawn
    drawn, undrawn = overview_pictures(units, "runs", [k for k in kinds if k in ("curves", "calibration")])
    alone = [kind for kind in kinds if kind in run_figures()]
    for unit in units[:MOST_RUNS] if {*alone} - {"curves", "calibration"} else ():
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
