"""The structure of a compiled training step: its batch cut into chunks, and whether it fits in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dgpbench.engine.platform import tf
from dgpbench.errors import UserError
from dgpbench.inference.base import Bound, Update, Whole

CHUNK_BYTES = 4 << 20  # of k(Z, H) of a chunk, the largest array that grows with M only
MIN_CHUNK = 128  # columns below which a batch is not split between threads


@dataclass(frozen=True)
class StepSpec:
    """Everything that determines the compiled step."""

    bound: Bound | Whole
    update: Update
    shapes: tuple[tuple[str, tuple[int, ...]], ...]  # of every parameter, trainable or not
    fixed: frozenset[str]  # parameters that are not trained
    batch: int
    full_batch: bool
    precision: str = "float64"
    chunk_rows: int = 2000
    threads: int = 1
    xla: bool = True
    device: str = "/CPU:0"
    compile_step: bool = False  # XLA compiles the whole step, on a GPU, where its Cholesky is not slower

    @property
    def trainable(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the trained parameters."""
        return {name: shape for name, shape in self.shapes if name not in self.fixed}

    @property
    def param_dtype(self) -> tf.DType:
        return tf.float32 if self.precision == "float32" else tf.float64

    @property
    def batch_dtype(self) -> tf.DType:
        """Precision of the batch part; a whole objective has one precision."""
        return tf.float32 if self.precision == "mixed" and not self.bound.whole else self.param_dtype

    @property
    def forms(self) -> tuple[str, ...] | None:
        """Form of each layer: the cheapest in float64, the cheapest safe one in lower precision."""
        return self.bound.forms(self.batch, self.batch_dtype == tf.float64)

    @property
    def chunks(self) -> list[int]:
        """Sizes of the chunks in which the rows of a minibatch pass through the batch part.

        There is one chunk on a GPU, which has no core's cache to fit into and no threads to share the work,
        and for bounds that are not divisible.
        """
        if "GPU" in self.device or not self.bound.divisible:
            return [self.batch]
        limit = min(self.chunk_rows, CHUNK_BYTES // (self.bound.tallest * self.batch_dtype.size))
        return chunk_sizes(self.batch, max(1, limit // self.bound.columns), self.threads)


def step_spec(
    cfg: dict, bound: Bound, update, raw: dict, fixed: set, batch: int, full: bool, threads: int, device: str
) -> StepSpec:
    """Return the structure of the compiled step of a config."""
    engine = cfg["engine"]
    return StepSpec(
        bound=bound,
        update=update,
        shapes=tuple((name, v.shape) for name, v in raw.items()),
        fixed=frozenset(fixed),
        batch=batch,
        full_batch=full,
        precision="float64" if bound.exact else cfg["precision"],
        chunk_rows=engine["chunk_rows"],
        threads=threads,
        xla=(xla := engine["xla"] in ("auto", True) and bound.compiles),
        device=device,
        compile_step=xla and "GPU" in device and not update.host,
    )


def chunk_sizes(batch: int, limit: int, threads: int) -> list[int]:
    """Return the sizes of the column chunks of a batch.

    A chunk has at most about `limit` columns, so that it fits into the cache. Chunks run in parallel, so that
    there are enough for every thread. Sizes are equal where possible, because each size is compiled once.
    """
    threads = threads if batch >= threads * MIN_CHUNK else 1
    least = -(-batch // limit)
    least += -least % threads
    count = next((n for n in range(least, 2 * least + 1, threads) if batch % n == 0), least)
    return [len(part) for part in np.array_split(np.arange(batch), count)]


NUMBER = 8  # bytes
KEPT = 6  # arrays of a sample that are kept for the gradient, for each that the sample has


def sample_bytes(bound: Bound, batch: int) -> int:
    """Estimate the memory of one sample of a bound in a step: columns, and the M x M part if it is drawn."""
    columns = batch * (max(bound.noise_dim, 1) + bound.input_dim + bound.target_dim + bound.column_numbers)
    return NUMBER * KEPT * (columns + bound.drawn_numbers) * (bound.columns // bound.samples)


def available() -> int:
    """Return the free memory of this machine in bytes."""
    import psutil

    return psutil.virtual_memory().available


def check_samples(bound: Bound, batch: int) -> None:
    """Raise UserError if the samples of a step do not fit into memory; say how many do."""
    each, free = sample_bytes(bound, batch), available()
    needed = bound.samples * each
    if needed > free:
        raise UserError(
            f"inference.samples={bound.samples} takes about {needed / 1e9:,.0f} GB in each step and "
            f"{free / 1e9:,.1f} GB are free; at most {max(free // each, 1):,} fit"
        )
