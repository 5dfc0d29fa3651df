"""The picture of one run: panels of whatever its record and files allow."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dgpbench.config.schema import NUMBERS
from dgpbench.report.figures.picture import Nothing, Picture, panel_each
from dgpbench.report.run_files import draws_over_x, predictions_of, trace_of
from dgpbench.report.runs import panels as run_panels
from dgpbench.store.differences import dataset_label
from dgpbench.store.scan import Unit

KINDS = ("curves", "predictions", "calibration", "reliability")


@dataclass(frozen=True)
class Panel:
    """One pair of axes of a run's picture."""

    kind: str  # of KINDS
    paint: Callable  # (axes, theme) -> None


def run_picture(unit: Unit, kinds: tuple[str, ...] = KINDS) -> Picture:
    """Predicted against observed, intervals, PIT or reliability, and the training curve; Nothing if none."""
    record = unit.record
    columns, note = predictions_of(unit)
    found = [panel for panel in [*_over_x(unit), *_panels(record, columns)] if panel.kind in kinds]
    if not found:
        raise Nothing(f"{run_name(record)}: {note or _why_not(record, kinds)}")
    wide = 1 if len(found) == 1 else 2
    high = math.ceil(len(found) / wide)

    def paint(figure, theme):
        for place, panel in panel_each(figure, found, wide):
            panel.paint(place, theme)

    notes = (note,) if note else ()
    chosen = [kind for kind in KINDS if kind in kinds]
    parts = ["run", record["key"][:8], *(chosen if len(chosen) < len(KINDS) else ())]
    data = _numbers(record, columns, {panel.kind for panel in found})
    size = (5.0 * wide, 3.3 * high + 0.3)
    return Picture("-".join(parts), run_name(record), data, paint, size, notes)


def _numbers(record: dict, columns: dict[str, np.ndarray], kinds: set[str]) -> pd.DataFrame:
    """What the panels show: the predictions if they are drawn, else the bins of classes, else the curve."""
    if columns and kinds & {"predictions", "calibration"}:
        return pd.DataFrame(columns)
    if "calibration" in kinds:
        return pd.DataFrame({"share": run_panels.recorded_pit(record)})
    if "reliability" in kinds:
        return pd.DataFrame(record["details"]["reliability"])
    return pd.DataFrame(trace_of(record), columns=["step", "seconds", "bound"])


def _why_not(record: dict, kinds: tuple[str, ...]) -> str:
    """Why a run whose predictions are here has nothing of these kinds."""
    numbers = record["config"].get("dataset", {}).get("task", "regression") in NUMBERS
    if set(kinds) == {"reliability"} and numbers:
        return "reliability is that of classes; of quantities draw calibration"
    if set(kinds) == {"calibration"} and not numbers:
        return "calibration is that of quantities; of classes draw reliability"
    if set(kinds) == {"curves"}:
        return "it was not trained step by step, so there is no curve"
    return "nothing was kept of it that could be drawn"


def run_name(record: dict) -> str:
    """'dgp2 on energy, split 3'."""
    seed = f", seed {record['seed']}" if record["seed"] else ""
    return f"{record['model']} on {dataset_label(record)}, split {record['split']}{seed}"


def _over_x(unit: Unit) -> list[Panel]:
    """The predictions over x, where there is one input and draws were kept."""
    kept = draws_over_x(unit)
    if kept is None:
        return []
    return [Panel("predictions", lambda axes, theme: run_panels.over_x(axes, *kept, theme))]


def _panels(record: dict, columns: dict[str, np.ndarray]) -> list[Panel]:
    found = []
    if "mean" in columns:
        found.append(Panel("predictions", lambda axes, theme: run_panels.predicted(axes, columns, theme)))
        if "q05" in columns:
            found.append(Panel("predictions", lambda axes, theme: run_panels.intervals(axes, columns, theme)))
    if "predicted" in columns:
        found.append(
            Panel(
                "predictions",
                lambda axes, theme: run_panels.confusion(axes, columns["y"], columns["predicted"], theme),
            )
        )
    shares = run_panels.recorded_pit(record)
    if "pit" in columns:
        found.append(Panel("calibration", lambda axes, theme: run_panels.pit(axes, columns["pit"], theme)))
    elif shares is not None:
        found.append(Panel("calibration", lambda axes, theme: run_panels.bars(axes, shares, theme)))
    if bins := record["details"].get("reliability"):
        found.append(Panel("reliability", lambda axes, theme: run_panels.reliability(axes, bins, theme)))
    if len(trace_of(record)) > 1:
        found.append(Panel("curves", lambda axes, theme: run_panels.curve(axes, trace_of(record), theme)))
    return found
