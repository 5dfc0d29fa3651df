"""Figures of kept draws: densities, projections and marginals of posteriors, and fidelities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dgpbench.data.synthetic import SETS
from dgpbench.errors import UserError
from dgpbench.papers import specs
from dgpbench.report.charts import Nothing
from dgpbench.report.charts.picture import Picture, legend_below, panels
from dgpbench.store import read
from dgpbench.store.record import Record
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
    for unit in sorted(units, key=lambda u: (u.record.dataset, u.record.split, u.record.seed)):
        record = unit.record
        taken = found.setdefault(record.dataset, {})
        if record.config_key in taken or unit.is_reference:
            continue
        try:
            columns = read.draws(unit)
        except UserError as error:
            lacking.setdefault(f"{record.dataset} {_label(record)}", str(error))
            continue
        first = columns["output"] == 0
        parts = (columns[name][first] for name in ("x", "y", "draws", "row"))
        taken[record.config_key] = Kept(record.dataset, _label(record), unit, *parts)
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


def _label(record: Record) -> str:
    named = _columns()
    if record.experiment in named and not record.deviations:
        return named[record.experiment]
    if record.experiment:
        return " ".join([record.experiment, *(text.partition(" (")[0] for text in record.deviations)])
    model = record.model.replace("_", "-")
    model = model.upper() if {"gp", "lv"} & set(model.split("-")) else model
    return f"{model} {record.inference.upper()}" if "LV" in model else model


def _distinct(runs: list[Kept]) -> list[Kept]:
    """Curves in the order of the table, then by name; equal labels told apart by their config."""
    order = list(dict.fromkeys(_columns().values()))
    labels = [run.label for run in runs]
    runs = [
        Kept(**{**run.__dict__, "label": f"{run.label} {run.unit.record.config_key[:4]}"})
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


BINS = 80
BRIGHTEST = 0.98  # quantile of the density at which the colours end


def density_picture(spec, units) -> Picture:
    """Conditional densities of one-dimensional data (figures 5.1, 5.4): draws per x as columns of an
    image."""
    found, left_out = kept_draws(units)
    flat = {name: [run for run in runs if run.x.shape[1] == 1] for name, runs in found.items()}
    flat = {name: runs for name, runs in flat.items() if runs}
    if not flat:
        raise Nothing("densities over x need data with one input")
    width = max(len(runs) for runs in flat.values())
    grids = {
        (run.dataset, run.label): density(run, _edges(flat[run.dataset]))
        for runs in flat.values()
        for run in runs
    }
    data = pd.concat([_frame(run, *grids[run.dataset, run.label]) for runs in flat.values() for run in runs])

    def paint(figure, theme):
        for place, run in panel_for_each(figure, flat, "y", sharex="row"):
            _panel(place, run, *grids[run.dataset, run.label], theme)

    notes = ("each column: 2000 draws of y at one kept test input; dots: the observations there", *left_out)
    return Picture(spec.name, spec.title, data, paint, (3.0 * width + 0.6, 2.4 * len(flat) + 0.5), notes)


def _edges(runs: list[Kept]) -> np.ndarray:
    """Bins of y shared by the panels of a dataset: where the data and nearly all draws are."""
    low = min(min(np.quantile(run.draws, 0.005), run.y.min()) for run in runs)
    high = max(max(np.quantile(run.draws, 0.995), run.y.max()) for run in runs)
    pad = 0.03 * (high - low) or 1.0
    return np.linspace(low - pad, high + pad, BINS + 1)


def density(run: Kept, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(x sorted (R,), edges of y (B + 1,), density of the draws p(y | x) (R, B)). Draws outside count too."""
    order = np.argsort(run.x[:, 0], kind="stable")
    draws = run.draws[order]
    counts = np.stack([np.histogram(line, edges)[0] for line in draws])
    return run.x[order, 0], edges, counts / (draws.shape[1] * np.diff(edges))


def _frame(run: Kept, x: np.ndarray, edges: np.ndarray, values: np.ndarray) -> pd.DataFrame:
    R, B = values.shape
    return pd.DataFrame(
        {
            "dataset": run.dataset,
            "model": run.label,
            "x": np.repeat(x, B),
            "y_low": np.tile(edges[:-1], R),
            "y_high": np.tile(edges[1:], R),
            "density": values.ravel(),
        }
    )


def _panel(axes, run: Kept, x, edges, values, theme: dict) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    x, first = np.unique(x, return_index=True)  # a column per input
    values = values[first]
    middle = (x[1:] + x[:-1]) / 2
    borders = np.concatenate([x[:1], middle, x[-1:]])
    colours = LinearSegmentedColormap.from_list("density", [theme["paper"], theme["colours"][0]])
    top = np.quantile(values[values > 0], BRIGHTEST)
    axes.pcolormesh(borders, edges, values.T, cmap=colours, vmin=0, vmax=top, rasterized=True)
    axes.plot(run.x[:, 0], run.y, ".", ms=2.5, color=theme["colours"][1], alpha=0.8)
    axes.set_xlabel("x")


SHOWN = 20  # draws per test point


def projection_picture(spec, units) -> Picture:
    """Draws beside observations in the plane of the first two principal components of (x, y) (figure 5.5)."""
    found, left_out = kept_draws(units)
    width = max(len(runs) for runs in found.values())
    data = pd.concat([projected(run) for runs in found.values() for run in runs], ignore_index=True)

    def paint(figure, theme):
        drawn = panel_for_each(figure, found, "component 2", sharex="row")
        for place, run in drawn:
            part = data[(data.dataset == run.dataset) & (data.model == run.label)]
            for kind, colour, size in (("draw", 1, 2), ("observed", 0, 9)):
                points = part[part.kind == kind]
                place.scatter(
                    points.pc1,
                    points.pc2,
                    s=size,
                    color=theme["colours"][colour],
                    lw=0,
                    label=kind,
                    alpha=0.5 if kind == "draw" else 1,
                    rasterized=True,
                )
            place.set_xlabel("component 1")
        handles, labels = drawn[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower right", ncols=2, markerscale=2)

    notes = (
        f"kept test points and {SHOWN} draws of each; components of the standardised kept points (x, y)",
        *left_out,
    )
    return Picture(spec.name, spec.title, data, paint, (2.6 * width + 0.8, 2.4 * len(found) + 0.8), notes)


def components(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mean, deviation, first two principal axes (D + 1, 2)) of the standardised points (x, y)."""
    points = np.column_stack([x, y])
    mean, deviation = points.mean(0), points.std(0)
    deviation[deviation == 0] = 1.0
    _, _, axes = np.linalg.svd((points - mean) / deviation, full_matrices=False)
    axes = axes[:2].T
    return mean, deviation, axes * np.sign(axes[np.abs(axes).argmax(0), range(axes.shape[1])])


def projected(run: Kept) -> pd.DataFrame:
    """Observed points and draws as coordinates: dataset, model, kind, row, pc1, pc2."""
    mean, deviation, axes = components(run.x, run.y)
    draws = run.draws[:, np.linspace(0, run.draws.shape[1] - 1, min(SHOWN, run.draws.shape[1])).astype(int)]
    parts = []
    for kind, values in (("draw", draws), ("observed", run.y[:, None])):
        count = values.shape[1]
        points = np.column_stack([np.repeat(run.x, count, axis=0), values.ravel()])
        plane = ((points - mean) / deviation) @ axes
        row = np.repeat(run.row, count)
        parts.append(pd.DataFrame({"kind": kind, "row": row, "pc1": plane[:, 0], "pc2": plane[:, 1]}))
    out = pd.concat(parts, ignore_index=True)
    out.insert(0, "dataset", run.dataset)
    out.insert(1, "model", run.label)
    return out


GRID = np.linspace(-4, 4, 81)


def marginals_picture(spec, units) -> Picture:
    """Posterior marginals scaled to mean 0 and deviation 1, coloured by the inputs (thesis figures 5.6,
    5.7)."""
    found, left_out = kept_draws(units)
    width = max(len(runs) for runs in found.values())
    data = pd.concat([marginals(run) for runs in found.values() for run in runs], ignore_index=True)

    peaks = data.groupby(["dataset", "model", "row"]).density.max().groupby("dataset").quantile(0.98)
    top = {name: max(0.5, min(1.5, 1.05 * peaks[name])) for name in found}

    def paint(figure, theme):
        from matplotlib import colormaps

        for place, run in panel_for_each(figure, found, "density", sharex=True):
            part = data[(data.dataset == run.dataset) & (data.model == run.label)]
            _marginals_panel(place, part, top[run.dataset], colormaps["viridis"], theme)

    notes = (
        "one curve per kept test point, coloured by the first component of its inputs; dotted: Gaussian",
        *left_out,
    )
    return Picture(spec.name, spec.title, data, paint, (2.4 * width + 0.8, 2.1 * len(found) + 0.5), notes)


def standardised_densities(draws: np.ndarray, grid: np.ndarray = GRID) -> np.ndarray:
    """Kernel density (R, G) of each line of draws (R, n) after scaling it to mean 0 and deviation 1."""
    z = draws.astype(float)
    z -= z.mean(1, keepdims=True)
    z /= np.maximum(z.std(1, keepdims=True), np.finfo(float).tiny)
    n = z.shape[1]
    width = 1.06 * n**-0.2  # Silverman's rule, deviation 1
    out = np.empty((len(z), len(grid)))
    for i, line in enumerate(z):
        out[i] = np.exp(-0.5 * ((grid[:, None] - line) / width) ** 2).mean(1) / (width * np.sqrt(2 * np.pi))
    return out


def marginals(run: Kept) -> pd.DataFrame:
    """dataset, model, row, component (of the inputs), z, density."""
    values = standardised_densities(run.draws)
    deviation = run.x.std(0)
    deviation[deviation == 0] = 1.0
    scaled = (run.x - run.x.mean(0)) / deviation
    component = scaled @ np.linalg.svd(scaled, full_matrices=False)[2][0]
    R, G = values.shape
    return pd.DataFrame(
        {
            "dataset": run.dataset,
            "model": run.label,
            "row": np.repeat(run.row, G),
            "component": np.repeat(component, G),
            "z": np.tile(GRID, R),
            "density": values.ravel(),
        }
    )


def _marginals_panel(axes, part: pd.DataFrame, top: float, colours, theme: dict) -> None:
    from matplotlib.collections import LineCollection

    lines = part.density.to_numpy().reshape(-1, len(GRID))
    component = part.component.to_numpy()[:: len(GRID)]
    rank = component.argsort().argsort() / max(len(component) - 1, 1)
    curves = [np.column_stack([GRID, line]) for line in lines]
    axes.add_collection(LineCollection(curves, colors=colours(rank), linewidths=0.6, alpha=0.7))
    axes.plot(GRID, np.exp(-0.5 * GRID**2) / np.sqrt(2 * np.pi), ":", color=theme["ink"], lw=1.2)
    axes.set_xlim(GRID[0], GRID[-1])
    axes.set_ylim(0, top)
    axes.set_xlabel("standardised y")


def fidelities_picture(spec, units) -> Picture:
    """The highest fidelity of a one-dimensional set, predicted by each model, beside the functions
    themselves."""
    found, left_out = kept_draws(units)
    runs = [run for name, each in found.items() if name in SETS and SETS[name].dim == 1 for run in each]
    if not runs:
        raise Nothing("it needs runs on a set of fidelities with one input, dataset=mf_sine")
    data = pd.concat([_fidelities_frame(run) for run in runs])

    def paint(figure, theme):
        for place, run in zip(panels(figure, 1, len(runs), sharey=True)[0], runs, strict=True):
            line, functions = data[data.run == run.label], SETS[run.dataset].levels
            low, high = SETS[run.dataset].box[0]
            x = np.linspace(low, high, 400)[:, None]
            for level, function in enumerate(functions):
                style = (
                    {"color": theme["ink"], "lw": 1}
                    if level == len(functions) - 1
                    else {"color": theme["faint"]}
                )
                place.plot(x[:, 0], function(x), label=f"level {level}", zorder=0, **style)
            colour = theme["colours"][1]
            place.fill_between(line.x, line.low, line.high, color=colour, alpha=0.25, lw=0, label="95 %")
            place.plot(line.x, line["mean"], color=colour, lw=1.2, label="predicted")
            place.set_title(run.label, loc="left")
            place.set_xlabel("x")
        handles, labels = place.get_legend_handles_labels()
        legend_below(figure, handles, labels)

    return Picture(spec.name, spec.title, data, paint, (3.0 * len(runs) + 0.4, 3.2), tuple(left_out))


def _fidelities_frame(run) -> pd.DataFrame:
    """Mean and central 95 % of the draws at each kept test row, by x."""
    low, high = np.quantile(run.draws, (0.025, 0.975), axis=1)
    columns = {
        "run": run.label,
        "x": run.x[:, 0],
        "y": run.y,
        "mean": run.draws.mean(1),
        "low": low,
        "high": high,
    }
    return pd.DataFrame(columns).sort_values("x", ignore_index=True)
