"""VFE with ever more inducing points on Snelson's data (Matthews' figures 2.3 and 2.4): every second row
trains, the others are held out. Panels of predictions, or the two KL divergences between posterior processes
and the hold-out density."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.linalg import cho_factor, cho_solve
from scipy.stats import multivariate_normal

from dgpbench.config import compose
from dgpbench.models.base import create
from dgpbench.models.classics.lbfgs import maximise
from dgpbench.papers.figures import snelson
from dgpbench.report.figures.picture import Picture, panels

SHOWN = (2, 4, 8, 16)
COUNTED = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16)
JITTER = 1e-6  # GPflow's


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
    A = np.linalg.solve(k(z, z) + JITTER * np.eye(len(z)), k(z, x)).T
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
        explained = np.sum(k * np.linalg.solve(K + JITTER * np.eye(len(Z)), k.T).T, 1)
        first = np.abs(X - X.mean())[:, 0]  # without any, the one in the middle
        Z = np.concatenate([Z, X[(explained if len(Z) else first).argmin()][None]])
    return Z


def trained(values: dict[str, np.ndarray], Z: np.ndarray, frozen: bool):
    """VFE from these values and inducing inputs, hyperparameters held or trained; and its bound."""
    model: Any = create(compose(["model=sgpr", "model.ard=false", "threads=1", "device=cpu"]))
    model.load_parameters(values | {"Z": Z})
    bound = maximise(model.model, snelson.context(snelson.STEPS), snelson.STEPS if frozen else 0)["evidence"]
    model.load_parameters(values | model.trained_values() | model.own_values())
    return model, bound


def sequence(exact, counts: tuple[int, ...]):
    """Number of inducing points, model and bound at the exact hyperparameters, each from the last."""
    Z, h = np.zeros((0, 1)), snelson.hyperparameters(exact)
    for M in counts:
        model, bound = trained(exact.values, more(exact.values["X"], Z, M, h), frozen=True)
        Z = model.values["Z"]
        yield M, model, bound


def picture(spec, units) -> Picture:
    """spec.x: `panels` for figure 2.3, `metrics` for 2.4."""
    X, Y = snelson.data()
    train, new = (X[::2], Y[::2]), (X[1::2], Y[1::2])
    exact, _ = snelson.fit("gpr", *train, "model.ard=false")
    return (_panels if spec.x == "panels" else _metrics)(spec, exact, train, new)


def _panels(spec, exact, train, new) -> Picture:
    models = {f"M = {M}": model for M, model, _ in sequence(exact, SHOWN)} | {"exact": exact}
    x = np.linspace(-1.0, 7.0, 200)
    bands = {name: snelson.band(model, x) for name, model in models.items()}
    frames = [pd.DataFrame({"model": n, "x": x, "mean": m, "two_sd": w}) for n, (m, w) in bands.items()]

    def paint(figure, theme):
        for place, (name, (mean, width)) in zip(
            panels(figure, len(bands), 1, sharex=True)[:, 0], bands.items(), strict=True
        ):
            snelson.paint_band(place, x, mean, width, theme["colours"][2])
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
    h, rows, (X, Y) = snelson.hyperparameters(exact), [], train
    for M, fixed, bound in sequence(exact, COUNTED):
        free, _ = trained(fixed.values, fixed.values["Z"], frozen=False)
        forward, backward = divergences(X, Y, fixed.values["Z"], h, bound)
        rows.append(
            {"M": M, "KL[Q||P]": forward, "KL[P||Q]": backward, "hold-out": snelson.log_density(free, *new)}
        )
    frame, best = pd.DataFrame(rows), snelson.log_density(exact, *new)

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
