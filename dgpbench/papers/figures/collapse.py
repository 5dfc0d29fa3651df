"""Why independent layers collapse: output variance of a GP with a noisy input (Ustyuzhaninov et al. 2020,
figure 3 and appendix A), from formulas alone."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dgpbench.papers.collapse import evenly_spaced, noisy_slope, noisy_variance, posterior_variance
from dgpbench.report.figures.picture import Picture, legend_below, panels

COUNTS = (3, 5, 7, 10)  # inducing points whose curves are drawn
MOST = 15
DISTANCES = (0.0, 0.5, 1.0, 1.5, 2.0)  # of the input from the inducing point, in lengthscales


def picture(spec, units) -> Picture:
    return {"inducing_points": _inducing_points, "input_noise": _input_noise}[spec.panel](spec)


def _inducing_points(spec) -> Picture:
    x = np.linspace(-3.0, 3.0, 601)
    found = {M: posterior_variance(x, evenly_spaced(M)) for M in range(2, MOST + 1)}
    curves = [
        pd.DataFrame({"M": M, "x": x, "variance": found[M][0], "second_derivative": found[M][1]})
        for M in COUNTS
    ]
    least = pd.DataFrame({"M": list(found), "least": [second.min() for _, second in found.values()]})
    data = pd.concat([*curves, least], ignore_index=True)

    def paint(figure, theme):
        axes = panels(figure, 1, 3)[0]
        for colour, part in zip(theme["colours"], curves, strict=False):
            for place, column in zip(axes, ("variance", "second_derivative"), strict=False):
                place.plot(part.x, part[column], color=colour, lw=1.2, label=f"M = {part.M[0]}")
        axes[2].plot(least.M, least.least, "o-", ms=3, lw=1.0, color=theme["ink"])
        titles = ("posterior variance", "its second derivative", "least second derivative")
        for place, title in zip(axes, titles, strict=True):
            place.set_title(title, loc="left")
            place.set_xlabel("input, in lengthscales")
        axes[1].axhline(0.0, color=theme["faint"], lw=0.8, zorder=0)
        axes[2].axhline(0.0, color=theme["faint"], lw=0.8, zorder=0)
        axes[2].set_xlabel("inducing points M")
        legend_below(figure, *axes[0].get_legend_handles_labels())

    notes = ("M inducing points at equal distances within three lengthscales; drawn from formulas",)
    return Picture(spec.name, spec.title, data, paint, (9.5, 3.2), notes)


def _input_noise(spec) -> Picture:
    s, d = np.linspace(0.0, 2.0, 201), np.linspace(0.0, 3.0, 301)
    curves = [pd.DataFrame({"distance": at, "s": s, "variance": noisy_variance(at, s)}) for at in DISTANCES]
    slope = pd.DataFrame({"distance": d, "slope": noisy_slope(d, 0.0)})
    data = pd.concat([*curves, slope], ignore_index=True)

    def paint(figure, theme):
        axes = panels(figure, 1, 2)[0]
        for colour, part in zip(theme["colours"], curves, strict=False):
            label = f"distance {part.distance[0]:g}"
            axes[0].plot(part.s, part.variance, color=colour, lw=1.2, label=label)
        axes[0].set_title("variance of the output", loc="left")
        axes[0].set_xlabel("variance of the input")
        axes[1].plot(slope.distance, slope.slope, color=theme["ink"], lw=1.2)
        axes[1].axhline(0.0, color=theme["faint"], lw=0.8, zorder=0)
        axes[1].axvline(np.sqrt(0.5), color=theme["faint"], lw=0.8, zorder=0)
        axes[1].set_title("its slope where the input has no variance", loc="left")
        axes[1].set_xlabel("distance of the input's mean from the inducing point")
        legend_below(figure, *axes[0].get_legend_handles_labels())

    notes = ("one inducing point with u = 0, in lengthscales; the slope is negative beyond 1 / sqrt(2)",)
    return Picture(spec.name, spec.title, data, paint, (7.5, 3.2), notes)
