"""Which rows a step sees: epochs without replacement, keyed by (seed, epoch) alone.

The rows of a step do not depend on whether the data is resident or streamed, nor on how steps are grouped,
so a resumed run sees the same minibatches.
"""

from __future__ import annotations

import numpy as np

from dgpbench.keyed_random import permuted

EXPLICIT_LIMIT = 1 << 24  # above this many rows a permutation is computed row by row, never held in memory


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
