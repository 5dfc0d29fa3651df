"""Charts of one run: predicted against observed, intervals, PIT, classes, reliability, training curve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dgpbench.config import plugins
from dgpbench.config.schema import NUMBERS
from dgpbench.errors import in_user_file, message, source_of
from dgpbench.report.charts import Axis, Layer, Nothing, Panel, Rows, thin
from dgpbench.report.charts.picture import Picture, panels_picture
from dgpbench.report.charts.table_charts import shaded_text
from dgpbench.report.charts.training_curves import trace_frame, training
from dgpbench.report.run_files import draws_over_x, predictions_of, trace_of
from dgpbench.store.differences import dataset_label
from dgpbench.store.record import Record
from dgpbench.store.scan import Unit

MOST_POINTS, MOST_INTERVALS, MOST_PLACES = 500, 120, 300
MOST_CLASSES = 12  # with their counts
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)  # of bands and intervals
QUANTILES = ("q05", "q25", "q50", "q75", "q95")
PIT_BINS = (5, 20)  # of a histogram: a tenth of its rows, between these
BANDS = tuple(Layer("area", y=low, y2=high, style="band") for low, high in (("q05", "q95"), ("q25", "q75")))


def run_name(record: Record) -> str:
    """'dgp2 on energy, split 3'."""
    seed = f", seed {record.seed}" if record.seed else ""
    return f"{record.model} on {dataset_label(record.config)}, split {record.split}{seed}"


@dataclass(frozen=True)
class RunView:
    """What figures of a run are drawn from: its unit, and the columns of its predictions, if it has them."""

    unit: Unit
    predictions: dict[str, np.ndarray]

    @property
    def record(self) -> Record:
        return self.unit.record


Draw = Callable[[RunView], list[Panel]]


def run_figure(name: str) -> Callable[[Draw], Draw]:
    """Declare a figure of a run, for `plot --kind name` and the run's page in the report.

    The function returns panels, and none if there is nothing to draw.
    """
    return lambda draw: draw


def run_figures() -> list[str]:
    """Return the names of the figures of a run."""
    return list(plugins.entries("run_figure"))


def run_panels(unit: Unit) -> tuple[list[tuple[str, Panel]], str]:
    """Return panels of what was kept of a run, each with its kind, and why others are missing."""
    columns, why = predictions_of(unit) if unit.record.done else ({}, "")
    run, found = RunView(unit, columns), []
    known = plugins.entries("run_figure")
    for kind in sorted(known, key=lambda kind: kind == "curves"):  # training comes last
        draw = plugins.load(known[kind])
        try:
            found += [(kind, panel) for panel in draw(run)]
        except Exception as error:
            if not source_of(draw):
                raise
            why += (
                f"{'; ' if why else ''}{kind}: {type(error).__name__}: {message(error)}{in_user_file(error)}"
            )
    return found, why


@run_figure("curves")
def curves(run: RunView) -> list[Panel]:
    return curve(run.unit)


@run_figure("predictions")
def predictions(run: RunView) -> list[Panel]:
    found, columns = [], run.predictions
    if kept := draws_over_x(run.unit):
        found.append(over_x(*kept))
    if "mean" in columns:
        found.append(predicted(columns))
    if "q05" in columns:
        found.append(intervals(columns))
    if "predicted" in columns:
        found.append(confusion(columns["y"], columns["predicted"]))
    return found


@run_figure("calibration")
def calibration(run: RunView) -> list[Panel]:
    stored = run.predictions.get("pit")
    shares = recorded_pit(run.record) if stored is None else pit_shares(stored)
    return [] if shares is None else [pit(shares)]


@run_figure("reliability")
def reliability_of_classes(run: RunView) -> list[Panel]:
    bins = run.record.details.get("reliability")
    return [reliability(bins)] if bins else []


def run_picture(unit: Unit, kinds: Sequence[str] | None = None) -> Picture:
    """Draw the panels of a run of these kinds; Nothing if there are none."""
    record, known = unit.record, run_figures()
    panels, why = run_panels(unit)
    chosen = [kind for kind in known if kinds is None or kind in kinds]
    shown = [(kind, panel) for kind, panel in panels if kind in chosen]
    if not shown:
        raise Nothing(f"{run_name(record)}: {why or _why_not(record, chosen)}")
    parts = ["run", record.key[:8], *(chosen if len(chosen) < len(known) else ())]
    data = _numbers(unit, {kind for kind, _ in shown})
    drawn = [panel for _, panel in shown]
    return panels_picture("-".join(parts), run_name(record), drawn, data, [why] if why else [], 2, (5.0, 3.2))


def _numbers(unit: Unit, kinds: set[str]) -> pd.DataFrame:
    """What the panels show: the predictions if they are drawn, else the bins of classes, else the curve."""
    columns, record = predictions_of(unit)[0], unit.record
    if columns and kinds - {"reliability", "curves"}:
        return pd.DataFrame(columns)
    if "calibration" in kinds:
        return pd.DataFrame({"share": recorded_pit(record)})
    if "reliability" in kinds:
        return pd.DataFrame(record.details["reliability"])
    return pd.DataFrame(trace_of(record), columns=["step", "seconds", "bound"])


def _why_not(record: Record, kinds: Sequence[str]) -> str:
    """Why a run whose predictions are here has nothing of these kinds."""
    numbers = record.config.get("dataset", {}).get("task", "regression") in NUMBERS
    if set(kinds) == {"reliability"} and numbers:
        return "reliability is that of classes; of quantities draw calibration"
    if set(kinds) == {"calibration"} and not numbers:
        return "calibration is that of quantities; of classes draw reliability"
    if set(kinds) == {"curves"}:
        return "it was not trained step by step, so there is no curve"
    return "nothing was kept of it that could be drawn"


def over_x(x: np.ndarray, y: np.ndarray, draws: np.ndarray) -> Panel:
    """Return 90 % and 50 % bands of draws (R, n) and their median over one input, with the observations."""
    order = np.argsort(x, kind="stable")
    q = np.quantile(draws[order], LEVELS, axis=1)
    rows: Rows = [
        {"x": float(x[order][i]), "y": float(y[order][i])}
        | {name: float(v[i]) for name, v in zip(QUANTILES, q, strict=True)}
        for i in thin(len(order), MOST_PLACES)
    ]
    tips = {"x": "x", "y": "observed", "q50": "median", "q05": "5 %", "q95": "95 %"}
    layers = (*BANDS, Layer("line", y="q50", style="line"), Layer("point", style="bad", size=14, tips=tips))
    return Panel("90 % and 50 % bands over x", rows, Axis("x"), Axis("y"), layers)


def predicted(columns: dict[str, np.ndarray]) -> Panel:
    """Return observed against predicted mean; the diagonal is perfect."""
    kept = thin(len(columns["y"]), MOST_POINTS)
    rows: Rows = [
        {"x": float(a), "y": float(b)} for a, b in zip(columns["mean"][kept], columns["y"][kept], strict=True)
    ]
    both = [value for row in rows for value in row.values()]
    tips = {"x": "predicted", "y": "observed"}
    layers = (
        Layer("line", rows=[{"x": v, "y": v} for v in (min(both), max(both))], style="guide"),
        Layer("point", style="accent", size=18, opacity=0.6, tips=tips),
    )
    return Panel("Predicted and observed", rows, Axis("predicted mean"), Axis("observed"), layers)


def intervals(columns: dict[str, np.ndarray]) -> Panel:
    """Return central 90 % and 50 % intervals in the order of the predicted mean."""
    y = columns["y"]
    inside = (y >= columns["q05"]) & (y <= columns["q95"])
    order = np.argsort(columns["mean"], kind="stable")
    order = order[thin(len(order), MOST_INTERVALS)]
    names = ("q05", "q25", "q75", "q95", "y")
    rows: Rows = [
        {"x": i, "inside": bool(inside[at]), "outside": not inside[at]}
        | {name: float(columns[name][at]) for name in names}
        for i, at in enumerate(order)
    ]
    tips = {"y": "observed", "q05": "5 %", "q95": "95 %", "inside": "in the 90 % interval"}
    layers = (
        *(
            Layer("rule", y=low, y2=high, style="accent", size=size, opacity=0.5)
            for low, high, size in (("q05", "q95", 1), ("q25", "q75", 3))
        ),
        *(
            Layer("point", only=part, style=style, size=14, tips=tips)
            for style, part in (("ink", "inside"), ("bad", "outside"))
        ),
    )
    title = f"90 % and 50 % intervals: {100 * inside.mean():.0f} % of {len(y):,} inside 90 %"
    return Panel(title, rows, Axis("test rows by predicted mean", (-1, len(order))), Axis("y"), layers)


def pit_shares(values: np.ndarray) -> np.ndarray:
    """Return shares of PIT values in equal bins of [0, 1]: as many bins as the rows can fill."""
    bins = int(np.clip(len(values) // 10, *PIT_BINS))
    return np.histogram(values, bins=bins, range=(0, 1))[0] / len(values)


def recorded_pit(record: Record) -> np.ndarray | None:
    """Return the histogram that the record itself holds, for a run without its predictions."""
    found = record.details.get("pit_histogram")
    return np.asarray(found, float) if found else None


def pit(shares: np.ndarray) -> Panel:
    """Return shares per bin of [0, 1] as bars, with the level of a calibrated model."""
    edges = np.linspace(0, 1, len(shares) + 1)
    rows: Rows = [
        {"x": float(a), "to": float(b), "y": float(s * len(shares)), "zero": 0.0}
        for a, b, s in zip(edges, edges[1:], shares, strict=False)
    ]
    layers = (
        Layer("rect", x2="to", y2="zero", style="bar", tips={"y": "density"}),
        Layer("rule", x="", rows=[{"y": 1.0}], style="bad"),
    )
    y = Axis("density (1 is calibrated)", (0.0, max(1.05, 1.05 * max(row["y"] for row in rows))))
    return Panel("PIT: flat if calibrated", rows, Axis("PIT", (0.0, 1.0)), y, layers)


def confusion(y: np.ndarray, chosen: np.ndarray) -> Panel:
    """Return the rows of each class by the predicted class, shaded by their share of the class."""
    C = int(max(y.max(), chosen.max())) + 1
    counts = np.zeros((C, C), int)
    np.add.at(counts, (y, chosen), 1)
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    rows: Rows = [
        {
            "x": str(j),
            "y": str(i),
            "gap": float(1 - share[i, j]),
            "dark": bool(share[i, j] > 0.55),
            "light": bool(share[i, j] <= 0.55),
            "text": str(counts[i, j]),
            "share": f"{share[i, j]:.1%}",
        }
        for i, j in np.argwhere(counts)
    ]
    names = tuple(map(str, range(C)))
    tips = {"y": "class", "x": "predicted class", "text": "rows", "share": "of the class"}
    text = shaded_text(names[:1], "x", "y") if C <= MOST_CLASSES else ()
    title = f"Classes: {100 * (y == chosen).mean():.1f} % of {len(y):,} predicted right"
    layers = (Layer("rect", colour_by="gap", tips=tips), *text)
    x_axis, y_axis = Axis("predicted class", names=names), Axis("observed class", names=names)
    return Panel(title, rows, x_axis, y_axis, layers)


def reliability(bins: dict[str, list]) -> Panel:
    """Return accuracy against confidence, areas by the number of rows; the diagonal is calibrated."""
    rows: Rows = [
        {"x": float(a), "y": float(b), "rows": int(n)}
        for a, b, n in zip(bins["confidence"], bins["accuracy"], bins["count"], strict=True)
        if n
    ]
    low = min(min(row["x"], row["y"]) for row in rows)
    tips = {"x": "confidence", "y": "accuracy", "rows": "rows"}
    layers = (
        Layer("line", rows=[{"x": v, "y": v} for v in (low, 1.0)], style="guide"),
        Layer("line", style="line"),
        Layer("point", style="accent", size_by="rows", opacity=0.8, tips=tips),
    )
    return Panel(
        "Reliability: area is the number of rows", rows, Axis("confidence"), Axis("accuracy"), layers
    )


def curve(unit: Unit) -> list[Panel]:
    """Return the training curve: by seconds, or by steps where seconds are not known."""
    data = trace_frame([unit])
    data["panel"] = f"Training: {int(data.step.max()):,} steps" if len(data) else ""
    x = "seconds" if data.seconds.notna().all() and (data.seconds > 0).sum() > 1 else "step"
    return training(data, list(dict.fromkeys(data.method)), x)
