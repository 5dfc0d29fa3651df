"""Exact GP regression on Snelson's data (Matthews' figures 1.3 and 4.1): RBF and Wiener kernels."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from dgpbench.papers.figures import snelson
from dgpbench.report.figures.picture import Picture, panels

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
    model, evidence = snelson.fit("gpr", X, Y)
    h = snelson.hyperparameters(model)

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


def picture(spec, units) -> Picture:
    """spec.x: `kernels` for figure 1.3, `quarter` for 4.1."""
    X, Y = snelson.data()
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
                snelson.paint_band(place, x, p.mean, 2 * np.sqrt(var + added), theme["colours"][2])
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
    model, evidence = snelson.fit("gpr", X, Y)
    x = np.linspace(-1.0, 7.0, POINTS)
    mean, width = snelson.band(model, x)

    def paint(figure, theme):
        place = panels(figure, 1, 1)[0, 0]
        snelson.paint_band(place, x, mean, width, theme["colours"][2])
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
