"""Plots of the layers of a deep GP of one input, and of aligned sequences with their warps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from dgpbench.errors import UserError
from dgpbench.report.charts import Axis, Layer, Nothing, Panel, Rows
from dgpbench.report.charts.picture import Picture, panels_picture
from dgpbench.report.charts.run_charts import LEVELS, QUANTILES, run_name
from dgpbench.store.record import Record
from dgpbench.store.scan import Unit

# scaled inputs (G, D), samples, seed -> samples (S, G, width) of the output of each layer
LayerSamples = Callable[[np.ndarray, int, int], list[np.ndarray]]
Opened = Callable[[Unit], tuple[Any, LayerSamples]]  # the split and the fitted layers of a run

POINTS, SAMPLES, SEED = 150, 400, 0
MOST_OUTPUTS = 3  # of one layer
NAMES = {"gp": "GP", "lv": "inputs with latent variable", "linear": "projection", "warp": "monotone warp"}


def has_layers(record: Record) -> bool:
    """Whether a run has layers to draw: a GP model of one input, which may be that of several sequences."""
    model = record.config["model"]
    one = record.sizes.get("inputs") == 1 and model.get("use_inputs", True)
    return bool((one or _aligns(record)) and model.get("layers") and record.done)


def _aligns(record: Record) -> bool:
    return (record.config["model"].get("layers") or [None])[0] == "align"


def layer_pictures(units: Sequence[Unit], opened: Opened) -> tuple[list[Picture], list[str]]:
    """One picture for each run that has layers, and why there is none for the others."""
    drawn, undrawn = [], []
    for unit in units:
        try:
            drawn.append(layer_picture(unit, opened))
        except (Nothing, UserError) as error:
            undrawn.append(f"layers of {run_name(unit.record)}: {error}")
    return drawn, undrawn


def layer_picture(unit: Unit, opened: Opened) -> Picture:
    """Panels from the first layer to the last; Nothing if the run is not a GP of one input."""
    record = unit.record
    if not has_layers(record):
        raise Nothing("they are drawn of finished GP models of one input")
    name, title_of_all = f"layers-{record.key[:8]}", f"Layers: {run_name(record)}"
    split, samples = opened(unit)
    if _aligns(record):
        first = lambda X: samples(X, SAMPLES, SEED)[0][..., 0]  # noqa: E731
        return alignment_picture(name, title_of_all, split, first)
    x, found = _samples_of(samples, split)
    kinds = record.config["model"]["layers"]
    parts, drawn = [], []
    for i, values in enumerate(found):
        rows: Rows = []
        for output in range(min(values.shape[2], MOST_OUTPUTS)):
            bands = np.quantile(values[:, :, output], LEVELS, axis=0)
            part = pd.DataFrame(dict(zip(QUANTILES, bands, strict=True)))
            parts.append(part.assign(layer=i + 1, kind=kinds[i], output=output, x=x))
            rows += [row | {"model": f"output {output + 1}"} for row in parts[-1].to_dict("records")]
        outputs = tuple(dict.fromkeys(row["model"] for row in rows))
        layers = (
            Layer("area", y="q05", y2="q95", opacity=0.2),
            Layer("area", y="q25", y2="q75", opacity=0.35),
            Layer("line", y="q50"),
        )
        title = f"{i + 1}: {NAMES.get(kinds[i], kinds[i])}"
        drawn.append(Panel(title, rows, Axis("x"), Axis("output of the layer"), layers, outputs))
    most = max(drawn, key=lambda panel: len(panel.models)).models
    drawn = [replace(panel, models=most if len(most) > 1 else ()) for panel in drawn]
    notes = (
        f"90 % and 50 % bands and median of {SAMPLES} samples at each x, from the first layer to the last; "
        "inner layers in the model's own units, the last in standardised y",
    )
    data = pd.concat(parts, ignore_index=True)
    return panels_picture(name, title_of_all, drawn, data, notes, len(drawn), (3.0, 2.5))


def _samples_of(samples: LayerSamples, split) -> tuple[np.ndarray, list[np.ndarray]]:
    """x (G,) in original units over the training inputs, and samples (S, G, width) of each layer's output."""
    X = np.linspace(split.X_train.min(), split.X_train.max(), POINTS)[:, None]
    x = X[:, 0] * np.reshape(split.x_std, -1)[0] + np.reshape(split.x_mean, -1)[0]
    return x, samples(X, SAMPLES, SEED)


GRID = 200  # points at which two sequences are compared
DRAWS = 8  # of each warp that are shown


def distance(x: np.ndarray, y: np.ndarray, sequence: np.ndarray) -> float:
    """Mean squared difference between two sequences (straight lines between their points) where both are,
    averaged over all pairs."""
    lines = {}
    for name in np.unique(sequence):
        order = np.argsort(x[sequence == name], kind="stable")
        lines[name] = x[sequence == name][order], y[sequence == name][order]
    found = []
    for (a, ya), (b, yb) in combinations(lines.values(), 2):
        grid = np.linspace(max(a[0], b[0]), min(a[-1], b[-1]), GRID)
        found.append(np.mean((np.interp(grid, a, ya) - np.interp(grid, b, yb)) ** 2))
    return float(np.mean(found))


def alignment_picture(name: str, title: str, split, warps: Callable[[np.ndarray], np.ndarray]) -> Picture:
    """Observed sequences, draws of their warps, and the sequences at the means of their warps.

    `warps` gives draws (S, N) of what the first layer makes of scaled inputs (N, 2).
    """
    X, y = split.X_train, split.Y_train[:, 0]
    order = np.lexsort((X[:, 0], X[:, 1]))
    X, y = X[order], y[order] * np.ravel(split.y_std)[0] + np.ravel(split.y_mean)[0]
    scale, shift = np.ravel(split.x_std)[0], np.ravel(split.x_mean)[0]
    time, draws = X[:, 0] * scale + shift, warps(X) * scale + shift
    names = np.round(X[:, 1] * np.ravel(split.x_std)[1] + np.ravel(split.x_mean)[1], 6)
    data = pd.DataFrame({"sequence": names, "time": time, "warped": draws.mean(0), "y": y})
    data = data.assign(**{f"draw{i}": draws[i] for i in range(DRAWS)})
    before, after = (distance(data[x].to_numpy(), y, names) for x in ("time", "warped"))

    sequences = {name: f"sequence {name:g}" for name in np.unique(names)}
    models = tuple(sequences.values())
    labels = [sequences[name] for name in names]
    curve = (Layer("line", size=1), Layer("point", size=20))

    def rows(x: np.ndarray, values: np.ndarray, draw: int = 0) -> Rows:
        columns = zip(labels, x, values, strict=True)
        return [{"model": model, "x": float(a), "y": float(b), "draw": draw} for model, a, b in columns]

    drawn = [row for k in range(DRAWS) for row in rows(time, draws[k], k)]
    identity = [{"x": float(t), "y": float(t)} for t in (time.min(), time.max())]
    warps_shown = (
        Layer("line", by="draw", size=0.8, opacity=0.6),
        Layer("line", rows=identity, style="ink", size=0.8),
    )
    observed, aligned = f"as observed: distance {before:.2g}", f"aligned: distance {after:.2g}"
    panels = [
        Panel(observed, rows(time, y), Axis("input"), Axis("y"), curve, models),
        Panel("warps", drawn, Axis("input"), Axis("warped input"), warps_shown, models),
        Panel(aligned, rows(draws.mean(0), y), Axis("warped input"), Axis("y"), curve, models),
    ]
    notes = (
        f"mean squared difference between two sequences: {before:.3g} as observed, {after:.3g} aligned; "
        f"{DRAWS} draws of each warp with the identity, aligned at the mean of {len(draws)}",
    )
    return panels_picture(name, title, panels, data, notes, 3, (3.0, 2.5))
