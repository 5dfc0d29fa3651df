"""Synthetic sets whose conditional density p(y | x) is known: distance from the truth can be measured.

Rows come in blocks of fixed size, each from its own seed: a set of any N is written without being held in
memory, and a larger set begins with the rows of a smaller one. Values are rounded to 1e-6, because sine and
cosine differ in the last bit between machines and the data hash must not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from dgpbench.data.cache import Blocks, Recipe, key_of
from dgpbench.data.catalogue import Entry
from dgpbench.data.generated import city, curves, fidelities, letters
from dgpbench.data.sources.chain import Note
from dgpbench.errors import UserError

BLOCK = 1 << 16
SHIFTS = np.array([-0.5, 0.0, 0.5])  # of the sequences
ARM_LINKS = np.array([0.35, 0.30, 0.25, 0.20, 0.15, 0.15, 0.10, 0.10])
ARM_TARGET = np.array([0.6, 0.3, 0.2])


def gauss(y: np.ndarray, mean: np.ndarray, std: np.ndarray | float) -> np.ndarray:
    """log N(y | mean, std^2)"""
    return -0.5 * ((y - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)


# The first two are toys of Depeweg et al. 2016, "Learning and policy search in stochastic dynamical systems".


def bimodal_draw(random: np.random.RandomState, n: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """x ~ U(-2, 2); y = 10 sin(x) or 10 cos(x) with equal chance, plus noise."""
    x = np.round(random.uniform(-2, 2, (n, 1)), 6)
    y = 10 * np.where(random.uniform(size=(n, 1)) < 0.5, np.sin(x), np.cos(x))
    return x, y + noise * random.standard_normal((n, 1))


def bimodal_log_density(X: np.ndarray, Y: np.ndarray, noise: float) -> np.ndarray:
    x, y = X[:, 0], Y[:, 0]
    return np.logaddexp(gauss(y, 10 * np.sin(x), noise), gauss(y, 10 * np.cos(x), noise)) - np.log(2)


def heteroscedastic_draw(
    random: np.random.RandomState, n: int, noise: float
) -> tuple[np.ndarray, np.ndarray]:
    """x ~ U(-4, 4); y = 7 sin(x) + 3 |cos(x / 2)| e."""
    x = np.round(random.uniform(-4, 4, (n, 1)), 6)
    return x, 7 * np.sin(x) + 3 * noise * np.abs(np.cos(x / 2)) * random.standard_normal((n, 1))


def heteroscedastic_log_density(X: np.ndarray, Y: np.ndarray, noise: float) -> np.ndarray:
    x, y = X[:, 0], Y[:, 0]
    return gauss(y, 7 * np.sin(x), 3 * noise * np.abs(np.cos(x / 2)))


def step_draw(random: np.random.RandomState, n: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """x ~ U(-1, 1); y = -1 left of zero, +1 right of it, plus noise."""
    x = np.round(random.uniform(-1, 1, (n, 1)), 6)
    return x, np.where(x < 0, -1.0, 1.0) + noise * random.standard_normal((n, 1))


def step_log_density(X: np.ndarray, Y: np.ndarray, noise: float) -> np.ndarray:
    return gauss(Y[:, 0], np.where(X[:, 0] < 0, -1.0, 1.0), noise)


def sincs_draw(random: np.random.RandomState, n: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Time ~ U(-3, 3), sequence 0, 1 or 2 with equal chance; y = sinc(time - shift of the sequence)."""
    time, sequence = np.round(random.uniform(-3, 3, (n, 1)), 6), random.randint(0, 3, (n, 1))
    y = np.sinc(time - SHIFTS[sequence])
    return np.hstack([time, sequence]), y + noise * random.standard_normal((n, 1))


def sincs_log_density(X: np.ndarray, Y: np.ndarray, noise: float) -> np.ndarray:
    return gauss(Y[:, 0], np.sinc(X[:, 0] - SHIFTS[X[:, 1].astype(int)]), noise)


def arm_distance(X: np.ndarray) -> np.ndarray:
    """Distance from the hand of an eight-joint arm to a fixed point in space.

    Joint angles (N, 8); joints turn about the z and the y axis in turn, each followed by its link along x.
    """
    hand = np.zeros((len(X), 3))
    for j in reversed(range(8)):
        hand[:, 0] += ARM_LINKS[j]
        c, s = np.cos(X[:, j]), np.sin(X[:, j])
        a, b = (0, 1) if j % 2 == 0 else (0, 2)
        hand[:, a], hand[:, b] = c * hand[:, a] - s * hand[:, b], s * hand[:, a] + c * hand[:, b]
    return np.sqrt(((hand - ARM_TARGET) ** 2).sum(axis=1))


def arm8_draw(random: np.random.RandomState, n: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Angles ~ U(-pi/2, pi/2); y = distance + noise."""
    X = np.round(random.uniform(-np.pi / 2, np.pi / 2, (n, 8)), 6)
    return X, arm_distance(X)[:, None] + noise * random.standard_normal((n, 1))


def arm8_log_density(X: np.ndarray, Y: np.ndarray, noise: float) -> np.ndarray:
    return gauss(Y[:, 0], arm_distance(X), noise)


def gaussians3_draw(random: np.random.RandomState, n: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Label 0, 1 or 2 with equal chance; x ~ N(centre, noise^2 I), the centres evenly on the unit circle."""
    label = random.randint(0, 3, (n, 1))
    turn = 2 * np.pi * label / 3
    x = np.hstack([np.sin(turn), np.cos(turn)]) + noise * random.standard_normal((n, 2))
    return np.round(x, 6), label.astype(float)


def strokes_draw(random: np.random.RandomState, n: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Images of 8 by 8 pixels from 0 to 1: a stroke upright, level, rising or falling (label 0 to 3) near the
    middle, with a slant of its own."""
    label = random.randint(0, 4, (n, 1))
    angle = np.pi * np.array([0.5, 0.0, 0.25, 0.75])[label] + 0.2 * random.standard_normal((n, 1))
    shift, width = 0.1 * random.standard_normal((n, 1)), random.uniform(0.15, 0.25, (n, 1))
    place = np.linspace(-1, 1, 8)
    across, up = (a.ravel()[None] for a in np.meshgrid(place, -place))  # 1, 64: rows of pixels from above
    distance = -np.sin(angle) * across + np.cos(angle) * up - shift
    pixels = np.exp(-0.5 * (distance / width) ** 2) + noise * random.standard_normal((n, 64))
    return np.round(np.clip(pixels, 0, 1), 6), label.astype(float)


DRAW = {
    "strokes": strokes_draw,
    "gaussians3": gaussians3_draw,
    "bimodal": bimodal_draw,
    "heteroscedastic": heteroscedastic_draw,
    "step": step_draw,
    "sincs": sincs_draw,
    "arm8": arm8_draw,
    "city": city.draw,
}
LOG_DENSITY = {
    "bimodal": bimodal_log_density,
    "heteroscedastic": heteroscedastic_log_density,
    "step": step_log_density,
    "sincs": sincs_log_density,
    "arm8": arm8_log_density,
    "arm8_rows": arm8_log_density,
    "city": city.log_density,
}


def log_density(entry: Entry) -> Callable[[np.ndarray, np.ndarray], np.ndarray] | None:
    """log p(y | x) as a function of (X, Y) in original units; None where y has no noise."""
    if entry.generator in curves.CURVES:
        return None
    if entry.generator == "letters":
        return letters.log_density
    if entry.generator in fidelities.SETS:
        found, noise = fidelities.SETS[entry.generator], float(entry.settings["noise"])
        return lambda X, Y: gauss(Y[:, 0], found.value(X), noise)
    return partial(LOG_DENSITY[entry.generator], noise=float(entry.settings["noise"]))


def recipe(entry: Entry, paths: dict) -> Recipe:
    """Generated sets are cached like any other, one folder per combination of settings."""
    if entry.generator == "letters":
        n, settings = entry.n, {"n": entry.n}
        if n != 73419:
            raise UserError(
                f"dataset.n={n}: dgp_letters is a fixed grid of 73419 points; leave dataset.n alone"
            )
    elif entry.generator in curves.CURVES:
        n = _whole(entry.n, "n", 5)
        settings = {"n": n}
        if entry.train_rows != (n + 1) // 2:
            raise UserError(
                f"dataset.n={n} dataset.train_rows={entry.train_rows}: every second point of {entry.name} is "
                f"a test point; set dataset.train_rows={(n + 1) // 2}"
            )
    else:
        n, noise, seed = checked_settings(entry)
        settings = {"n": n, "noise": noise, "data_seed": seed}
    levels = entry.generator in fidelities.SETS
    if levels:
        settings["lower"] = _whole(entry.settings.get("lower"), "lower", 1)
    key = key_of([entry.generator, settings])

    def make(note: Note) -> tuple[Blocks, str, dict]:
        if entry.generator == "letters":
            blocks = iter([letters.grid_points()])
        elif entry.generator in curves.CURVES:
            blocks = iter([curves.points(entry.generator, n)])
        elif levels:
            blocks = fidelities.rows_of(entry.generator, n, settings["lower"], noise, seed)
        else:
            blocks = blocks_of(entry.generator, n, noise, seed)
        return blocks, key, {"stage": "generated", "settings": settings}

    name = "-".join(f"{k}{v}" for k, v in settings.items())
    rows = n + (len(fidelities.SETS[entry.generator].levels) - 1) * settings["lower"] if levels else n
    expect = {"n": rows, "d": entry.d}
    return Recipe(Path(paths["datasets"]) / entry.name / name, frozenset([key]), make, expect)


def blocks_of(generator: str, n: int, noise: float, seed: int) -> Blocks:
    for i, start in enumerate(range(0, n, BLOCK)):
        X, Y = DRAW[generator](np.random.RandomState([seed, i]), BLOCK, noise)
        rows = min(BLOCK, n - start)
        yield X[:rows], np.round(Y[:rows], 6)


def checked_settings(entry: Entry) -> tuple[int, float, int]:
    """Rows, noise and seed as the user set them."""
    seed = _whole(entry.settings.get("data_seed", 0), "data_seed", 0)
    return _whole(entry.n, "n", 5), _positive(entry.settings.get("noise")), seed


def _whole(value: object, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError(f"dataset.{name}={value!r}; a whole number of at least {least} is needed")
    return value


def _positive(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise UserError(f"dataset.noise={value!r}; a positive number is needed")
    return float(value)
