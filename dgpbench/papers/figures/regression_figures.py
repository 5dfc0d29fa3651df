"""Figures of exact and sparse regression on Snelson's data (Matthews' thesis), and the GPs behind them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from dgpbench.config import compose
from dgpbench.data import Split, load_split
from dgpbench.engine.context import RunContext, Silent
from dgpbench.errors import UserError
from dgpbench.models.base import create
from dgpbench.models.classics.lbfgs import maximise
from dgpbench.report.charts import Nothing
from dgpbench.report.charts.picture import Picture, panels

STEPS = 200  # iterations of L-BFGS at most
RBF = ("kernel_variance", "lengthscale", "likelihood_variance")  # in the order of GPflow's variables
NAMES = ("kernel/rbf/variance", "kernel/rbf/lengthscales", "likelihood/variance")


def snelson_data() -> tuple[np.ndarray, np.ndarray]:
    """All 200 rows, inputs (N, 1) and targets (N, 1); Nothing where they are not available."""
    try:
        split = load_split(compose(["dataset=snelson1d"]), lambda text: None)
    except UserError as error:
        raise Nothing(f"it needs the dataset snelson1d: {error}") from None
    return np.array(split.X), np.array(split.Y)


def run_context(steps: int, seed: int = 0) -> RunContext:
    return RunContext("0" * 64, Path(), seed, steps, None, Silent(), lambda text: None)


def fit_classical(
    name: str, X: np.ndarray, Y: np.ndarray, *overrides: str, steps: int = STEPS
) -> tuple[Any, float]:
    """A classical model trained on these rows, and its evidence or bound."""
    model: Any = create(compose([f"model={name}", "threads=1", "device=cpu", *overrides]))
    trained = model.fit(Split.from_arrays(X, Y), run_context(steps))
    return model, trained["evidence"]


def hyperparameters(model: Any) -> dict[str, float]:
    """Kernel variance, lengthscale and noise variance, by the names of their first values."""
    return {name: float(np.ravel(model.values[own])[0]) for name, own in zip(RBF, NAMES, strict=True)}


def starts(model: Any) -> list[str]:
    """The same as overrides: where another model starts, or stays in its frozen steps."""
    return [f"model.{name}={value!r}" for name, value in hyperparameters(model).items()]


def posterior_band(model: Any, x: np.ndarray, noise: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Mean and two standard deviations of y, or of f, at the inputs x (N,)."""
    mean, var = model.moments(x[:, None])
    added = float(model.values["likelihood/variance"]) if noise else 0.0
    return mean[:, 0], 2.0 * np.sqrt(var[:, 0] + added)


def log_density(model: Any, X: np.ndarray, Y: np.ndarray) -> float:
    """Mean log density of new rows."""
    mean, var = model.moments(X)
    var = var + float(model.values["likelihood/variance"])
    return float(np.mean(-0.5 * (np.log(2.0 * math.pi * var) + (Y - mean) ** 2 / var)))


def paint_band(place, x: np.ndarray, mean: np.ndarray, width: np.ndarray, colour: str) -> None:
    place.plot(x, mean, color=colour, lw=1.2)
    place.fill_between(x, mean - width, mean + width, color=colour, alpha=0.2, lw=0)


POINTS, DRAWS, SEED, JITTER = 300, 3, 0, 1e-8


class Posterior(NamedTuple):
    """Of f at new inputs, with the noise variance and what the panel says of the fit."""

    mean: np.ndarray
    cov: np.ndarray
    noise: float
    text: str


def conditioned(
    K: np.ndarray, cross: np.ndarray, new: np.ndarray, y: np.ndarray, noise: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of f at new inputs given noisy y."""
    gain = np.linalg.solve(K + noise * np.eye(len(K)), cross).T
    return gain @ y, new - gain @ cross


def wiener_fit(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """lambda^2 / l, noise variance and evidence of the kernel lambda^2 min(x, x') / l at their optimum. Only
    this quotient matters (the thesis, 1.1.3)."""
    K = np.minimum(x[:, None], x)

    def loss(logs: np.ndarray) -> float:
        scale, noise = np.exp(logs)
        return -multivariate_normal(np.zeros(len(x)), scale * K + noise * np.eye(len(x))).logpdf(y)

    found = minimize(loss, np.log([0.5, 0.1]), method="L-BFGS-B")
    return *np.exp(found.x), -float(found.fun)


def rbf_posterior(X: np.ndarray, Y: np.ndarray, x: np.ndarray) -> Posterior:
    model, evidence = fit_classical("gpr", X, Y)
    h = hyperparameters(model)

    def k(a, b):
        return h["kernel_variance"] * np.exp(-0.5 * ((a[:, None] - b) / h["lengthscale"]) ** 2)

    own, noise = X[:, 0], h["likelihood_variance"]
    text = (
        f"RBF: sigma {math.sqrt(h['kernel_variance']):.3f}, l {h['lengthscale']:.3f}, "
        f"noise {math.sqrt(noise):.3f}, evidence {evidence:.2f}"
    )
    return Posterior(*conditioned(k(own, own), k(own, x), k(x, x), Y[:, 0], noise), noise, text)


def wiener_posterior(X: np.ndarray, Y: np.ndarray, x: np.ndarray) -> Posterior:
    own = X[:, 0]
    scale, noise, evidence = wiener_fit(own, Y[:, 0])
    K, cross, new = (scale * np.minimum(a[:, None], b) for a, b in ((own, own), (own, x), (x, x)))
    text = f"Wiener: lambda^2 / l {scale:.3f}, noise {math.sqrt(noise):.3f}, evidence {evidence:.2f}"
    return Posterior(*conditioned(K, cross, new, Y[:, 0], noise), noise, text)


def exact_picture(spec, units) -> Picture:
    """spec.x: `kernels` for figure 1.3, `quarter` for 4.1."""
    X, Y = snelson_data()
    if spec.x == "quarter":
        return _quarter(spec, X[::4], Y[::4])
    X, Y, x = X[::2], Y[::2], np.linspace(0.0, 10.0, POINTS)
    found = {"rbf": rbf_posterior(X, Y, x), "wiener": wiener_posterior(X, Y, x)}
    rng, frames, drawn = np.random.RandomState(SEED), [], {}
    for name, p in found.items():
        values, vectors = np.linalg.eigh(p.cov + JITTER * np.eye(POINTS))
        drawn[name] = p.mean + rng.randn(DRAWS, POINTS) @ (vectors * np.sqrt(np.maximum(values, 0))).T
        sd = np.sqrt(np.maximum(np.diag(p.cov), 0))
        frames.append(pd.DataFrame({"kernel": name, "x": x, "mean": p.mean, "sd_f": sd, "noise": p.noise}))

    def paint(figure, theme):
        grid = panels(figure, 3, 2, sharex=True, sharey=True)
        for column, (name, p) in zip(grid.T, found.items(), strict=True):
            var = np.maximum(np.diag(p.cov), 0)
            for f, colour in zip(drawn[name], theme["colours"], strict=False):
                column[0].plot(x, f, lw=0.9, color=colour)
            for place, added in ((column[1], 0.0), (column[2], p.noise)):
                paint_band(place, x, p.mean, 2 * np.sqrt(var + added), theme["colours"][2])
                place.plot(X, Y, ".", ms=3, color=theme["colours"][1])
            column[0].set_title(p.text, loc="left")
            column[2].set_xlabel("x")
        for place, text in zip(
            grid[:, 0], ("three draws of f", "f: mean, two sd", "y: mean, two sd"), strict=True
        ):
            place.set_ylabel(text)

    return Picture(
        spec.name, spec.title, pd.concat(frames), paint, (9.0, 7.0), tuple(p.text for p in found.values())
    )


def _quarter(spec, X: np.ndarray, Y: np.ndarray) -> Picture:
    model, evidence = fit_classical("gpr", X, Y)
    x = np.linspace(-1.0, 7.0, POINTS)
    mean, width = posterior_band(model, x)

    def paint(figure, theme):
        place = panels(figure, 1, 1)[0, 0]
        paint_band(place, x, mean, width, theme["colours"][2])
        place.plot(X, Y, ".", ms=5, color=theme["colours"][1])
        place.set_xlabel("x")
        place.set_ylabel("y: mean, two sd")

    note = f"every fourth row, {len(X)} rows; evidence {evidence:.2f}"
    return Picture(
        spec.name,
        spec.title,
        pd.DataFrame({"x": x, "mean": mean, "two_sd": width}),
        paint,
        (6.0, 3.5),
        (note,),
    )


SHOWN = (2, 4, 8, 16)
COUNTED = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16)
GROWING_JITTER = 1e-6  # GPflow's


def divergences(
    X: np.ndarray, Y: np.ndarray, Z: np.ndarray, h: dict[str, float], bound: float
) -> tuple[float, float]:
    """KL[Q || P] = log p(y) - bound, and KL[P || Q], of processes, Q with the optimal q(f_Z).

    dQ/dPrior = N(y; A f_Z, s2) / N(y; 0, Q + s2), A = K_xz K_zz^-1, and dP/dPrior = N(y; f_X, s2) / p(y).
    """
    x, y, z, s2 = X[:, 0], Y[:, 0], Z[:, 0], h["likelihood_variance"]

    def k(a, b):
        return h["kernel_variance"] * np.exp(-0.5 * ((a[:, None] - b) / h["lengthscale"]) ** 2)

    noise = s2 * np.eye(len(x))
    A = np.linalg.solve(k(z, z) + GROWING_JITTER * np.eye(len(z)), k(z, x)).T
    log_p = multivariate_normal(np.zeros(len(x)), k(x, x) + noise).logpdf(y)
    log_q = multivariate_normal(np.zeros(len(x)), A @ k(z, x) + noise).logpdf(y)
    factor = cho_factor(k(x, x) + noise)

    def misfit(B: np.ndarray, at: np.ndarray) -> float:
        """E |y - B f|^2 under the exact posterior of f at these inputs."""
        gain = cho_solve(factor, k(x, at)).T
        return float(np.sum((y - B @ gain @ y) ** 2) + np.trace(B @ (k(at, at) - gain @ k(x, at)) @ B.T))

    backward = -(misfit(np.eye(len(x)), x) - misfit(A, z)) / (2.0 * s2) - log_p + log_q
    return float(log_p - bound), float(backward)


def more(X: np.ndarray, Z: np.ndarray, M: int, h: dict[str, float]) -> np.ndarray:
    """M inducing inputs: Z, then the training input that they leave most uncertain, again and again. A bound
    that starts there is no lower than with Z (theorem 3)."""
    while len(Z) < M:
        k, K = (np.exp(-0.5 * ((A - Z.T) / h["lengthscale"]) ** 2) for A in (X, Z))
        explained = np.sum(k * np.linalg.solve(K + GROWING_JITTER * np.eye(len(Z)), k.T).T, 1)
        first = np.abs(X - X.mean())[:, 0]  # without any, the one in the middle
        Z = np.concatenate([Z, X[(explained if len(Z) else first).argmin()][None]])
    return Z


def trained(values: dict[str, np.ndarray], Z: np.ndarray, frozen: bool):
    """VFE from these values and inducing inputs, hyperparameters held or trained; and its bound."""
    model: Any = create(compose(["model=sgpr", "model.ard=false", "threads=1", "device=cpu"]))
    model.load_parameters(values | {"Z": Z})
    bound = maximise(model.model, run_context(STEPS), STEPS if frozen else 0)["evidence"]
    model.load_parameters(values | model.trained_values() | model.own_values())
    return model, bound


def sequence(exact, counts: tuple[int, ...]):
    """Number of inducing points, model and bound at the exact hyperparameters, each from the last."""
    Z, h = np.zeros((0, 1)), hyperparameters(exact)
    for M in counts:
        model, bound = trained(exact.values, more(exact.values["X"], Z, M, h), frozen=True)
        Z = model.values["Z"]
        yield M, model, bound


def growing_picture(spec, units) -> Picture:
    """spec.x: `panels` for figure 2.3, `metrics` for 2.4."""
    X, Y = snelson_data()
    train, new = (X[::2], Y[::2]), (X[1::2], Y[1::2])
    exact, _ = fit_classical("gpr", *train, "model.ard=false")
    return (_panels if spec.x == "panels" else _metrics)(spec, exact, train, new)


def _panels(spec, exact, train, new) -> Picture:
    models = {f"M = {M}": model for M, model, _ in sequence(exact, SHOWN)} | {"exact": exact}
    x = np.linspace(-1.0, 7.0, 200)
    bands = {name: posterior_band(model, x) for name, model in models.items()}
    frames = [pd.DataFrame({"model": n, "x": x, "mean": m, "two_sd": w}) for n, (m, w) in bands.items()]

    def paint(figure, theme):
        for place, (name, (mean, width)) in zip(
            panels(figure, len(bands), 1, sharex=True)[:, 0], bands.items(), strict=True
        ):
            paint_band(place, x, mean, width, theme["colours"][2])
            place.plot(*train, ".", ms=3, color=theme["colours"][1])
            if "Z" in models[name].values:
                Z = models[name].values["Z"][:, 0]
                place.plot(Z, np.full(len(Z), -3.2), "|", ms=9, mew=1.5, color=theme["ink"])
            place.set_ylim(-3.5, 3.0)
            place.set_title(name, loc="left")
        place.set_xlabel("x; the marks are inducing inputs")

    return Picture(
        spec.name, spec.title, pd.concat(frames), paint, (6.0, 9.0), ("hyperparameters of the exact fit",)
    )


def _metrics(spec, exact, train, new) -> Picture:
    h, rows, (X, Y) = hyperparameters(exact), [], train
    for M, fixed, bound in sequence(exact, COUNTED):
        free, _ = trained(fixed.values, fixed.values["Z"], frozen=False)
        forward, backward = divergences(X, Y, fixed.values["Z"], h, bound)
        rows.append({"M": M, "KL[Q||P]": forward, "KL[P||Q]": backward, "hold-out": log_density(free, *new)})
    frame, best = pd.DataFrame(rows), log_density(exact, *new)

    def paint(figure, theme):
        places = panels(figure, 3, 1, sharex=True)[:, 0]
        texts = ("KL[Q || P]", "KL[P || Q]", "hold-out log density")
        for place, column, text in zip(places, frame.columns[1:], texts, strict=True):
            place.plot(frame.M, frame[column], ".-", color=theme["colours"][0])
            place.set_ylabel(text)
        for place in places[:2]:
            place.set_yscale("symlog", linthresh=1e-2)
        places[2].axhline(best, ls="--", color=theme["colours"][1])
        places[2].set_xlabel("inducing points M")

    note = (
        f"dashed: the exact model's hold-out log density, {best:.4f}; there hyperparameters are trained too"
    )
    return Picture(spec.name, spec.title, frame, paint, (6.0, 6.5), (note,))


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
    done = maximise(model.model, replace(run_context(iterations), reporter=seen), patient=True)["steps"]
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
    return {"iteration": iteration, "objective": objective, "hold_out": -log_density(model, *new)}


def courses(iterations: int = ITERATIONS) -> dict[str, Course]:
    X, Y = snelson_data()
    kept = np.arange(len(X)) % 4 == 0
    exact, _ = fit_classical("gpr", X[kept], Y[kept], "model.ard=false")
    return {name: course(name, exact.values, (X[~kept], Y[~kept]), iterations) for name in LABELS}


def departure_picture(spec, units) -> Picture:
    """VFE and FITC that start at the exact posterior, M = N (Matthews' figure 4.2): every fourth row of
    Snelson's data trains, the others are held out. VFE stays; FITC leaves: it gains by its objective, loses
    on new rows."""
    found = courses()
    x = np.linspace(-1.0, 7.0, 300)
    bands = {name: posterior_band(c.model, x) for name, c in found.items()}
    frame = pd.concat([c.trace.assign(method=LABELS[name]) for name, c in found.items()])

    def paint(figure, theme):
        for column, (name, c) in zip(panels(figure, 4, 2, sharey="row").T, found.items(), strict=True):
            values = c.model.values
            paint_band(column[0], x, *bands[name], theme["colours"][2])
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
