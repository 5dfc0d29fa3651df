"""Columns of a comparison in words: settings that are not the default, budget, precision, time, tuning."""

from __future__ import annotations

import math
from statistics import fmean

import pandas as pd

from dgpbench.config.refusals import unused_sections
from dgpbench.report.comparison.fair import budget_text
from dgpbench.report.comparison.fill import Comparison
from dgpbench.report.grid import Grid, plain
from dgpbench.store.differences import differences


def training_seconds(comparison: Comparison, column: str, name: str = "seconds") -> float | None:
    """Mean over the datasets of the mean training seconds of a column's runs."""
    means = []
    for row in comparison.table.spec.rows:
        done = [u.record for u in comparison.table.cells[row, column].units if u.record["status"] == "done"]
        spent = [r["training"].get("seconds") if name == "seconds" else r["wall_seconds"] for r in done]
        spent = [s for s in spent if s is not None]
        means += [fmean(spent)] if spent else []
    return fmean(means) if means else None


def columns_grid(comparison: Comparison) -> Grid:
    """What each column is: settings that are not the defaults, budget, precision, time, tuning."""
    spec = comparison.table.spec
    lines = []
    for column in spec.columns:
        config = comparison.configs[spec.rows[0], column]
        units = [u for row in spec.rows for u in comparison.table.cells[row, column].units]
        lines.append(
            {
                "column": column,
                **in_words(config),
                "training s": training_seconds(comparison, column) or math.nan,
                "all s": training_seconds(comparison, column, "wall") or math.nan,
                "tuned": tuned_text([unit.record for unit in units]),
            }
        )
    notes = (
        "settings: what is not the default; seconds: mean over datasets of the mean over splits, all s with "
        "loading, compilation and evaluation",
    )
    data = pd.DataFrame(lines)
    data = data[[c for c in data if c in ("column", "settings") or (data[c].astype(str) != "").any()]]
    formats = {"training s": ".3g", "all s": ".3g"}
    return plain("What the columns are", data, formats, name="comparison-columns", notes=notes)


def in_words(config: dict) -> dict[str, str]:
    """A config as a reader may want it: names, settings that are not the default, budget, precision."""
    names = {group: config[group]["name"] for group in ("model", "inference", "protocol")}
    return {
        **names,
        "settings": settings_text(config),
        "budget": budget_text(config),
        "precision": precision_text(config),
    }


def precision_text(config: dict) -> str:
    """The precision of training; none for models that do not heed it."""
    return "" if "precision" in unused_sections(config["model"]) else config["precision"]


def settings_text(config: dict) -> str:
    """Settings that are not the default, without those of the data."""
    labels = {group: config[group]["name"] for group in ("dataset", "model", "inference", "protocol")}
    record = {**labels, "config": config, "experiment": config.get("experiment"), "deviations": []}
    return " ".join(word for word in differences(record) if not word.startswith("dataset."))


def tuned_text(records: list[dict]) -> str:
    """How the settings of these runs were chosen, where their records say so."""
    found = dict.fromkeys(str(r["config"]["tuned"]) for r in records if r["config"].get("tuned"))
    return "; ".join(found)
