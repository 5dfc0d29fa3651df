"""Synthetic sets whose conditional density p(y | x) is known: distance from the truth can be measured.

Rows come in blocks of fixed size, each from its own seed: a set of any N is written without being held in
memory, and a larger set begins with the rows of a smaller one. Values are rounded to 1e-6, because sine and
cosine differ in the last bit between machines and the data hash must not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from dgpbench.data import city, letters
from dgpbench.data.cache import Blocks, CacheSpec, Data, key_of
from dgpbench.data.catalogue import Entry
from dgpbench.data.sources import Note
from dgpbench.errors import UserError
from dgpbench.keyed_random import normals, permuted, uniforms

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
    if entry.generator in CURVES:
        return None
    if entry.generator == "letters":
        return letters.log_density
    if entry.generator in SETS:
        found, noise = SETS[entry.generator], float(entry.settings["noise"])
        return lambda X, Y: gauss(Y[:, 0], found.value(X), noise)
    return partial(LOG_DENSITY[entry.generator], noise=float(entry.settings["noise"]))


def recipe(entry: Entry, paths: dict) -> CacheSpec:
    """Generated sets are cached like any other, one folder per combination of settings."""
    if entry.generator == "letters":
        n, settings = entry.n, {"n": entry.n}
        if n != 73419:
            raise UserError(
                f"dataset.n={n}: dgp_letters is a fixed grid of 73419 points; leave dataset.n alone"
            )
    elif entry.generator in CURVES:
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
    levels = entry.generator in SETS
    if levels:
        settings["lower"] = _whole(entry.settings.get("lower"), "lower", 1)
    key = key_of([entry.generator, settings])

    def make(note: Note) -> tuple[Blocks, str, dict]:
        if entry.generator == "letters":
            blocks = iter([letters.grid_points()])
        elif entry.generator in CURVES:
            blocks = iter([points(entry.generator, n)])
        elif levels:
            blocks = rows_of(entry.generator, n, settings["lower"], noise, seed)
        else:
            blocks = blocks_of(entry.generator, n, noise, seed)
        return blocks, key, {"stage": "generated", "settings": settings}

    name = "-".join(f"{k}{v}" for k, v in settings.items())
    rows = n + (len(SETS[entry.generator].levels) - 1) * settings["lower"] if levels else n
    expect = {"n": rows, "d": entry.d}
    return CacheSpec(Path(paths["datasets"]) / entry.name / name, frozenset([key]), make, expect)


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


CURVES = {
    "sine": lambda x: np.sin(np.pi * x),
    "identity": lambda x: x,
    "waves": lambda x: np.sin(2 * np.pi * x),
}


def points(name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """X, Y (n, 1): the points at both ends and every second between them first, then those half-way."""
    x = np.linspace(-1.0, 1.0, n)
    x = np.round(np.concatenate([x[::2], x[1::2]]), 6)
    return x[:, None], np.round(CURVES[name](x), 6)[:, None]


Function = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Fidelities:
    """Functions of x (N, D) from the cheapest to the dearest, and the box (D, 2) that x comes from."""

    levels: tuple[Function, ...]
    box: np.ndarray

    @property
    def dim(self) -> int:
        return len(self.box)

    def value(self, X: np.ndarray) -> np.ndarray:
        """f (N,) at the level that stands in the last column of X (N, D + 1)."""
        out = np.empty(len(X))
        for level, function in enumerate(self.levels):
            rows = X[:, -1] == level
            out[rows] = function(X[rows, :-1])
        return out


def _sine(X: np.ndarray) -> np.ndarray:
    return np.sin(8 * np.pi * X[:, 0])


def _sine_squared(X: np.ndarray) -> np.ndarray:
    return (X[:, 0] - np.sqrt(2)) * _sine(X) ** 2


def _branin(X: np.ndarray) -> np.ndarray:
    a, b = X.T
    bowl = (-1.275 * a**2 / np.pi**2 + 5 * a / np.pi + b - 6) ** 2
    return bowl + (10 - 5 / (4 * np.pi)) * np.cos(a) + 10


def _branin_middle(X: np.ndarray) -> np.ndarray:
    return 10 * np.sqrt(_branin(X - 2)) + 2 * (X[:, 0] - 0.5) - 3 * (3 * X[:, 1] - 1) - 1


def _branin_low(X: np.ndarray) -> np.ndarray:
    return _branin_middle(1.2 * (X + 2)) - 3 * X[:, 1] + 1


def _currin(X: np.ndarray) -> np.ndarray:
    a, b = X.T
    fall = 1 - np.exp(-0.5 / np.maximum(b, 1e-12))
    return fall * (2300 * a**3 + 1900 * a**2 + 2092 * a + 60) / (100 * a**3 + 500 * a**2 + 4 * a + 20)


def _currin_low(X: np.ndarray) -> np.ndarray:
    a, b = X.T
    high, low = b + 0.05, np.maximum(0.0, b - 0.05)
    corners = [np.stack([a + s, c], 1) for s in (0.05, -0.05) for c in (high, low)]
    return 0.25 * sum(_currin(corner) for corner in corners)


def _park(X: np.ndarray) -> np.ndarray:
    a, b, c, d = X.T
    return 0.5 * (np.sqrt(a**2 + (b + c**2) * d) - a) + (a + 3 * d) * np.exp(1 + np.sin(c))


def _park_low(X: np.ndarray) -> np.ndarray:
    a, b, c, _ = X.T
    return (1 + np.sin(a) / 10) * _park(X) - 2 * a + b**2 + c**2 + 0.5


def _flow(X: np.ndarray, factor: float, one: float) -> np.ndarray:
    radius, reach, upper, head, lower, foot, length, conductivity = X.T
    log = np.log(reach / radius)
    through = 2 * length * upper / (log * radius**2 * conductivity)
    return factor * upper * (head - foot) / (log * (one + through + upper / lower))


def _borehole(X: np.ndarray) -> np.ndarray:
    return _flow(X, 2 * np.pi, 1.0)


def _borehole_low(X: np.ndarray) -> np.ndarray:
    return _flow(X, 5.0, 1.5)


def _unit(dim: int) -> np.ndarray:
    return np.tile([0.0, 1.0], (dim, 1))


WELL = [(0.05, 0.15), (100, 50000), (63070, 115600), (990, 1110)]
WELL += [(63.1, 116), (700, 820), (1120, 1680), (9855, 12045)]
SETS = {
    "mf_sine": Fidelities((_sine, _sine_squared), _unit(1)),
    "mf_branin": Fidelities((_branin_low, _branin_middle, _branin), np.array([[-5.0, 10.0], [0.0, 15.0]])),
    "mf_currin": Fidelities((_currin_low, _currin), _unit(2)),
    "mf_park": Fidelities((_park_low, _park), _unit(4)),
    "mf_borehole": Fidelities((_borehole_low, _borehole), np.array(WELL, float)),
}


def rows_of(generator: str, n: int, lower: int, noise: float, seed: int) -> Iterator:
    """One block (X, Y) for each level, x uniform in the box; noise of the same deviation at every level."""
    found = SETS[generator]
    for level, function in enumerate(found.levels):
        count = n if level == len(found.levels) - 1 else lower
        random = np.random.RandomState([seed, level])
        x = np.round(found.box[:, 0] + random.uniform(size=(count, found.dim)) * np.ptp(found.box, axis=1), 6)
        y = function(x)[:, None] + noise * random.standard_normal((count, 1))
        yield np.hstack([x, np.full((count, 1), float(level))]), np.round(y, 6)


RULE = 1  # raise it when the rows of unchanged settings change
MOMENT_ROWS = 1 << 20  # training rows that give mean and standard deviation
MOST_TEST = 1_000_000  # test rows of a split without protocol.max_test
INPUTS, NOISE, SPLIT = (1 << 40, 1 << 41, 1 << 42)  # streams of random numbers; epochs have the small ones


class Rows:
    """N rows of an array (N, columns) that `make(row numbers)` computes."""

    def __init__(self, n: int, columns: int, make):
        self.shape, self.dtype, self._make = (n, columns), np.dtype(np.float64), make

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows) -> np.ndarray:
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        return self._make(np.asarray(rows))


class Numbers:
    """Row numbers: `count` images, from position `first` on, of a permutation of range(n)."""

    def __init__(self, n: int, first: int, count: int, seed: int):
        self.n, self.first, self.count, self.seed = n, first, count, seed

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, positions) -> np.ndarray:
        if isinstance(positions, slice):
            positions = np.arange(*positions.indices(self.count))
        return permuted(np.asarray(positions) + self.first, self.n, self.seed, SPLIT)

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return self[:] if dtype is None else self[:].astype(dtype)


def load(entry: Entry) -> Data:
    """The set that the settings describe; no row of it is computed yet."""
    n, noise, seed = checked_settings(entry)

    def angles(rows: np.ndarray) -> np.ndarray:
        return np.round((uniforms(rows, entry.d, seed, INPUTS) - 0.5) * np.pi, 6)

    def distances(rows: np.ndarray) -> np.ndarray:
        return np.round(arm_distance(angles(rows)) + noise * normals(rows, seed, NOISE), 6)[:, None]

    settings = {"generator": entry.generator, "rule": RULE, "n": n, "noise": noise, "data_seed": seed}
    text = "dgpbench-rows-1\n" + json.dumps(settings, sort_keys=True)
    meta = {"n": n, "d": entry.d, "p": 1, "origin": {"stage": "computed when asked for"}}
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Data(Rows(n, entry.d, angles), Rows(n, 1, distances), digest, meta)


def split_rows(n: int, split: int, protocol: dict) -> tuple[Numbers, Numbers]:
    """Train and test rows of a split; UserError for what would need all row numbers at once."""
    if protocol.get("validation"):
        raise UserError(
            "protocol.validation needs stored data; rows computed when asked for have no validation part"
        )
    cut = int(n * protocol["train_fraction"])
    if n - cut > MOST_TEST and not protocol.get("max_test"):
        raise UserError(
            f"{n - cut:,} test rows would take very long; limit them, e.g. protocol.max_test=10000"
        )
    return Numbers(n, 0, cut, split), Numbers(n, cut, n - cut, split)
