"""Minibatches for the trainer: row numbers of resident data, the rows themselves of streamed data."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from dgpbench.engine.batches import Batches

MAX_BLOCK_ROWS = 2_000_000  # row numbers handed over with one block
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
