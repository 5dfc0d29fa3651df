"""Random numbers keyed by (seed, index): permutations, uniforms and normals, computed in any order.

Nothing is stored and nothing has to be drawn before: permutations and rows of any length in flat memory.
"""

from __future__ import annotations

import numpy as np

_ROUNDS = 4


def permuted(index: np.ndarray, n: int, seed: int, epoch: int) -> np.ndarray:
    """The images of `index` under a pseudo-random permutation of range(n), without building it.

    A balanced Feistel network over the next even power of two, walked until the image lies below n.
    """
    half = (max(int(n - 1).bit_length(), 2) + 1) // 2
    mask = np.uint64((1 << half) - 1)
    keys = _keys(seed, epoch, _ROUNDS)

    def walk(x: np.ndarray) -> np.ndarray:
        left, right = x >> np.uint64(half), x & mask
        for key in keys:
            left, right = right, left ^ (_mix(right ^ key) & mask)
        return (left << np.uint64(half)) | right

    out = walk(index.astype(np.uint64))
    while (outside := out >= n).any():
        out[outside] = walk(out[outside])
    return out.astype(np.int64)


def uniforms(rows: np.ndarray, columns: int, seed: int, stream: int) -> np.ndarray:
    """Numbers in (0, 1) of shape (len(rows), columns): those of a row depend on (seed, stream, row) only."""
    first, second = _keys(seed, stream, 2)
    counter = rows.astype(np.uint64)[:, None] * np.uint64(columns) + np.arange(columns, dtype=np.uint64)
    bits = _mix(_mix(counter ^ first) + second)
    return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def normals(rows: np.ndarray, seed: int, stream: int) -> np.ndarray:
    """Standard normals of shape (len(rows),) by the transform of Box and Muller."""
    u = uniforms(rows, 2, seed, stream)
    return np.sqrt(-2.0 * np.log(u[:, 0])) * np.cos(2.0 * np.pi * u[:, 1])


def _keys(seed: int, stream: int, count: int) -> np.ndarray:
    return np.random.Generator(np.random.Philox(key=[seed, stream])).integers(0, 1 << 63, count, np.uint64)


def _mix(x: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: a cheap hash of 64 bits."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
