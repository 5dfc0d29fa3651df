"""Runs with stored draws, one per dataset and config, in the order of table 5.1's columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dgpbench.errors import UserError
from dgpbench.papers import specs
from dgpbench.report.figures.picture import Nothing, panels
from dgpbench.store import read
from dgpbench.store.scan import Unit

MOST = 6  # panels in a row; more are left out with a note


@dataclass(frozen=True)
class Kept:
    """The kept test rows of one run: inputs x (R, D), observations y (R,), draws (R, n), original units."""

    dataset: str
    label: str
    unit: Unit
    x: np.ndarray
    y: np.ndarray
    draws: np.ndarray
    row: np.ndarray


def kept_draws(units: Sequence[Unit]) -> tuple[dict[str, list[Kept]], list[str]]:
    """Draws by dataset, and notes on those left out; of each config its lowest split with draws is taken."""
    found: dict[str, dict[str, Kept]] = {}
    lacking: dict[str, str] = {}
    for unit in sorted(units, key=lambda u: (u.record["dataset"], u.record["split"], u.record["seed"])):
        record = unit.record
        taken = found.setdefault(record["dataset"], {})
        if record["config_key"] in taken or unit.is_reference:
            continue
        try:
            columns = read.draws(unit)
        except UserError as error:
            lacking.setdefault(f"{record['dataset']} {_label(record)}", str(error))
            continue
        first = columns["output"] == 0
        parts = (columns[name][first] for name in ("x", "y", "draws", "row"))
        taken[record["config_key"]] = Kept(record["dataset"], _label(record), unit, *parts)
    notes = [f"{name} is left out: {reason}" for name, reason in lacking.items() if not _has(found, name)]
    ordered = {name: _distinct(list(taken.values())) for name, taken in found.items() if taken}
    if not ordered:
        raise Nothing(
            "none of these runs has kept draws: records of results/reference come without them, "
            "so run the experiment here"
        )
    for name, runs in ordered.items():
        if len(runs) > MOST:
            left = ", ".join(run.label for run in runs[MOST:])
            notes.append(f"{name}: left out {left}; choose with field=value")
            ordered[name] = runs[:MOST]
    return ordered, notes


def panel_for_each(
    figure, found: Mapping[str, Sequence[Kept]], y_label: str, **fields
) -> list[tuple[Any, Kept]]:
    """Axes and run of each panel: a row for each dataset, in it a panel under the name of each run."""
    axes = panels(figure, len(found), max(map(len, found.values())), sharey="row", **fields)
    for place in axes.flat:
        place.set_visible(False)
    out = []
    for places, (name, runs) in zip(axes, found.items(), strict=True):
        places[0].set_ylabel(f"{name}\n{y_label}")
        for place, run in zip(places, runs, strict=False):
            place.set_visible(True)
            place.set_title(run.label, loc="left")
            out.append((place, run))
    return out


def _has(found: dict[str, dict[str, Kept]], name: str) -> bool:
    return any(f"{run.dataset} {run.label}" == name for taken in found.values() for run in taken.values())


def _columns() -> dict[str, str]:
    places = specs.load("5.1").places.values()
    return {place.experiment: place.column for place in places if place.experiment}


def _label(record: dict) -> str:
    named = _columns()
    if record["experiment"] in named and not record["deviations"]:
        return named[record["experiment"]]
    if record["experiment"]:
        return " ".join([record["experiment"], *(text.partition(" (")[0] for text in record["deviations"])])
    model = record["model"].replace("_", "-")
    model = model.upper() if {"gp", "lv"} & set(model.split("-")) else model
    return f"{model} {record['inference'].upper()}" if "LV" in model else model


def _distinct(runs: list[Kept]) -> list[Kept]:
    """Curves in the order of the table, then by name; equal labels told apart by their config."""
    order = list(dict.fromkeys(_columns().values()))
    labels = [run.label for run in runs]
    runs = [
        Kept(**{**run.__dict__, "label": f"{run.label} {run.unit.record['config_key'][:4]}"})
        if labels.count(run.label) > 1
        else run
        for run in runs
    ]
    depth = {run.label: run.label.upper().count("GP") + 10 * ("LV" in run.label.upper()) for run in runs}
    return sorted(
        runs,
        key=lambda run: (
            order.index(run.label) if run.label in order else len(order),
            depth[run.label],
            run.label,
        ),
    )
