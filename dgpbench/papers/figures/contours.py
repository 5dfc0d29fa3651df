"""Class probabilities in the plane under two posteriors, and draws of the functions behind them (Matthews'
figure 5.2), from runs with their parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pandas as pd

from dgpbench.data import load_split
from dgpbench.errors import UserError
from dgpbench.report.figures.picture import Nothing, Picture, panels
from dgpbench.store import read
from dgpbench.store.scan import Unit

if TYPE_CHECKING:
    from dgpbench.models.gp import GPModel

SIDE, MARGIN, LEVELS = 60, 0.5, (0.3, 0.95, 0.99)
SAMPLES, DRAWS = 100, 250


class Plane:
    """Probabilities on a grid, rows and inducing inputs of one run, as its model sees them."""

    def __init__(self, unit: Unit, strip: str):
        from dgpbench.models.base import create

        cfg, values = unit.record["config"], read.parameters(unit)
        self.name = (unit.record["experiment"] or unit.record["inference"]).removeprefix(strip)
        split = load_split(cfg, lambda text: None)
        self.X, self.labels, self.Z = split.X_train, split.Y_train[:, 0], values["layer0/Z"]
        self.model = cast("GPModel", create(cfg))
        self.model.load_parameters(values)
        ends = zip(self.X.min(0), self.X.max(0), strict=True)
        self.axes = tuple(np.linspace(low - MARGIN, high + MARGIN, SIDE) for low, high in ends)
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


def picture(spec, units) -> Picture:
    planes: dict[str, Plane] = {}
    lacking: list[str] = []
    for unit in units:
        record = unit.record
        if record["sizes"]["inputs"] != 2 or record["model"] not in ("sgp", "sgp500"):
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
                heights = plane.probs[:, c].reshape(SIDE, SIDE).T
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
