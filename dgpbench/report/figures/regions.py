"""Class probabilities over two inputs (Matthews' figure 5.2), a panel for each run with its parameters."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dgpbench.errors import UserError
from dgpbench.report.figures.fitted import fitted_model
from dgpbench.report.figures.picture import Nothing, Picture, panels
from dgpbench.store import read

SIDE, MARGIN, LEVELS, SAMPLES = 80, 0.5, (0.3, 0.95, 0.99), 100


def regions(unit) -> tuple[pd.DataFrame, np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities of the classes on a grid of scaled inputs, and rows, labels and inducing inputs."""
    model, split = fitted_model(unit)
    X, labels = split.X_train, split.Y_train[:, 0].astype(int)
    ends = zip(X.min(0) - MARGIN, X.max(0) + MARGIN, strict=True)
    lines = [np.linspace(low, high, SIDE) for low, high in ends]
    grid = np.stack(np.meshgrid(*lines, indexing="ij"), -1).reshape(-1, 2)
    probs = model.predict(grid, SAMPLES, 0).probs
    frame = pd.DataFrame({"x1": grid[:, 0], "x2": grid[:, 1]})
    frame = frame.assign(**{f"p{c}": probs[:, c] for c in range(probs.shape[1])})
    return frame, X, labels, read.parameters(unit).get("layer0/Z", np.zeros((0, 2)))


def picture(spec, units) -> Picture:
    found, reason = {}, "no run on two inputs"
    for unit in units:
        name = (unit.record["experiment"] or unit.record["model"]).removeprefix(spec.strip)
        if name in found or unit.record["sizes"]["inputs"] != 2:
            continue
        try:
            found[name] = regions(unit)
        except (Nothing, UserError) as error:
            reason = str(error)
    if not found:
        raise Nothing(f"{reason}; records of results/reference come without parameters, so run it here")
    data = pd.concat([frame.assign(run=name) for name, (frame, *_) in found.items()])

    def paint(figure, theme):
        axes = panels(figure, 1, len(found), sharex=True, sharey=True)[0]
        for place, (name, (frame, X, labels, Z)) in zip(axes, found.items(), strict=True):
            sides = [frame[x].to_numpy().reshape(SIDE, SIDE) for x in ("x1", "x2")]
            for c, colour in zip(np.unique(labels), theme["colours"], strict=False):
                place.plot(*X[labels == c].T, ".", ms=2, color=colour)
                height = frame[f"p{c}"].to_numpy().reshape(SIDE, SIDE)
                place.contour(*sides, height, LEVELS, colors=[colour], linewidths=(0.7, 1.1, 1.5))
            place.plot(*Z.T, "o", ms=2.5, color=theme["ink"])
            place.set_title(name, loc="left")
            place.set_xlabel("x1 (scaled)")
        axes[0].set_ylabel("x2 (scaled)")

    told = "contours at probabilities 0.3, 0.95 and 0.99 of each class; black: inducing inputs"
    return Picture(spec.name, spec.title, data, paint, (4.2 * len(found) + 0.4, 4.2), (told,))
