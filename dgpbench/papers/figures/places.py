"""Conditional densities of places as heat maps (thesis figure 4.4): two pick-ups, the truth and models.

Taken from runs on the synthetic city with their parameters, so that what a model should have found is known.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from dgpbench.api.fitted import model_and_split
from dgpbench.data.generated import city
from dgpbench.errors import UserError
from dgpbench.evaluate import mixture
from dgpbench.report.figures.picture import Nothing, Picture, panels

SIDE, CHUNK, SAMPLES, SEED = 70, 500, 2000, 0
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
    lines = [np.linspace(low, high, SIDE) for low, high in BOX]
    return np.stack(np.meshgrid(*lines, indexing="ij"), -1).reshape(-1, 2)


def model_density(model, split, x: np.ndarray, places: np.ndarray) -> np.ndarray:
    """log p(y | x) (G,) of a model at one input (1, D) and many places (G, P), all in original units."""
    found = model.predict((x - split.x_mean) / split.x_std, SAMPLES, SEED)
    if found.kind != "mixture":
        raise Nothing("it gives draws and no density")
    Y = (places - split.y_mean) / split.y_std
    each = (
        mixture.component_logpdf(found.mean, found.var, Y[i : i + CHUNK]) for i in range(0, len(Y), CHUNK)
    )
    values = np.concatenate([mixture.log_density(part, found.log_weights) for part in each])
    return values - np.log(split.y_std).sum()


def picture(spec, units) -> Picture:
    places = grid()
    found: dict[str, dict[str, np.ndarray]] = {}
    reason, noise = "no run on the city", 1.0
    for unit in sorted(units, key=lambda unit: unit.record["metrics"].get("test_kl_to_truth") or np.inf):
        name = (unit.record["experiment"] or unit.record["model"]).removeprefix(spec.strip)
        if unit.record["dataset"] != "city" or name in found or len(found) == 3:
            continue
        try:
            model, split = model_and_split(unit)
            found[name] = {c: model_density(model, split, condition(c), places) for c in CONDITIONS}
            noise = float(unit.record["config"]["dataset"]["noise"])
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
                height = np.exp(each[c]).reshape(SIDE, SIDE).T
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
