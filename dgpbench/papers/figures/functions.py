"""Draws of each layer's function and of the whole model, for models of one input whose layers have width 1.

One row of panels for each experiment, one colour for each of its trials. Draws of one number belong together,
as q has them: where layers are dependent, functions that differ can make compositions that do not.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
import pandas as pd

from dgpbench.api.fitted import model_and_split
from dgpbench.errors import UserError
from dgpbench.report.figures.picture import Nothing, Picture, panels
from dgpbench.store.scan import Unit

POINTS, SEED = 80, 0
WHOLE = "composition"
TITLE = 34  # characters above a panel


def picture(spec, units: Sequence[Unit]) -> Picture:
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
    for unit in sorted(units, key=lambda unit: (_name(unit), unit.record["split"])):  # dsvi, joint, locations
        if spec.select and unit.record["deviations"]:  # not the paper's
            others += [] if unit.is_reference else [unit.record["deviations"][0].partition(" (")[0]]
            continue
        name, trial = _name(unit), unit.record["split"]
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
        names = ",".join(dict.fromkeys(unit.record["experiment"] or "" for unit in units))
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
    changed = (text.partition(" (")[0] for text in record["deviations"])
    return " ".join([record["experiment"] or f"{record['model']} {record['inference']}", *changed])


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
