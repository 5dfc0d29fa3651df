"""Which rows a step sees: epochs without replacement, keyed by (seed, epoch) alone.

The rows of a step do not depend on whether the data is resident or streamed, nor on how steps are grouped,
so a resumed run sees the same minibatches.
"""

from __future__ import annotations

import numpy as np

EXPLICIT_LIMIT = 1 << 24  # above this many rows a permutation is computed row by row, never held in memory
_ROUNDS = 4


class Batches:
    """Minibatches of `batch` rows out of `num_data`; the remainder of an epoch is dropped."""

    def __init__(self, num_data: int, batch: int, seed: int):
        self.num_data, self.batch, self.seed = num_data, min(batch, num_data), seed
        self.per_epoch = num_data // self.batch
        self._epoch, self._order = -1, None

    @property
    def full(self) -> bool:
        return self.batch == self.num_data

    def rows(self, start: int, steps: int) -> np.ndarray:
        """Row numbers (steps, B) of the steps from `start` on."""
        return np.stack([self._one(step) for step in range(start, start + steps)])

    def _one(self, step: int) -> np.ndarray:
        epoch, position = divmod(step, self.per_epoch)
        first = position * self.batch
        if self.num_data > EXPLICIT_LIMIT:
            return permuted(np.arange(first, first + self.batch), self.num_data, self.seed, epoch)
        if epoch != self._epoch:
            generator = np.random.Generator(np.random.Philox(key=[self.seed, epoch]))
            self._epoch, self._order = epoch, generator.permutation(self.num_data)
        return self._order[first : first + self.batch]


def permuted(index: np.ndarray, n: int, seed: int, epoch: int) -> np.ndarray:
    """The images of `index` under a pseudo-random permutation of range(n), without building it.

    A balanced Feistel network over the next even power of two, walked until the image lies below n.
    """
    half = (max(int(n - 1).bit_length(), 2) + 1) // 2
    mask = np.uint64((1 << half) - 1)
    keys = np.random.Generator(np.random.Philox(key=[seed, epoch])).integers(0, 1 << 63, _ROUNDS, np.uint64)

    def walk(x: np.ndarray) -> np.ndarray:
        left, right = x >> np.uint64(half), x & mask
        for key in keys:
            left, right = right, left ^ (_mix(right ^ key) & mask)
        return (left << np.uint64(half)) | right

    out = walk(index.astype(np.uint64))
    while (outside := out >= n).any():
        out[outside] = walk(out[outside])
    return out.astype(np.int64)


def _mix(x: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: a cheap hash of 64 bits."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
