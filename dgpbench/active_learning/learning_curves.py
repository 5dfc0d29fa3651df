"""Curves as one table, and as a picture: a metric over the number of labels, mean and error over splits."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dgpbench.active_learning.selection import Options
from dgpbench.config.keys import run_key
from dgpbench.report.charts import Nothing
from dgpbench.report.charts.picture import Picture, columns_for, legend_below, panel_each
from dgpbench.store.differences import dataset_label
from dgpbench.store.layout import labels_of, unit_folder
from dgpbench.store.untrusted import parse_json, read_regular
from dgpbench.store.write import clear_errors

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = 3
NAMES = {"loglik": "log-likelihood", "rmse": "RMSE", "accuracy": "accuracy"}
PARTS = {"test": "test rows", "rest": "rows without label", "seen": "rows with label", "pool": "all rows"}


def frame(curves: Sequence[Curve]) -> pd.DataFrame:
    """One row per step: dataset, method, split, seed, labels, row, metrics, seconds."""
    import pandas as pd

    labels = method_labels(curves)
    lines = []
    for curve, method in zip(curves, labels, strict=True):
        cfg = curve.config
        about = {"dataset": _dataset(cfg), "method": method, "model": cfg["model"]["name"]}
        about |= {"select": curve.options.select, "split": cfg["split"], "seed": cfg["seed"]}
        lines += [about | step for step in curve.steps]
    return pd.DataFrame(lines)


def method_labels(curves: Sequence[Curve]) -> list[str]:
    """Names of the curves' methods: the model, and what else differs between curves of one model."""
    from dgpbench.report.comparison.fairness import settings_text

    by_model: dict[str, set[str]] = {}
    for curve in curves:
        by_model.setdefault(curve.config["model"]["name"], set()).add(settings_text(curve.config))
    several = len({curve.options.select for curve in curves}) > 1
    found = []
    for curve in curves:
        name = curve.config["model"]["name"]
        parts = [name]
        if len(by_model[name]) > 1:
            parts.append(settings_text(curve.config) or "default")
        found.append(", ".join([*parts, curve.options.select] if several else parts))
    return found


def summary(data: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Mean, standard error and number of curves by dataset, method and labels."""
    groups = data.groupby(["dataset", "method", "labels"], sort=False)[metric]
    table = groups.agg(mean="mean", sd="std", n="count").reset_index()
    table["error"] = table["sd"] / table["n"] ** 0.5
    return table.drop(columns="sd")


def picture(curves: Sequence[Curve], metric: str) -> Picture:
    """A panel per dataset, a line per method."""
    data = frame(curves)
    if data.empty or metric not in data:
        raise Nothing(f"these curves have no {metric}")
    table = summary(data, metric)
    names, methods = (list(dict.fromkeys(table[column])) for column in ("dataset", "method"))
    wide = columns_for(len(names), COLUMNS)
    high = math.ceil(len(names) / wide)

    def paint(figure, theme):
        handles = {}
        drawn = panel_each(figure, names, wide)
        for place, name in drawn:
            for i, method in enumerate(methods):
                line = table[(table.dataset == name) & (table.method == method)]
                colour = theme["colours"][i % len(theme["colours"])]
                (handles[method],) = place.plot(line.labels, line["mean"], color=colour, marker="o", ms=3)
                low, high_ = line["mean"] - line.error, line["mean"] + line.error
                place.fill_between(line.labels, low, high_, color=colour, alpha=0.15, lw=0)
            place.set_title(name, loc="left")
            place.set_xlabel("labels")
            place.grid(lw=0.4)
            place.xaxis.get_major_locator().set_params(integer=True)
        drawn[0][0].set_ylabel(title(metric))
        legend_below(figure, handles.values(), handles)

    splits = len({(c.config["split"], c.config["seed"]) for c in curves})
    notes = ("mean over splits, band: one standard error",) if splits > 1 else ()
    size = (3.6 * wide + 0.6, 2.7 * high + 0.8)
    return Picture(f"active-{metric}", f"Active learning: {title(metric)}", table, paint, size, notes)


def title(metric: str) -> str:
    """'log-likelihood, test rows'."""
    part, _, name = metric.partition("_")
    return f"{NAMES.get(name, name)}, {PARTS.get(part, part)}"


def _dataset(cfg: dict) -> str:
    return dataset_label(cfg)


FOLDER = "active"
SCHEMA = 1


@dataclass
class Curve:
    """Steps of one model on one split, with what they were made of."""

    key: str
    config: dict
    options: Options
    data_hash: str
    steps: list[dict] = field(default_factory=list)
    reason: str | None = None  # why it ended early


def curve_key(cfg: dict, data_hash: str, options: Options) -> str:
    text = json.dumps({"run": run_key(cfg, data_hash), **asdict(options)}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def curve_path(results: str | Path, cfg: dict, key: str) -> Path:
    folder = unit_folder(Path(results) / FOLDER, labels_of(cfg), key)
    return folder.with_name(f"{folder.name}.json")


def read_curve(path: Path, empty: Curve) -> Curve:
    """The curve of a file that goes on what `empty` begins; `empty` itself where there is no such file."""
    try:
        content = parse_json(read_regular(path))
        fits = content["schema"] == SCHEMA and content["key"] == empty.key
        steps = [_checked(step) for step in content["steps"]] if fits else []
    except (OSError, ValueError, KeyError, TypeError):
        return empty  # none yet, or not one of ours: begun anew
    empty.steps = steps
    return empty


def write_curve(results: str | Path, path: Path, curve: Curve) -> None:
    """Write the curve whole or not at all."""
    from dgpbench.report.output_files import put

    text = json.dumps({"schema": SCHEMA} | asdict(curve), indent=1, allow_nan=False)
    with clear_errors(results):
        path.parent.mkdir(parents=True, exist_ok=True)
        put(path, text.encode())


def _checked(step: dict) -> dict:
    """A step of numbers; ValueError if it is none."""
    for name in ("labels", "row"):
        if type(step[name]) is not int:
            raise ValueError(f"{name} is no whole number")
    if not all(isinstance(v, int | float) and math.isfinite(v) for v in step.values()):
        raise ValueError("a step holds what is no number")
    return step
