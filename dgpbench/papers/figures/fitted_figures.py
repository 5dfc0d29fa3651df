"""Figures of fitted models: functions of layers, aligned sequences, class boundaries, densities of places."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import pandas as pd

from dgpbench.api.fitted import model_and_split
from dgpbench.data import city, load_split
from dgpbench.errors import UserError
from dgpbench.evaluate import mixture
from dgpbench.evaluate.metrics import KL_TO_TRUTH
from dgpbench.models.base import create
from dgpbench.report.charts import Nothing
from dgpbench.report.charts.picture import Picture, panels
from dgpbench.store import read
from dgpbench.store.scan import Unit

if TYPE_CHECKING:
    from dgpbench.models.gp import GPModel

POINTS, SEED = 80, 0
WHOLE = "composition"
TITLE = 34  # characters above a panel


def functions_picture(spec, units: Sequence[Unit]) -> Picture:
    """Draws of each layer's function and of the whole model, for models of one input whose layers have width
    1.

    One row of panels for each experiment, one colour for each of its trials. Draws of one number belong
    together, as q has them: where layers are dependent, functions that differ can make compositions that do
    not.
    """
    chosen, notes = _chosen(spec, units)
    parts, observed = [], {}
    for name, runs in chosen.items():
        for trial, (model, split) in runs.items():
            parts.append(_draws(model, split, spec.draws).assign(experiment=name, trial=trial))
            observed[name] = split
    data = pd.concat(parts, ignore_index=True)
    columns = list(dict.fromkeys(data.panel))

    def paint(figure, theme):
        axes = panels(figure, len(chosen), len(columns))
        for row, name in zip(axes, chosen, strict=True):
            for place, column in zip(row, columns, strict=True):
                part = data[(data.experiment == name) & (data.panel == column)]
                for (trial, _), line in part.groupby(["trial", "draw"]):
                    colour = theme["colours"][list(chosen[name]).index(trial)]
                    place.plot(line.input, line.output, color=colour, lw=0.7, alpha=0.6)
                title = textwrap.fill(f"{name.removeprefix(spec.strip)}: {column}", TITLE)
                place.set_title(title, loc="left")
                place.set_xlabel("x" if column in (columns[0], WHOLE) else "output of the layer below")
            X, Y = observed[name].take_train(np.arange(observed[name].n_train))
            row[-1].plot(X[:, 0], Y[:, 0], ".", ms=4, color=theme["ink"], zorder=3)

    most = max(len(runs) for runs in chosen.values())
    trials = f"{most} trials, a colour each, " if most > 1 else ""
    notes = [f"{trials}{spec.draws} draws of the functions of each; dots are the training data", *notes]
    size = (2.7 * len(columns) + 0.3, 2.1 * len(chosen) + 0.5)
    return Picture(spec.name, spec.title, data, paint, size, tuple(notes))


def _chosen(spec, units: Sequence[Unit]) -> tuple[dict[str, dict], list[str]]:
    """Fitted models by experiment and trial: the first trials that have parameters here."""
    found: dict[str, dict] = {}
    reasons: dict[str, str] = {}
    others: list[str] = []  # what runs of the user's own have that the experiment has not
    for unit in sorted(units, key=lambda unit: (_name(unit), unit.record.split)):  # dsvi, joint, locations
        if spec.select and unit.record.deviations:  # not the paper's
            others += [] if unit.is_reference else [unit.record.deviations[0].partition(" (")[0]]
            continue
        name, trial = _name(unit), unit.record.split
        runs = found.setdefault(name, {})
        if len(runs) == spec.trials or trial in runs:
            continue
        try:
            model, split = model_and_split(unit)
            assert model.model is not None  # its parameters are loaded
            if any(layer.input_dim != 1 or layer.width != 1 for layer in model.model.layers):
                raise Nothing("a layer of it is not of width 1")
            runs[trial] = model, split
        except (Nothing, UserError) as error:
            reasons.setdefault(name, str(error))
    chosen = {name: runs for name, runs in found.items() if runs}
    if not chosen:
        names = ",".join(dict.fromkeys(unit.record.experiment or "" for unit in units))
        if others:
            raise Nothing(
                f"the runs here are not the experiment's ({others[0]}); to draw them all the same: "
                f"dgpbench figures {spec.name} experiment={names}"
            )
        raise Nothing(
            "none of these runs has its parameters here (records of results/reference come without them), so "
            f"run the experiment: dgpbench sweep experiment={names}"
        )
    return chosen, [f"{name} is left out: {reasons.get(name)}" for name in found if name not in chosen]


def _name(unit: Unit) -> str:
    record = unit.record
    changed = (text.partition(" (")[0] for text in record.deviations)
    return " ".join([record.experiment or f"{record.model} {record.inference}", *changed])


def _draws(model, split, count: int) -> pd.DataFrame:
    """Lines of panel, draw, input, output, in the model's units."""
    from dgpbench.models.inside import function_draws

    x = np.linspace(split.X_train.min(), split.X_train.max(), POINTS)
    inputs, outputs, whole = function_draws(model, x, count, SEED)
    named = [(f"f{i + 1}", at, F) for i, (at, F) in enumerate(zip(inputs, outputs, strict=True))]
    return pd.concat(
        [
            pd.DataFrame({"panel": panel, "draw": s, "input": at, "output": F[s]})
            for panel, at, F in (*named, (WHOLE, x, whole))
            for s in range(count)
        ]
    )


def sequences_picture(spec, units) -> Picture:
    """Sequences aligned by monotone warps (figure D1 of Ustyuzhaninov et al.), of a run with its
    parameters."""
    from dgpbench.api.fitted import layers_of
    from dgpbench.report.layers_plot import layer_picture

    reason = ""
    for unit in units:
        try:
            return replace(layer_picture(unit, layers_of), name=spec.name, title=spec.title)
        except (Nothing, UserError) as error:
            reason = reason or str(error)
    raise Nothing(f"{reason}; records of results/reference come without parameters, so run it here")


SIDE, MARGIN = 120, 0.5
ROWS = {"KL": ("sgp", "sgp500", "vgp"), "EP": ("gfitc", "ep_gpc")}


class Boundary(NamedTuple):
    family: str
    M: int  # 0: the full GP
    Z: np.ndarray
    probs: np.ndarray  # (SIDE, SIDE) of class 1
    axes: tuple[np.ndarray, np.ndarray]
    rows: tuple[np.ndarray, np.ndarray]


def boundary(unit: Unit, family: str) -> Boundary:
    """Of one run, its inputs as the model sees them."""
    cfg, values = unit.record.config, read.parameters(unit)
    split = load_split(cfg, lambda text: None)
    model = create(cfg)
    model.load_parameters(values)
    X, Y = split.X_train, split.Y_train[:, 0]
    axes = tuple(
        np.linspace(low - MARGIN, high + MARGIN, SIDE) for low, high in zip(X.min(0), X.max(0), strict=True)
    )
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    probs = model.predict(grid, 1, 0).probs[:, 1].reshape(SIDE, SIDE)
    Z = values.get("Z", values.get("layer0/Z", np.zeros((0, 2))))
    return Boundary(family, len(Z), Z, probs, axes, (X, Y))


def boundaries_picture(spec, units) -> Picture:
    """Decision boundaries and inducing inputs on two-dimensional classes (Matthews' figure 4.5), from runs
    with their parameters: rows are methods, columns grow in inducing points, the full GP last."""
    found: dict[tuple[str, int], Boundary] = {}
    lacking = []
    for unit in sorted(
        units, key=lambda u: -(u.record.config["budget"]["steps"] or 0)
    ):  # the longest of each
        family = next((f for f, names in ROWS.items() if unit.record.model in names), None)
        if family is None or unit.record.sizes["inputs"] != 2:
            continue
        try:
            made = boundary(unit, family)
        except UserError as error:
            lacking.append(str(error))
            continue
        found.setdefault((family, made.M), made)
    if not found:
        reason = lacking[0] if lacking else "no run of sgp, vgp, gfitc or ep_gpc on two inputs"
        raise Nothing(f"{reason}; runs of results/reference come without parameters, so run it here")
    counts = sorted({M for _, M in found}, key=lambda M: M or np.inf)
    families = [f for f in ROWS if any(f == family for family, _ in found)]
    frame = pd.concat(
        [pd.DataFrame({"method": f, "M": M, "z1": b.Z[:, 0], "z2": b.Z[:, 1]}) for (f, M), b in found.items()]
    )

    def paint(figure, theme):
        grid = panels(figure, len(families), len(counts), sharex=True, sharey=True)
        for places, family in zip(grid, families, strict=True):
            places[0].set_ylabel(family)
            for place, M in zip(places, counts, strict=True):
                if b := found.get((family, M)):
                    _paint(place, b, theme)
                    place.set_title(f"M = {M}" if M else "full GP", loc="left")
                else:
                    place.set_axis_off()

    return Picture(
        spec.name, spec.title, frame, paint, (2.4 * len(counts), 2.6 * len(families)), tuple(lacking)
    )


def _paint(place, b: Boundary, theme: dict) -> None:
    X, y = b.rows
    for label, colour in ((0, theme["colours"][4]), (1, theme["colours"][0])):
        place.plot(*X[y == label].T, ".", ms=2, color=colour)
    place.contour(*b.axes, b.probs.T, [0.5], colors=theme["ink"], linewidths=1.2)
    place.plot(*b.Z.T, "o", ms=3.5, color=theme["ink"])


CONTOURS_SIDE, CONTOURS_MARGIN, LEVELS = 60, 0.5, (0.3, 0.95, 0.99)
SAMPLES, DRAWS = 100, 250


class Plane:
    """Probabilities on a grid, rows and inducing inputs of one run, as its model sees them."""

    def __init__(self, unit: Unit, strip: str):
        from dgpbench.models.base import create

        cfg, values = unit.record.config, read.parameters(unit)
        self.name = (unit.record.experiment or unit.record.inference).removeprefix(strip)
        split = load_split(cfg, lambda text: None)
        self.X, self.labels, self.Z = split.X_train, split.Y_train[:, 0], values["layer0/Z"]
        self.model = cast("GPModel", create(cfg))
        self.model.load_parameters(values)
        ends = zip(self.X.min(0), self.X.max(0), strict=True)
        self.axes = tuple(
            np.linspace(low - CONTOURS_MARGIN, high + CONTOURS_MARGIN, CONTOURS_SIDE) for low, high in ends
        )
        self.grid = np.stack(np.meshgrid(*self.axes, indexing="ij"), -1).reshape(-1, 2)
        self.probs = self.model.predict(self.grid, SAMPLES, 0).probs  # SIDE^2, classes
        self.drawn = "draws/layer0/q_mu" in values

    def functions(self, point: np.ndarray) -> np.ndarray:
        """Means of all functions (DRAWS, classes) at a point (2,), one row for each draw of u."""
        from dgpbench.models import inside

        assert self.model.model is not None  # its parameters are loaded
        layer, H = self.model.model.layers[0], point[:, None]
        parts = self.model.posterior_parts(DRAWS, 0)
        return np.stack([inside.function_moments(layer, part["layer0"], H)[0][:, 0] for part in parts])

    @property
    def table(self) -> pd.DataFrame:
        columns = {f"x{i + 1}": self.grid[:, i] for i in range(2)}
        columns |= {f"p{c}": self.probs[:, c] for c in range(self.probs.shape[1])}
        return pd.DataFrame({"method": self.name} | columns)


def contours_picture(spec, units) -> Picture:
    """Class probabilities in the plane under two posteriors, and draws of the functions behind them
    (Matthews' figure 5.2), from runs with their parameters."""
    planes: dict[str, Plane] = {}
    lacking: list[str] = []
    for unit in units:
        record = unit.record
        if record.sizes["inputs"] != 2 or record.model not in ("sgp", "sgp500"):
            continue
        try:
            plane = Plane(unit, spec.strip)
        except UserError as error:
            lacking.append(str(error))
            continue
        planes.setdefault(plane.name, plane)
    if not planes:
        reason = lacking[0] if lacking else "no run of sgp on classes in two inputs"
        raise Nothing(f"{reason}; runs of results/reference come without parameters, so run it here")
    shown = list(planes.values())
    sampled = next((plane for plane in shown if plane.drawn), None)
    functions = None
    if sampled:  # where the largest probability is smallest
        functions = sampled.functions(sampled.grid[sampled.probs.max(1).argmin()])

    def paint(figure, theme):
        places = panels(figure, 1, len(shown) + (functions is not None))[0]
        for place, plane in zip(places, shown, strict=False):
            for c in range(plane.probs.shape[1]):
                colour = theme["colours"][c]
                place.plot(*plane.X[plane.labels == c].T, ".", ms=1.5, color=colour)
                heights = plane.probs[:, c].reshape(CONTOURS_SIDE, CONTOURS_SIDE).T
                place.contour(*plane.axes, heights, LEVELS, colors=[colour], linewidths=1.0)
            place.plot(*plane.Z.T, "o", ms=2.5, color=theme["ink"])
            place.set_title(plane.name, loc="left")
        if functions is not None:
            places[-1].plot(functions[:, 0], functions[:, 1], ".", ms=3, color=theme["ink"])
            places[-1].set_xlabel("function of class 0")
            places[-1].set_ylabel("function of class 1")
            places[-1].set_title("draws at the least certain point", loc="left")

    data = pd.concat([plane.table for plane in shown])
    return Picture(spec.name, spec.title, data, paint, (3.4 * (len(shown) + 1), 3.6), tuple(lacking))


PLACES_SIDE, CHUNK, PLACES_SAMPLES, PLACES_SEED = 70, 500, 2000, 0
BOX = np.array([[-2.2, 2.4], [-3.4, 3.2]])
CONDITIONS = {  # place of the pick-up, weekday, hour
    "Wednesday, 9:00": ((0.8, 1.2), 2, 9.0),
    "Saturday, 20:00": ((0.1, -1.2), 5, 20.0),
}
TRUTH = "truth"


def condition(name: str) -> np.ndarray:
    """The inputs (1, 6) of a condition."""
    place, weekday, hour = CONDITIONS[name]
    return city.encoded(np.array([place]), np.array([weekday]), np.array([hour]))


def grid() -> np.ndarray:
    """Places (SIDE^2, 2), the first coordinate slowest."""
    lines = [np.linspace(low, high, PLACES_SIDE) for low, high in BOX]
    return np.stack(np.meshgrid(*lines, indexing="ij"), -1).reshape(-1, 2)


def model_density(model, split, x: np.ndarray, places: np.ndarray) -> np.ndarray:
    """log p(y | x) (G,) of a model at one input (1, D) and many places (G, P), all in original units."""
    found = model.predict((x - split.x_mean) / split.x_std, PLACES_SAMPLES, PLACES_SEED)
    if found.kind != "mixture":
        raise Nothing("it gives draws and no density")
    Y = (places - split.y_mean) / split.y_std
    each = (
        mixture.component_logpdf(found.mean, found.var, Y[i : i + CHUNK]) for i in range(0, len(Y), CHUNK)
    )
    values = np.concatenate([mixture.log_density(part, found.log_weights) for part in each])
    return values - np.log(split.y_std).sum()


def places_picture(spec, units) -> Picture:
    """Conditional densities of places as heat maps (thesis figure 4.4): two pick-ups, the truth and models.

    Taken from runs on the synthetic city with their parameters, so that what a model should have found is
    known.
    """
    places = grid()
    found: dict[str, dict[str, np.ndarray]] = {}
    reason, noise = "no run on the city", 1.0
    for unit in sorted(units, key=lambda unit: unit.record.metrics.get(KL_TO_TRUTH) or np.inf):
        name = (unit.record.experiment or unit.record.model).removeprefix(spec.strip)
        if unit.record.dataset != "city" or name in found or len(found) == 3:
            continue
        try:
            model, split = model_and_split(unit)
            found[name] = {c: model_density(model, split, condition(c), places) for c in CONDITIONS}
            noise = float(unit.record.config["dataset"]["noise"])
        except (Nothing, UserError) as error:
            reason = str(error)
    if not found:
        raise Nothing(f"{reason}; records of results/reference come without parameters, so run it here")
    repeated = {c: np.repeat(condition(c), len(places), 0) for c in CONDITIONS}
    found = {TRUTH: {c: city.log_density(repeated[c], places, noise) for c in CONDITIONS}} | found
    columns = {"x": places[:, 0], "y": places[:, 1]}
    data = pd.concat(
        [
            pd.DataFrame({"density": name, "condition": c, **columns, "log_density": values})
            for name, each in found.items()
            for c, values in each.items()
        ]
    )

    def paint(figure, theme):
        from matplotlib.colors import PowerNorm

        axes = panels(figure, len(CONDITIONS), len(found), sharex=True, sharey=True)
        for row, c in zip(axes, CONDITIONS, strict=True):
            scale = PowerNorm(0.5, 0.0, np.exp(found[TRUTH][c]).max())
            for place, each in zip(row, found.values(), strict=True):
                height = np.exp(each[c]).reshape(PLACES_SIDE, PLACES_SIDE).T
                image = place.imshow(height, origin="lower", extent=BOX.ravel(), norm=scale, cmap="viridis")
                place.plot(*CONDITIONS[c][0], "x", ms=8, mew=2, color="red")
            row[0].set_ylabel(f"{c}\ny")
            figure.colorbar(image, ax=row.tolist(), shrink=0.85, label="density")
        for place, name in zip(axes[0], found, strict=True):
            place.set_title(name, loc="left")
        for place in axes[-1]:
            place.set_xlabel("x")

    told = (
        "red: pick-up; one scale in each row, by the root of the density; models nearest to the truth first"
    )
    return Picture(spec.name, spec.title, data, paint, (2.1 * len(found) + 1.2, 6.4), (told,))
