"""What each layer of a deep GP of one input gives: bands over x of samples through the layers. Of aligned
sequences, their warps (alignment.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dgpbench.errors import UserError
from dgpbench.report.figures.picture import Nothing, Picture, panels
from dgpbench.report.runs.alignment import alignment_picture
from dgpbench.report.runs.picture import run_name
from dgpbench.store.scan import Unit

# scaled inputs (G, D), samples, seed -> samples (S, G, width) of the output of each layer
LayerSamples = Callable[[np.ndarray, int, int], list[np.ndarray]]
Opened = Callable[[Unit], tuple[Any, LayerSamples]]  # the split and the fitted layers of a run

POINTS, SAMPLES, SEED = 150, 400, 0
MOST_OUTPUTS = 3  # of one layer
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
COLUMNS = ("q05", "q25", "q50", "q75", "q95")
NAMES = {"gp": "GP", "lv": "inputs with latent variable", "linear": "projection", "warp": "monotone warp"}


def has_layers(record: dict) -> bool:
    """Whether a run has layers to draw: a GP model of one input, which may be that of several sequences."""
    model = record["config"]["model"]
    one = record["sizes"].get("inputs") == 1 and model.get("use_inputs", True)
    return bool((one or _aligns(record)) and model.get("layers") and record["status"] == "done")


def _aligns(record: dict) -> bool:
    return (record["config"]["model"].get("layers") or [None])[0] == "align"


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
    name, title = f"layers-{record['key'][:8]}", f"Layers: {run_name(record)}"
    split, samples = opened(unit)
    if _aligns(record):
        first = lambda X: samples(X, SAMPLES, SEED)[0][..., 0]  # noqa: E731
        return alignment_picture(name, title, split, first)
    x, found = _samples_of(samples, split)
    kinds = record["config"]["model"]["layers"]
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
