"""Sets whose rows are computed when they are asked for, from (data_seed, row): any N, nothing stored.

Inputs and noise of a row come by counter, so rows can be read in any order. Train and test are the two ends
of a pseudo-random permutation that is never built, and the moments for scaling are those of its first rows.
The hash of such a set names the rule and its settings in place of the values.
"""

from __future__ import annotations

import hashlib
import json

import numpy as np

from dgpbench.data.cache import Data
from dgpbench.data.catalogue import Entry
from dgpbench.data.generated.synthetic import arm_distance, checked_settings
from dgpbench.errors import UserError
from dgpbench.keyed_random import normals, permuted, uniforms

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
