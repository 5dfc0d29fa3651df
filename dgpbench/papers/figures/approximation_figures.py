"""Figures about variational inference: gradients, divergences, and a collapsed layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.integrate import solve_ivp
from scipy.optimize import minimize
from scipy.special import log_ndtr
from scipy.stats import multivariate_normal, norm

from dgpbench.report.charts.picture import Picture, legend_below, panels

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


def gradients_picture(spec, units) -> Picture:
    """Ordinary and natural gradients of a bound with one inducing point (thesis figure 3.1).

    A GP with unit RBF kernel, Bernoulli likelihood Phi(y f) and q(u) = N(m, s^2) at one inducing input. In
    each parameterisation the ordinary path follows the gradient of the bound in those coordinates; the
    natural path is the same curve of distributions in all of them. Data and start are chosen here.
    """
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


SEED, ROWS, JITTER = 5, 3, 1e-9
AUGMENTED_Z = np.linspace(-3.0, 4.0, 281)


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.RandomState(SEED)
    return np.sort(rng.uniform(-1.0, 2.0, ROWS)), rng.randn(ROWS)


def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * (a[:, None] - b) ** 2)


def gaussian_kl(m: np.ndarray, S: np.ndarray, n: np.ndarray, T: np.ndarray) -> float:
    """KL[N(m, S) || N(n, T)]."""
    gap, inverse = n - m, np.linalg.inv(T)
    logs = np.linalg.slogdet(T)[1] - np.linalg.slogdet(S)[1]
    return 0.5 * float(np.trace(inverse @ S) + gap @ inverse @ gap - len(m) + logs)


def divergences(x: np.ndarray, y: np.ndarray, z: float) -> tuple[float, float]:
    """KL[q(f_z, f_x) || p(. | y)] and KL[q(f_x) || p(f_x | y)] with Titsias' q(f_z)."""
    k, K = kernel(x, np.array([z])), kernel(x, x)
    precision = 1.0 + (k.T @ k).item()
    s, m = 1.0 / precision, (k[:, 0] @ y) / precision  # q(f_z) = N(m, s)
    mean, cov = k[:, 0] * m, K - (1.0 - s) * (k @ k.T)
    gain = np.linalg.solve(K + np.eye(len(x)), np.column_stack([K, k])).T  # of f_x and f_z
    joint = np.block([[K, k], [k.T, np.ones((1, 1))]])
    q = np.append(mean, m), np.block([[cov, s * k], [s * k.T, np.array([[s]])]])
    p = gain @ y, joint - gain @ np.column_stack([K, k])
    noise = JITTER * np.eye(len(x) + 1)
    both = gaussian_kl(q[0], q[1] + noise, p[0], p[1] + noise)
    return both, gaussian_kl(mean, cov, gain[:-1] @ y, p[1][:-1, :-1])


def augmented_picture(spec, units) -> Picture:
    """Two KL divergences as functions of one inducing input (Matthews' figure B.1): with the inducing output
    among the variables, and without. q(f_z) is optimal for the first; variance, lengthscale and noise are
    1."""
    x, y = data()
    both, own = np.array([divergences(x, y, z) for z in AUGMENTED_Z]).T
    frame = pd.DataFrame({"z": AUGMENTED_Z, "augmented": both, "unaugmented": own})

    def paint(figure, theme):
        top, bottom = panels(figure, 2, 1, sharex=True)[:, 0]
        top.plot(x, y, "o", color=theme["colours"][1])
        top.set_ylabel("y")
        for (name, values), colour in zip(
            {"augmented": both, "unaugmented": own}.items(), theme["colours"], strict=False
        ):
            bottom.plot(AUGMENTED_Z, values, color=colour, label=name)
            bottom.plot(AUGMENTED_Z[values.argmin()], values.min(), "v", color=colour)
        bottom.set_xlabel("inducing input z")
        bottom.set_ylabel("KL divergence")
        bottom.legend()

    minima = f"z = {AUGMENTED_Z[both.argmin()]:.3f} and {AUGMENTED_Z[own.argmin()]:.3f}"
    note = f"minima at {minima}; data of seed {SEED}"
    return Picture(spec.name, spec.title, frame, paint, (6.0, 5.0), (note,))


CORRELATION, SLOPE = 0.85, 3.0
AXIS = np.linspace(-3.0, 5.0, 321)
CELL = (AXIS[1] - AXIS[0]) ** 2
POINTS = np.stack(np.meshgrid(AXIS, AXIS, indexing="ij"), -1)
PRIOR = np.array([[1.0, CORRELATION], [CORRELATION, 1.0]])


def log_joint() -> np.ndarray:
    """log p(f1, f2) p(y | f1) p(y | f2) on the grid."""
    return multivariate_normal(np.zeros(2), PRIOR).logpdf(POINTS) + norm.logcdf(SLOPE * POINTS).sum(-1)


def exact() -> tuple[np.ndarray, float]:
    """Posterior density on the grid, and the evidence."""
    p = np.exp(log_joint())
    total = p.sum() * CELL
    return p / total, float(total)


def divergence(q: np.ndarray, p: np.ndarray) -> float:
    """KL[q || p] of densities on the grid."""
    inside = q > 1e-300
    return float(np.sum(q[inside] * (np.log(q[inside]) - np.log(np.maximum(p[inside], 1e-300)))) * CELL)


def mean_field(sweeps: int = 200) -> np.ndarray:
    """The best product of two free marginals: each is Phi(3 f) N(f; b E f', 1 - b^2), normalised."""
    factor, mean, width = norm.cdf(SLOPE * AXIS), 0.0, AXIS[1] - AXIS[0]
    for _ in range(sweeps):  # the two are alike
        q = factor * norm.pdf(AXIS, CORRELATION * mean, np.sqrt(1.0 - CORRELATION**2))
        q /= q.sum() * width
        mean = float(q @ AXIS * width)
    return np.outer(q, q)


def gaussian(correlated: bool) -> np.ndarray:
    """The Gaussian that minimises KL[q || p]: both means and deviations alike, by symmetry."""

    def density(t: np.ndarray) -> np.ndarray:
        var, r = np.exp(2.0 * t[1]), np.tanh(t[2]) if correlated else 0.0
        return multivariate_normal([t[0], t[0]], var * np.array([[1.0, r], [r, 1.0]])).pdf(POINTS)

    p, _ = exact()
    start = [0.8, np.log(0.5), 0.8] if correlated else [0.8, np.log(0.5)]
    return density(minimize(lambda t: divergence(density(t), p), start, method="Nelder-Mead").x)


def two_latents_picture(spec, units) -> Picture:
    """Three variational approximations of a posterior over two latent variables (Matthews' figure 2.2).

    Prior N(0, [[1, b], [b, 1]]) with b = 0.85, two labels 1 under Phi(3 f). All integrals are sums over one
    grid.
    """
    p, _ = exact()
    found = {
        "correlated Gaussian": gaussian(True),
        "factorised Gaussian": gaussian(False),
        "mean field": mean_field(),
    }
    frames, width = [], AXIS[1] - AXIS[0]
    for name, q in ({"exact": p} | found).items():
        numbers = {"f": AXIS, "marginal": q.sum(1) * width, "kl": divergence(q, p)}
        frames.append(pd.DataFrame({"approximation": name} | numbers))

    def paint(figure, theme):
        grid = panels(figure, 2, 3, sharex=True)
        for (top, bottom), (name, q), colour in zip(grid.T, found.items(), theme["colours"], strict=False):
            top.contour(AXIS, AXIS, p.T, 6, colors=theme["ink"], linewidths=0.7)
            top.contour(AXIS, AXIS, q.T, 6, colors=colour, linewidths=0.9)
            top.set_title(f"{name}, KL {divergence(q, p):.3f}", loc="left")
            top.set_ylim(-1.0, 3.5)
            bottom.plot(AXIS, p.sum(0) * width, color=theme["ink"], lw=1, label="exact")
            bottom.plot(AXIS, q.sum(0) * width, color=colour, lw=1.2, label="q")
            bottom.set_xlim(-1.0, 3.5)
            bottom.set_xlabel("f1")
            bottom.legend()
        grid[0, 0].set_ylabel("f2")
        grid[1, 0].set_ylabel("marginal density")

    return Picture(
        spec.name, spec.title, pd.concat(frames), paint, (9.0, 5.5), ("black: the exact posterior",)
    )


def noisy_variance(d, s, g: float = 1.0) -> np.ndarray:
    """Output variance (26) for one inducing point with u = 0 at distance d of the input's mean: 1 - Q."""
    Q = np.exp(-0.5 * np.square(d) / (0.5 * g**2 + s)) / np.sqrt(2.0 * s / g**2 + 1.0)
    return 1.0 - Q


def noisy_slope(d, s, g: float = 1.0) -> np.ndarray:
    """Its derivative in s: below zero at s = 0 where g < sqrt(2) |d|. In print, the first term lacks the
    power -1/2 of 2 s / g^2 + 1."""
    wide, scale = 0.5 * g**2 + s, 2.0 * s / g**2 + 1.0
    first = -0.5 * np.square(d) / wide**2 / np.sqrt(scale)
    return np.exp(-0.5 * np.square(d) / wide) * (first + 1.0 / (g**2 * scale**1.5))


def posterior_variance(x: np.ndarray, Z: np.ndarray, g: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """sigma^2 (N,) at x given the function at Z (M,), and its second derivative."""
    gap = (x[None] - Z[:, None]) / g  # M, N
    k = np.exp(-0.5 * gap**2)
    first, second = -gap * k / g, (gap**2 - 1.0) * k / g**2
    pairs = (Z[None] - Z[:, None]) / g
    K = np.exp(-0.5 * pairs**2) + 1e-12 * np.eye(len(Z))
    a, b = np.linalg.solve(K, k), np.linalg.solve(K, first)
    return 1.0 - (k * a).sum(0), -2.0 * ((second * a).sum(0) + (first * b).sum(0))


def evenly_spaced(count: int, g: float = 1.0) -> np.ndarray:
    """Inducing inputs of section 3.2: `count` of them within three lengthscales of 0."""
    return np.linspace(-3.0 * g, 3.0 * g, count)


COUNTS = (3, 5, 7, 10)  # inducing points whose curves are drawn
MOST = 15
DISTANCES = (0.0, 0.5, 1.0, 1.5, 2.0)  # of the input from the inducing point, in lengthscales


def collapse_picture(spec, units) -> Picture:
    """Why independent layers collapse: output variance of a GP with a noisy input (Ustyuzhaninov et al. 2020,
    figure 3 and appendix A), from formulas alone."""
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
