"""Snelson's data and the classical GPs on them, in original units, for the figures of Matthews' thesis."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from dgpbench.config import compose
from dgpbench.data import Split, load_split
from dgpbench.engine.context import RunContext, Silent
from dgpbench.errors import UserError
from dgpbench.models.base import create
from dgpbench.report.charts import Nothing

STEPS = 200  # iterations of L-BFGS at most
RBF = ("kernel_variance", "lengthscale", "likelihood_variance")  # in the order of GPflow's variables
NAMES = ("kernel/rbf/variance", "kernel/rbf/lengthscales", "likelihood/variance")


def data() -> tuple[np.ndarray, np.ndarray]:
    """All 200 rows, inputs (N, 1) and targets (N, 1); Nothing where they are not available."""
    try:
        split = load_split(compose(["dataset=snelson1d"]), lambda text: None)
    except UserError as error:
        raise Nothing(f"it needs the dataset snelson1d: {error}") from None
    return np.array(split.X), np.array(split.Y)


def context(steps: int, seed: int = 0) -> RunContext:
    return RunContext("0" * 64, Path(), seed, steps, None, Silent(), lambda text: None)


def fit(name: str, X: np.ndarray, Y: np.ndarray, *overrides: str, steps: int = STEPS) -> tuple[Any, float]:
    """A classical model trained on these rows, and its evidence or bound."""
    model: Any = create(compose([f"model={name}", "threads=1", "device=cpu", *overrides]))
    trained = model.fit(Split.from_arrays(X, Y), context(steps))
    return model, trained["evidence"]


def hyperparameters(model: Any) -> dict[str, float]:
    """Kernel variance, lengthscale and noise variance, by the names of their first values."""
    return {name: float(np.ravel(model.values[own])[0]) for name, own in zip(RBF, NAMES, strict=True)}


def starts(model: Any) -> list[str]:
    """The same as overrides: where another model starts, or stays in its frozen steps."""
    return [f"model.{name}={value!r}" for name, value in hyperparameters(model).items()]


def band(model: Any, x: np.ndarray, noise: bool = True) -> tuple[np.ndarray, np.ndarray]:
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
