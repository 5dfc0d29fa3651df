"""Draws from the prior of a two-layer deep GP (thesis figures 2.1 and 2.3): layers, and points in them.

Left the first function, in the middle the second over its own input (the statistical view), right the second
at the points that came through the first, over x (the selectional view). Unit RBF kernels.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from dgpbench.report.figures.picture import Picture, panels

CURVE, POINTS, RANGE, SEEDS = 200, 50, 2.0, (3, 5)


def draw(identity: bool, rng: np.random.RandomState) -> dict[str, np.ndarray]:
    """Points x with f1 and f2 at them, and the curves of both functions over their own inputs."""
    x = np.linspace(-RANGE, RANGE, POINTS)
    grid = np.linspace(-RANGE, RANGE, CURVE)
    both = np.concatenate([grid, x])
    F1 = gp_draw(both, rng) + (both if identity else 0.0)
    f1 = F1[CURVE:]
    reach = np.linspace(min(f1.min(), -RANGE), max(f1.max(), RANGE), CURVE)
    F2 = gp_draw(np.concatenate([reach, f1]), rng)
    return {
        "x": x,
        "f1": f1,
        "f2": F2[CURVE:],
        "grid": grid,
        "curve1": F1[:CURVE],
        "reach": reach,
        "curve2": F2[:CURVE],
    }


def gp_draw(x: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """A zero-mean GP with a unit RBF kernel at the points x (N,), some of which may be equal."""
    values, vectors = np.linalg.eigh(np.exp(-0.5 * (x[:, None] - x) ** 2))
    return vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.randn(len(x)))


def picture(spec, units) -> Picture:
    found = [draw(spec.x == "identity", np.random.RandomState(seed)) for seed in SEEDS]
    parts = [
        pd.DataFrame({"sample": i, "x": d["x"], "f1": d["f1"], "f2_of_f1": d["f2"]})
        for i, d in enumerate(found)
    ]

    def paint(figure, theme):
        axes = panels(figure, len(found), 3)
        for row, d in zip(axes, found, strict=True):
            curves = [(d["grid"], d["curve1"]), (d["reach"], d["curve2"]), None]
            points = [(d["x"], d["f1"]), (d["f1"], d["f2"]), (d["x"], d["f2"])]
            for place, curve, (a, b) in zip(row, curves, points, strict=True):
                if curve:
                    place.plot(*curve, lw=0.8, color=theme["ink"], alpha=0.6)
                place.scatter(a, b, c=d["f1"], marker="x", s=16, lw=1, cmap="viridis")
            for place, x, y in zip(row, ("x", "f1", "x"), ("f1(x)", "f2(f1)", "f2(f1(x))"), strict=True):
                place.set_xlabel(x)
                place.set_ylabel(y)
        for place, name in zip(axes[0], ("First layer", "Statistical view", "Selectional view"), strict=True):
            place.set_title(name, loc="left")

    told = "curves: the functions; crosses: 50 points in them, coloured by f1; each row a draw"
    return Picture(
        spec.name, spec.title, pd.concat(parts), paint, (9.0, 5.2), (told, f"seeds {SEEDS[0]}, {SEEDS[1]}")
    )
