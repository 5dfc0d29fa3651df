"""Decision boundaries and inducing inputs on two-dimensional classes (Matthews' figure 4.5), from runs with
their parameters: rows are methods, columns grow in inducing points, the full GP last."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from dgpbench.data import load_split
from dgpbench.errors import UserError
from dgpbench.models.base import create
from dgpbench.report.figures.picture import Nothing, Picture, panels
from dgpbench.store import read
from dgpbench.store.scan import Unit

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
    cfg, values = unit.record["config"], read.parameters(unit)
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


def picture(spec, units) -> Picture:
    found: dict[tuple[str, int], Boundary] = {}
    lacking = []
    for unit in sorted(
        units, key=lambda u: -(u.record["config"]["budget"]["steps"] or 0)
    ):  # the longest of each
        family = next((f for f, names in ROWS.items() if unit.record["model"] in names), None)
        if family is None or unit.record["sizes"]["inputs"] != 2:
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
