"""Ordinary and natural gradients of a bound with one inducing point (thesis figure 3.1).

A GP with unit RBF kernel, Bernoulli likelihood Phi(y f) and q(u) = N(m, s^2) at one inducing input. In each
parameterisation the ordinary path follows the gradient of the bound in those coordinates; the natural path is
the same curve of distributions in all of them. Data and start are chosen here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.integrate import solve_ivp
from scipy.special import log_ndtr

from dgpbench.report.figures.picture import Picture, panels

X, LABELS, Z = np.array([-1.0, -0.3, 0.4, 1.2]), np.array([1.0, 1.0, 1.0, -1.0]), 0.0
START = np.array([-1.0, 0.35])  # m, s
ORDINARY_TIME, SHOWN = (8.0, 3000.0), 300  # until the top, in each system's units; points of a path
NAMES = {False: "ordinary", True: "natural"}
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


@dataclass(frozen=True)
class Coordinates:
    """Coordinates c of N(m, s^2): to (m, s) and its Jacobian d(m, s) / dc."""

    name: str
    axes: tuple[str, str]
    to: Callable[[np.ndarray], np.ndarray]
    back: Callable[[np.ndarray], np.ndarray]
    jacobian: Callable[[np.ndarray], np.ndarray]


def _from_natural(c: np.ndarray) -> np.ndarray:
    return np.array([-0.5 * c[0] / c[1], np.sqrt(-0.5 / c[1])])


def _natural_jacobian(c: np.ndarray) -> np.ndarray:
    s2 = -0.5 / c[1]
    return np.array([[s2, 2.0 * c[0] * s2**2], [0.0, np.sqrt(s2) * s2]])


SYSTEMS = (
    Coordinates("Mean and standard deviation", ("m", "s"), lambda c: c, lambda p: p, lambda c: np.eye(2)),
    Coordinates(
        "Natural parameters",
        ("m / s^2", "-1 / (2 s^2)"),
        _from_natural,
        lambda p: np.array([p[0] / p[1] ** 2, -0.5 / p[1] ** 2]),
        _natural_jacobian,
    ),
)


def bound(m: np.ndarray | float, s: np.ndarray | float) -> np.ndarray:
    """The evidence lower bound at q(u) = N(m, s^2), of any shape."""
    m, s = np.asarray(m, float), np.asarray(s, float)
    a = np.exp(-0.5 * (X - Z) ** 2)
    mean, var = m[..., None] * a, 1.0 - a**2 + a**2 * s[..., None] ** 2
    f = mean[..., None] + np.sqrt(var)[..., None] * NODES  # ..., N, nodes
    fit = (log_ndtr(LABELS[:, None] * f) @ WEIGHTS).sum(-1)
    return fit - 0.5 * (m**2 + s**2 - 1.0) + np.log(s)


def gradient(p: np.ndarray) -> np.ndarray:
    """d bound / d(m, s): E f' under q(f) by Stein's identities, on the quadrature nodes."""
    m, s = p
    a = np.exp(-0.5 * (X - Z) ** 2)
    sd = np.sqrt(1.0 - a**2 + a**2 * s**2)
    f = (m * a)[:, None] + sd[:, None] * NODES
    slope = LABELS[:, None] * np.exp(-0.5 * f**2 - log_ndtr(LABELS[:, None] * f)) / np.sqrt(2.0 * np.pi)
    dm = a @ (slope @ WEIGHTS)
    ds = (a**2 * s / sd) @ ((slope * NODES) @ WEIGHTS)
    return np.array([dm - m, ds - s + 1.0 / s])


def direction(system: Coordinates, c: np.ndarray, natural: bool) -> np.ndarray:
    """The gradient in the coordinates c, or F^-1 times it; F of N(m, s^2) in (m, s) is diag(1, 2) / s^2."""
    J = system.jacobian(c)
    g = J.T @ gradient(system.to(c))
    if not natural:
        return g
    s = system.to(c)[1]
    F = J.T @ np.diag([1.0, 2.0]) @ J / s**2
    return np.linalg.solve(F, g)


def path(system: Coordinates, natural: bool, time: float) -> np.ndarray:
    """The curve (T, 2) of (m, s) that follows a direction from the start for a time."""
    times = np.union1d(np.geomspace(1e-3, time, SHOWN), np.linspace(0.0, time, SHOWN))
    found = solve_ivp(
        lambda _, c: direction(system, c, natural), (0.0, time), system.back(START), "LSODA", times, rtol=1e-7
    )
    return np.array([system.to(c) for c in found.y.T])


def picture(spec, units) -> Picture:
    curves = {
        (system.name, natural): path(system, natural, 8.0 if natural else time)
        for system, time in zip(SYSTEMS, ORDINARY_TIME, strict=True)
        for natural in (False, True)
    }
    data = pd.concat(
        [
            pd.DataFrame(
                {"coordinates": name, "gradient": NAMES[natural], "m": m, "s": s, "bound": bound(m, s)}
            )
            for (name, natural), c in curves.items()
            for m, s in [c.T]
        ]
    )

    def paint(figure, theme):
        axes = panels(figure, 1, len(SYSTEMS))[0]
        for place, system in zip(axes, SYSTEMS, strict=True):
            _panel(place, system, [curves[system.name, natural] for natural in (False, True)], theme)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)

    told = "contours: the bound; arrows: the whole gradients at the start; curves: paths of very small steps"
    return Picture(spec.name, spec.title, data, paint, (9.0, 4.4), (told,))


def _panel(axes, system: Coordinates, paths: list[np.ndarray], theme: dict) -> None:
    points = [np.array([system.back(p) for p in curve]) for curve in paths]
    start, top = points[0][0], points[1][-1]
    ends = np.concatenate([*points, [start + direction(system, start, natural) for natural in (False, True)]])
    low, high = ends.min(0), ends.max(0)
    low, high = low - 0.1 * (high - low), high + 0.1 * (high - low)
    if system.axes[1] == "s":
        low[1] = max(low[1], 0.05)
    else:
        high[1] = min(high[1], -0.05)
    grid = np.stack(np.meshgrid(*(np.linspace(a, b, 80) for a, b in zip(low, high, strict=True))))
    value = bound(*system.to(grid))
    axes.contour(
        *grid, value, levels=np.quantile(value, np.linspace(0.15, 0.995, 14)), linewidths=0.6, cmap="Greys"
    )
    for curve, natural in zip(points, (False, True), strict=True):
        colour = theme["colours"][0 if natural else 1]
        axes.plot(*curve.T, lw=1.6, color=colour, label=f"{NAMES[natural]} gradient")
        tip = start + direction(system, start, natural)
        style = {"arrowstyle": "-|>", "color": colour, "lw": 1.4, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", tip, start, arrowprops=style)
    axes.plot(*start, "o", ms=5, ls="", color=theme["ink"], label="start")
    axes.plot(*top, "*", ms=9, ls="", color=theme["ink"], label="top of the bound")
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel=system.axes[0], ylabel=system.axes[1])
    axes.set_title(system.name, loc="left")
