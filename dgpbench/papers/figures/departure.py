"""VFE and FITC that start at the exact posterior, M = N (Matthews' figure 4.2): every fourth row of Snelson's
data trains, the others are held out. VFE stays; FITC leaves: it gains by its objective, loses on new rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dgpbench.config import compose
from dgpbench.engine.context import Silent
from dgpbench.models.base import create
from dgpbench.models.classics.lbfgs import maximise
from dgpbench.papers.figures import snelson
from dgpbench.report.figures.picture import Picture, panels

ITERATIONS, STRIDE = 400, 10  # of L-BFGS, and how many of them lie between two snapshots
LABELS = {"sgpr": "VFE", "fitc": "FITC"}


class Course(NamedTuple):
    """A model after training, and what it went through: iteration, objective, hold-out, each per test row."""

    model: Any
    trace: pd.DataFrame


class Snapshots(Silent):
    """Values of a model's variables at every STRIDE-th iteration."""

    def __init__(self, model):
        self.variables, self.taken = model.trainable_variables, {}

    def update(self, step, bound, steps_per_second, seconds_left) -> None:
        if step % STRIDE == 0:
            self.taken[step] = [v.numpy() for v in self.variables]


def course(name: str, start: dict[str, np.ndarray], new, iterations: int = ITERATIONS) -> Course:
    """Train from the exact posterior; what is held out is scored at the snapshots afterwards."""
    model: Any = create(compose([f"model={name}", "model.ard=false", "threads=1", "device=cpu"]))
    model.load_parameters(start | {"Z": start["X"]})
    rows, seen = [_row(model, 0, new)], Snapshots(model.model)
    done = maximise(model.model, replace(snelson.context(iterations), reporter=seen), patient=True)["steps"]
    seen.taken[done] = [v.numpy() for v in seen.variables]
    for step, values in seen.taken.items():
        for variable, value in zip(seen.variables, values, strict=True):
            variable.assign(value)
        model.values |= model.trained_values()
        rows.append(_row(model, step, new))
    model.load_parameters(start | model.trained_values() | model.own_values())
    return Course(model, pd.DataFrame(rows))


def _row(model, iteration: int, new) -> dict[str, float]:
    objective = float(model.model.training_loss())
    return {"iteration": iteration, "objective": objective, "hold_out": -snelson.log_density(model, *new)}


def courses(iterations: int = ITERATIONS) -> dict[str, Course]:
    X, Y = snelson.data()
    kept = np.arange(len(X)) % 4 == 0
    exact, _ = snelson.fit("gpr", X[kept], Y[kept], "model.ard=false")
    return {name: course(name, exact.values, (X[~kept], Y[~kept]), iterations) for name in LABELS}


def picture(spec, units) -> Picture:
    found = courses()
    x = np.linspace(-1.0, 7.0, 300)
    bands = {name: snelson.band(c.model, x) for name, c in found.items()}
    frame = pd.concat([c.trace.assign(method=LABELS[name]) for name, c in found.items()])

    def paint(figure, theme):
        for column, (name, c) in zip(panels(figure, 4, 2, sharey="row").T, found.items(), strict=True):
            values = c.model.values
            snelson.paint_band(column[0], x, *bands[name], theme["colours"][2])
            column[0].plot(values["X"], values["Y"], ".", ms=4, color=theme["colours"][1])
            column[0].set_title(LABELS[name], loc="left")
            column[0].set_xlabel("x")
            column[1].plot(values["X"], values["Z"], "x", ms=4, color=theme["colours"][0])
            column[1].set_xlabel("inducing inputs at first")
            for place, key in zip(column[2:], ("objective", "hold_out"), strict=True):
                place.plot(c.trace.iteration, c.trace[key], color=theme["colours"][0])
                place.set_xlabel("iteration")
            texts = ("y: mean, two sd", "at the end", "objective", "hold-out -log p")
            for place, text in zip(column, texts, strict=True):
                place.set_ylabel(text)

    notes = tuple(f"{LABELS[name]}: {_ends(c.trace)}" for name, c in found.items())
    return Picture(spec.name, spec.title, frame, paint, (9.0, 9.0), notes)


def _ends(trace: pd.DataFrame) -> str:
    first, last = trace.iloc[0], trace.iloc[-1]
    objective = f"objective {first.objective:.3f} to {last.objective:.3f}"
    return f"{objective}, hold-out {first.hold_out:.3f} to {last.hold_out:.3f}"
