"""Figures that need no data: draws from priors, and densities of likelihoods."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy import special, stats

from dgpbench.report.charts.picture import Picture, panels

POINTS, RANGE, DRAWS, SEED = 500, 3.0, 5, 0
NOISES = (1e-6, 1e-2)  # variances of the likelihood: the rows of figure 1.3
X_DATA, Y_DATA = np.array([-1.5, 0.0, 2.0]), np.array([-0.8, 0.7, 1.2])  # three observations, not stated


def matern32(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    r = np.sqrt(3.0) * np.abs(a[:, None] - b)
    return (1.0 + r) * np.exp(-r)


def arc_cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Order 1, of the arguments (x, 1)."""
    lengths = np.sqrt(a[:, None] ** 2 + 1.0) * np.sqrt(b**2 + 1.0)
    angle = np.arccos(np.clip((a[:, None] * b + 1.0) / lengths, -1.0, 1.0))
    return lengths * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / np.pi


KERNELS = {
    "RBF": lambda a, b: np.exp(-0.5 * (a[:, None] - b) ** 2),
    "Matern 3/2": matern32,
    "ArcCosine": arc_cosine,
    "Quadratic": lambda a, b: (a[:, None] * b + 1.0) ** 2,
}


def posterior(kernel, x: np.ndarray, noise: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Mean (N,) and covariance (N, N) at x, (1.11)-(1.12); without noise, of the prior."""
    K = kernel(x, x)
    if noise is None:
        return np.zeros(len(x)), K
    k = kernel(X_DATA, x)
    A = np.linalg.solve(kernel(X_DATA, X_DATA) + noise * np.eye(len(X_DATA)), k)
    return A.T @ Y_DATA, K - k.T @ A


def draws(mean: np.ndarray, cov: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """Functions (DRAWS, N); the covariance may have no full rank."""
    values, vectors = np.linalg.eigh(cov)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return mean + (root @ rng.randn(len(mean), DRAWS)).T


def four_kernels_picture(spec, units) -> Picture:
    """Draws from GP priors and posteriors with four kernels (thesis figures 1.1 and 1.3).

    The kernels have unit variance and lengthscale, in their usual forms: the thesis prints exp(-r^2) and (1 +
    sqrt(3) r) exp(-r), and the arc-cosine without the lengths of its arguments, which take a bias here.
    """
    x = np.linspace(-RANGE, RANGE, POINTS)
    rows = NOISES if spec.x == "posterior" else (None,)
    found, parts = {}, []
    for noise in rows:
        for name, kernel in KERNELS.items():
            mean, cov = posterior(kernel, x, noise)
            sd = np.sqrt(np.maximum(np.diag(cov), 0.0))
            F = draws(mean, cov, np.random.RandomState(SEED))
            found[noise, name] = mean, sd, F
            own = {"kernel": name, "x": x, "mean": mean, "sd": sd}
            own |= {f"draw_{i}": f for i, f in enumerate(F)}
            parts.append(pd.DataFrame(own if noise is None else {"noise_variance": noise, **own}))

    def paint(figure, theme):
        axes = panels(figure, len(rows), len(KERNELS), sharex=True)
        for place, ((noise, name), (mean, sd, F)) in zip(axes.flat, found.items(), strict=True):
            place.fill_between(x, mean - 2 * sd, mean + 2 * sd, color=theme["faint"], lw=0)
            for f, colour in zip(F, theme["colours"], strict=False):
                place.plot(x, f, lw=0.9, color=colour)
            place.plot(x, mean, ":", lw=1.2, color=theme["ink"])
            if noise is not None:
                place.plot(X_DATA, Y_DATA, "x", ms=6, mew=1.6, color=theme["ink"], zorder=5)
            place.set_title(name if noise is None else f"{name}, noise variance {noise:g}", loc="left")
        for place in axes[-1]:
            place.set_xlabel("x")
        for place in axes[:, 0]:
            place.set_ylabel("f(x)")

    told = "shaded: 2 standard deviations around the mean (dotted)"
    if spec.x == "posterior":
        told += f"; crosses: observations at {', '.join(f'{v:g}' for v in X_DATA)}, chosen here"
    size = (2.6 * len(KERNELS), 0.6 + 2.2 * len(rows))
    return Picture(spec.name, spec.title, pd.concat(parts), paint, size, (told, f"seed {SEED}"))


KERNEL_DRAWS_POINTS, KERNEL_DRAWS_RANGE, KERNEL_DRAWS_DRAWS, JITTER, KERNEL_DRAWS_SEED = (
    1000,
    10.0,
    5,
    1e-8,
    0,
)
KERNEL_DRAWS_KERNELS = {
    "RBF, l = 1, sigma = 1": lambda x: np.exp(-0.5 * (x[:, None] - x) ** 2),
    "Wiener, lambda = 0.3, l = 1": lambda x: 0.3**2 * np.minimum(x[:, None], x),
}


def kernel_draws_draws(kernel, x: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """Functions (DRAWS, N) at the points x."""
    root = np.linalg.cholesky(kernel(x) + JITTER * np.eye(len(x)))
    return (root @ rng.randn(len(x), KERNEL_DRAWS_DRAWS)).T


def kernel_draws_picture(spec, units) -> Picture:
    """Draws from two Gaussian processes (Matthews' figure 1.2): the RBF kernel and the Wiener kernel."""
    x = np.linspace(0.0, KERNEL_DRAWS_RANGE, KERNEL_DRAWS_POINTS)
    found = {
        name: kernel_draws_draws(kernel, x, np.random.RandomState(KERNEL_DRAWS_SEED))
        for name, kernel in KERNEL_DRAWS_KERNELS.items()
    }
    parts = [
        pd.DataFrame({"kernel": name, "draw": i, "x": x, "f": f})
        for name, F in found.items()
        for i, f in enumerate(F)
    ]

    def paint(figure, theme):
        for place, (name, F) in zip(panels(figure, 2, 1, sharex=True)[:, 0], found.items(), strict=True):
            for f, colour in zip(F, theme["colours"], strict=False):
                place.plot(x, f, lw=0.9, color=colour)
            place.set_title(name, loc="left")
            place.set_ylabel("f(x)")
        place.set_xlabel("x")

    return Picture(spec.name, spec.title, pd.concat(parts), paint, (6.0, 4.5), (f"seed {KERNEL_DRAWS_SEED}",))


LOG_DENSITIES_RANGE, LOG_DENSITIES_POINTS, NODES, MANY = 4.0, 401, 20, 200
EDGES = np.array([0.0, 1.0])  # switch points of the ordinal
Density = Callable[[np.ndarray, float], np.ndarray]


def student_t(f: np.ndarray, y: float) -> np.ndarray:
    return stats.t(3.0).logpdf(y - f)


def bernoulli(f: np.ndarray, y: float) -> np.ndarray:
    return special.log_expit(f if y == 1 else -f)


def gamma(f: np.ndarray, y: float) -> np.ndarray:
    """Shape 1, scale exp(f)."""
    return -f - y * np.exp(-f)


def beta(f: np.ndarray, y: float) -> np.ndarray:
    return stats.beta(special.expit(f), special.expit(-f)).logpdf(y)


def ordinal(f: np.ndarray, y: float) -> np.ndarray:
    """Class y of three: f plus a unit of noise lies between the switch points."""
    ends = np.concatenate([[-np.inf], EDGES, [np.inf]])
    low, high = ends[int(y)] - f, ends[int(y) + 1] - f
    flip = low > 0  # by symmetry no difference of two numbers near 1
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    return np.log(special.ndtr(high) - special.ndtr(low))


LIKELIHOODS: dict[str, tuple[Density, tuple[float, ...]]] = {
    "Student-t, 3 degrees": (student_t, (0.0, 2.0)),
    "Bernoulli": (bernoulli, (0.0, 1.0)),
    "Gamma": (gamma, (0.5, 2.0)),
    "Beta": (beta, (0.2, 0.7)),
    "Ordinal": (ordinal, (0.0, 1.0, 2.0)),
}


def expectation(density: Density, y: float, nodes: int) -> float:
    """E log p(y | f) under N(f; 0, 1) by Gauss-Hermite quadrature."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    return float(density(x, y) @ w / w.sum())


def log_densities_picture(spec, units) -> Picture:
    """Log densities of five likelihoods as functions of f (thesis figure 1.4), and quadrature on them.

    Links: exponential for the gamma, sigmoid for the Bernoulli and the mean of the beta of unit scale; the
    ordinal has switch points at 0 and 1 with a unit of Gaussian noise. Degrees, shapes and observations are
    ours.
    """
    f = np.linspace(-LOG_DENSITIES_RANGE, LOG_DENSITIES_RANGE, LOG_DENSITIES_POINTS)
    curves = {(name, y): density(f, y) for name, (density, ys) in LIKELIHOODS.items() for y in ys}
    data = pd.concat(
        [pd.DataFrame({"likelihood": n, "y": y, "f": f, "log_density": c}) for (n, y), c in curves.items()]
    )
    errors = [
        abs(expectation(density, y, NODES) - expectation(density, y, MANY))
        for density, ys in LIKELIHOODS.values()
        for y in ys
    ]

    def paint(figure, theme):
        axes = panels(figure, 1, len(LIKELIHOODS), sharex=True)[0]
        for place, (name, (_, ys)) in zip(axes, LIKELIHOODS.items(), strict=True):
            for y, colour in zip(ys, theme["colours"], strict=False):
                place.plot(f, curves[name, y], lw=1.3, color=colour, label=f"y = {y:g}")
            place.set_title(name, loc="left")
            place.set_xlabel("f")
            place.legend(loc="best", fontsize=7)
        axes[0].set_ylabel("log p(y | f)")

    told = f"under N(f; 0, 1), {NODES} quadrature nodes differ from {MANY} by at most {max(errors):.1g} nat"
    return Picture(spec.name, spec.title, data, paint, (12.0, 2.7), (told,))


CURVE, TWO_LAYERS_POINTS, TWO_LAYERS_RANGE, SEEDS = 200, 50, 2.0, (3, 5)


def draw(identity: bool, rng: np.random.RandomState) -> dict[str, np.ndarray]:
    """Points x with f1 and f2 at them, and the curves of both functions over their own inputs."""
    x = np.linspace(-TWO_LAYERS_RANGE, TWO_LAYERS_RANGE, TWO_LAYERS_POINTS)
    grid = np.linspace(-TWO_LAYERS_RANGE, TWO_LAYERS_RANGE, CURVE)
    both = np.concatenate([grid, x])
    F1 = gp_draw(both, rng) + (both if identity else 0.0)
    f1 = F1[CURVE:]
    reach = np.linspace(min(f1.min(), -TWO_LAYERS_RANGE), max(f1.max(), TWO_LAYERS_RANGE), CURVE)
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


def two_layers_picture(spec, units) -> Picture:
    """Draws from the prior of a two-layer deep GP (thesis figures 2.1 and 2.3): layers, and points in them.

    Left the first function, in the middle the second over its own input (the statistical view), right the
    second at the points that came through the first, over x (the selectional view). Unit RBF kernels.
    """
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


GRID, SURFACE_POINTS, SURFACE_RANGE, SURFACE_SEED = 25, 150, 3.0, 4
SDS = (0.0, 0.2, 1.0)  # of the latent; the small one is not stated


def sample(
    rng: np.random.RandomState, grid: int = GRID, points: int = SURFACE_POINTS
) -> tuple[np.ndarray, ...]:
    """Inputs (x, w) of the surface (grid^2, 2) and of the points (3, points, 2), and a draw of f at both."""
    line = np.linspace(-SURFACE_RANGE, SURFACE_RANGE, grid)
    surface = np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2)
    x, w = rng.uniform(-SURFACE_RANGE, SURFACE_RANGE, points), rng.randn(points)
    inputs = np.stack([np.stack([x, sd * w], 1) for sd in SDS])
    every = np.concatenate([surface, inputs.reshape(-1, 2)])
    K = np.exp(-0.5 * ((every[:, None] - every[None]) ** 2).sum(-1))
    values, vectors = np.linalg.eigh(K)
    f = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.randn(len(every)))
    return surface, inputs, f[: len(surface)], f[len(surface) :].reshape(len(SDS), points)


def surface_picture(spec, units) -> Picture:
    """Draws of a GP with a latent variable among its inputs (thesis figure 4.2), for three variances of it.

    One draw f(x, w) of a GP with unit RBF kernel is the surface; each point has a latent w of its own.
    Outputs lie on the surface, and their projection onto the back pane is what is observed: (x, y).
    """
    surface, inputs, height, y = sample(np.random.RandomState(SURFACE_SEED))
    data = pd.concat(
        [
            pd.DataFrame({"latent_sd": sd, "x": at[:, 0], "w": at[:, 1], "y": out})
            for sd, at, out in zip(SDS, inputs, y, strict=True)
        ]
    )
    a, b, c = (v.reshape(GRID, GRID) for v in (*surface.T, height))

    def paint(figure, theme):
        for i, (sd, at, out) in enumerate(zip(SDS, inputs, y, strict=True)):
            place = figure.add_subplot(1, len(SDS), i + 1, projection="3d")
            place.plot_wireframe(a, b, c, lw=0.4, color=theme["colours"][0], alpha=0.6)
            kept = np.abs(at[:, 1]) <= SURFACE_RANGE
            place.scatter(*at[kept].T, out[kept], s=7, color=theme["colours"][1], depthshade=False)
            place.scatter(
                at[:, 0], np.full(len(out), SURFACE_RANGE), out, s=3, color=theme["ink"], depthshade=False
            )
            place.set_zlabel("y", labelpad=1)
            place.set(
                xlabel="x",
                ylabel="w",
                xlim=(-SURFACE_RANGE, SURFACE_RANGE),
                ylim=(-SURFACE_RANGE, SURFACE_RANGE),
            )
            place.set_title(f"Standard deviation of w: {sd:g}", loc="left", y=0.96)
            place.view_init(25, -60)
            place.set_box_aspect(None, zoom=0.8)

    told = "surface: one draw of f(x, w); orange: points with their own w; black: what is observed of them"
    return Picture(spec.name, spec.title, data, paint, (10.5, 3.6), (told, f"seed {SURFACE_SEED}"))


PRIOR_POINTS, PRIOR_RANGE, PRIOR_JITTER, PRIOR_SEED = 1500, 4.0, 1e-8, 2
MODELS = {"GP": ["gp"], "GP-GP": ["gp", "gp"], "LV-GP": ["lv", "gp"], "LV-GP-GP": ["lv", "gp", "gp"]}


def prior_draw(layers: list[str], x: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """One draw (N,) of the last function at the points x (N,)."""
    H = x[:, None]
    for i, layer in enumerate(layers):
        if layer == "lv":
            H = np.column_stack([H, rng.randn(len(x))])
        else:
            F = prior_gp_draw(H, rng)
            last = i == len(layers) - 1
            H = F[:, None] if last else (H[:, 0] + F)[:, None]
    return H[:, 0]


def prior_gp_draw(H: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """A zero-mean GP with a unit RBF kernel at the rows of H."""
    squares = ((H[:, None] - H[None]) ** 2).sum(-1)
    K = np.exp(-0.5 * squares) + PRIOR_JITTER * np.eye(len(H))
    return np.linalg.cholesky(K) @ rng.randn(len(H))


def prior_picture(spec, units) -> Picture:
    """One draw from the prior of four models (figure 5.3): GPs of one output, RBF kernels of unit
    lengthscale.

    Inner layers have the identity as mean function. Every point has a latent variable of its own, so that a
    model with latents draws a cloud where one without draws a curve.
    """
    x = np.linspace(-PRIOR_RANGE, PRIOR_RANGE, PRIOR_POINTS)
    found = {
        name: prior_draw(layers, x, np.random.RandomState(PRIOR_SEED)) for name, layers in MODELS.items()
    }
    data = pd.concat([pd.DataFrame({"model": name, "x": x, "y": y}) for name, y in found.items()])

    def paint(figure, theme):
        axes = panels(figure, 1, len(found), sharex=True, sharey=True)[0]
        for place, (name, y) in zip(axes, found.items(), strict=True):
            place.plot(x, y, ".", ms=1.5, color=theme["colours"][0])
            place.set_title(name, loc="left")
            place.set_xlabel("x")
        axes[0].set_ylabel("y")

    return Picture(
        spec.name, spec.title, data, paint, (3.0 * len(found), 2.8), ("drawn from the priors, seed 2",)
    )
