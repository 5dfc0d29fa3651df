"""Plots of the layers of a deep GP of one input, and of aligned sequences with their warps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from dgpbench.errors import UserError
from dgpbench.report.charts import Nothing
from dgpbench.report.charts.picture import Picture, legend_below, panels
from dgpbench.report.charts.run_charts import run_name
from dgpbench.store.record import Record
from dgpbench.store.scan import Unit

# scaled inputs (G, D), samples, seed -> samples (S, G, width) of the output of each layer
LayerSamples = Callable[[np.ndarray, int, int], list[np.ndarray]]
Opened = Callable[[Unit], tuple[Any, LayerSamples]]  # the split and the fitted layers of a run

POINTS, SAMPLES, SEED = 150, 400, 0
MOST_OUTPUTS = 3  # of one layer
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
COLUMNS = ("q05", "q25", "q50", "q75", "q95")
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
    name, title = f"layers-{record.key[:8]}", f"Layers: {run_name(record)}"
    split, samples = opened(unit)
    if _aligns(record):
        first = lambda X: samples(X, SAMPLES, SEED)[0][..., 0]  # noqa: E731
        return alignment_picture(name, title, split, first)
    x, found = _samples_of(samples, split)
    kinds = record.config["model"]["layers"]
    parts = []
    for i, values in enumerate(found):
        for output in range(min(values.shape[2], MOST_OUTPUTS)):
            bands = np.quantile(values[:, :, output], LEVELS, axis=0)
            part = pd.DataFrame(
                {f"q{round(100 * p):02d}": band for p, band in zip(LEVELS, bands, strict=True)}
            )
            parts.append(part.assign(layer=i + 1, kind=kinds[i], output=output, x=x))
    data = pd.concat(parts, ignore_index=True)

    def paint(figure, theme):
        axes = panels(figure, 1, len(found), sharex=True)[0]
        for i, place in enumerate(axes):
            for output, part in data[data.layer == i + 1].groupby("output"):
                colour = theme["colours"][output]
                place.fill_between(part.x, part.q05, part.q95, color=colour, alpha=0.2, lw=0)
                place.fill_between(part.x, part.q25, part.q75, color=colour, alpha=0.35, lw=0)
                place.plot(part.x, part.q50, color=colour, lw=1.2)
            place.set_title(f"{i + 1}: {NAMES.get(kinds[i], kinds[i])}", loc="left")
            place.set_xlabel("x")
        axes[0].set_ylabel("output of the layer")

    notes = (
        f"90 % and 50 % bands and median of {SAMPLES} samples at each x, from the first layer to the last; "
        "inner layers in the model's own units, the last in standardised y",
    )
    return Picture(name, title, data, paint, (3.0 * len(found) + 0.6, 3.0), notes)


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

    def paint(figure, theme):
        axes = panels(figure, 1, 3)[0]
        handles, line = {}, {"lw": 0.8, "ms": 3}
        for i, (sequence, part) in enumerate(data.groupby("sequence")):
            colour = theme["colours"][i % len(theme["colours"])]
            handles[f"sequence {sequence:g}"] = axes[0].plot(part.time, part.y, ".-", color=colour, **line)[0]
            for k in range(DRAWS):
                axes[1].plot(part.time, part[f"draw{k}"], color=colour, lw=0.6, alpha=0.6)
            axes[2].plot(part.warped, part.y, ".-", color=colour, **line)
        axes[1].plot(time, time, ".", ms=0.8, color=theme["ink"])
        words = f"as observed: distance {before:.2g}", "warps", f"aligned: distance {after:.2g}"
        for place, word in zip(axes, words, strict=True):
            place.set_title(word, loc="left")
            place.set_xlabel("warped input" if place is axes[2] else "input")
        axes[0].set_ylabel("y")
        legend_below(figure, handles.values(), handles)

    notes = (
        f"mean squared difference between two sequences: {before:.3g} as observed, {after:.3g} aligned; "
        f"{DRAWS} draws of each warp beside the identity (dots), aligned at the mean of {len(draws)}",
    )
    return Picture(name, title, data, paint, (9.6, 3.3), notes)
