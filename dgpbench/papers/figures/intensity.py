"""Intensities of point processes with their credible band: a curve over time, or a map of the plane.

Runs of one dataset stand side by side; for a sampler of hyperparameters their draws stand below.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from dgpbench.errors import UserError
from dgpbench.report.figures.picture import Nothing, Picture, panels
from dgpbench.store import read
from dgpbench.store.scan import Unit

SCALES = ("lengthscales", "variance")  # hyperparameters whose draws are shown


@dataclass(frozen=True)
class Intensity:
    """Bins of one run: midpoints x (N, D), counts y (N,), rate and band (N,); draws of hyperparameters."""

    dataset: str
    label: str
    x: np.ndarray
    y: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    scales: dict[str, np.ndarray]


def picture(spec, units) -> Picture:
    runs, notes = _runs(units)
    data = pd.concat([_frame(run) for run in runs], ignore_index=True)
    below = any(run.scales for run in runs)

    def paint(figure, theme):
        axes = panels(figure, 1 + below, len(runs))
        for j, run in enumerate(runs):
            (_curve if run.x.shape[1] == 1 else _map)(figure, axes[0, j], run, theme)
            axes[0, j].set_title(f"{run.dataset}: {run.label}", loc="left")
            if below:
                _scales(axes[1, j], run, theme)

    size = (3.4 * len(runs) + 0.4, 2.6 * (1 + below) + 0.5)
    notes = (
        "rate for a unit of length or area: posterior mean and 90 % band; ticks: bins with events",
        *notes,
    )
    return Picture(spec.name, spec.title, data, paint, size, notes)


def _runs(units) -> tuple[list[Intensity], tuple[str, ...]]:
    found: dict[str, Intensity] = {}
    notes = []
    for unit in sorted(units, key=lambda u: (u.record["dataset"], u.record["experiment"] or "")):
        if unit.record["config_key"] in found or unit.is_reference:
            continue
        try:
            found[unit.record["config_key"]] = _intensity(unit)
        except UserError as error:
            notes.append(f"{unit.record['dataset']} {_label(unit)} is left out: {error}")
    if not found:
        raise Nothing(
            "none of these runs has the rates of counts beside it: records of results/reference come without "
            "them, so run the experiment here"
        )
    return list(found.values()), tuple(notes)


def _label(unit: Unit) -> str:
    record = unit.record
    experiment = record["experiment"] or f"{record['model']}-{record['inference']}"
    return experiment.removeprefix("matthews2016_").removeprefix(f"{record['dataset']}_")


def _intensity(unit: Unit) -> Intensity:
    table = read.predictions(unit)
    if "rate_mean" not in table:
        raise UserError("its predictions have no rates, which counts alone have")
    x = np.stack([table[name] for name in sorted(table) if name.startswith("x_")], 1)
    order = np.lexsort(x.T[::-1])
    y, mean, low, high = (table[name][order] for name in ("y", "rate_mean", "rate_q05", "rate_q95"))
    draws = {name: v for name, v in read.parameters(unit).items() if name.startswith("draws/")}
    scales = {s: v.reshape(len(v), -1)[:, 0] for s in SCALES for n, v in draws.items() if n.endswith("/" + s)}
    return Intensity(unit.record["dataset"], _label(unit), x[order], y, mean, low, high, scales)


def _frame(run: Intensity) -> pd.DataFrame:
    """dataset, run, x_0 (x_1), y, rate, low, high."""
    places = {f"x_{i}": run.x[:, i] for i in range(run.x.shape[1])}
    rates = {"y": run.y, "rate": run.mean, "low": run.low, "high": run.high}
    return pd.DataFrame({"dataset": run.dataset, "run": run.label} | places | rates)


def _curve(figure, axes, run: Intensity, theme: dict) -> None:
    colour = theme["colours"][0]
    axes.fill_between(run.x[:, 0], run.low, run.high, color=colour, alpha=0.25, lw=0)
    axes.plot(run.x[:, 0], run.mean, color=colour)
    seen = run.x[run.y > 0, 0]
    axes.plot(seen, np.zeros_like(seen), "|", color=theme["ink"], ms=6)
    axes.set_ylim(0, None)
    axes.set_ylabel("rate")


def _map(figure, axes, run: Intensity, theme: dict) -> None:
    k = round(np.sqrt(len(run.x)))
    if k * k != len(run.x):
        raise Nothing(f"{run.dataset}: {len(run.x)} bins make no square; score every bin (protocol=whole)")
    ends = run.x.min(0), run.x.max(0)
    extent = (ends[0][0], ends[1][0], ends[0][1], ends[1][1])
    image = axes.imshow(run.mean.reshape(k, k).T, origin="lower", extent=extent, cmap="viridis")
    figure.colorbar(image, ax=axes, shrink=0.8)
    seen = run.x[run.y > 0]
    axes.plot(seen[:, 0], seen[:, 1], ".", color=theme["paper"], ms=1.5)


def _scales(axes, run: Intensity, theme: dict) -> None:
    if len(run.scales) < len(SCALES):
        axes.set_visible(False)
        return
    axes.loglog(*(run.scales[name] for name in SCALES), ".", ms=2, alpha=0.5, color=theme["colours"][1])
    axes.set_xlabel("lengthscale")
    axes.set_ylabel("kernel variance")
