"""Minibatches: which rows a step sees, and how they reach the trainer.

Epochs are permutations without replacement, keyed by (seed, epoch) alone. The rows of a step do not depend on
whether the data is resident or streamed, nor on how steps are grouped, so that a resumed run sees the same
minibatches.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from dgpbench.keyed_random import permuted

EXPLICIT_LIMIT = 1 << 24  # above this many rows a permutation is computed row by row, never held in memory


class Batches:
    """Minibatches of `batch` out of `num_data` rows; the remainder of an epoch is dropped."""

    def __init__(self, num_data: int, batch: int, seed: int):
        self.num_data, self.batch, self.seed = num_data, min(batch, num_data), seed
        self.per_epoch = num_data // self.batch
        self._epoch, self._order = -1, None

    @property
    def full(self) -> bool:
        return self.batch == self.num_data

    def rows(self, start: int, steps: int) -> np.ndarray:
        """Return the row numbers (steps, B) of `steps` steps from `start`."""
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


MAX_BLOCK_ROWS = 2_000_000  # row numbers in one block
MAX_STREAM_BYTES = 64 << 20


class Feed:
    """Hands minibatches to the trainer: row numbers of resident data, the rows of streamed data."""

    def __init__(self, trainer, batches: Batches, take: Callable | None):
        self.trainer, self.batches, self.take = trainer, batches, take
        self.pool = ThreadPoolExecutor(1) if take else None
        self.ahead: tuple[tuple[int, int], object] | None = None

    def limit(self, size: int) -> int:
        rows = MAX_BLOCK_ROWS
        if self.take:
            rows = MAX_STREAM_BYTES // (8 * self.trainer.row_width)
        return max(1, min(size, rows // self.batches.batch))

    def run(self, start: int, steps: int) -> dict:
        if self.take is None:
            empty = np.zeros((steps, 0), np.int32)
            return self.trainer.run(start, empty if self.batches.full else self.batches.rows(start, steps))
        if self.ahead and self.ahead[0] == (start, steps):
            X, Y = self.ahead[1].result()
        else:
            X, Y = self._read(start, steps)
        follow = (start + steps, steps)
        self.ahead = (follow, self.pool.submit(self._read, *follow))
        return self.trainer.run_streamed(start, X, Y)

    def _read(self, start: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
        rows = self.batches.rows(start, steps) if not self.batches.full else None
        order = np.tile(np.arange(self.batches.num_data), steps) if rows is None else rows.reshape(-1)
        X, Y = self.take(order)
        shape = (steps, self.batches.batch)
        return X.reshape(*shape, -1), Y.reshape(*shape, -1)

    def close(self) -> None:
        if self.pool:
            self.pool.shutdown(cancel_futures=True)
