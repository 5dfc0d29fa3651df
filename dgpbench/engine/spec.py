"""What shapes a compiled training step, and how its batch is cut into chunks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dgpbench.engine.platform import tf
from dgpbench.inference.bounds import VI, Bound
from dgpbench.models.deep_gp import DeepGP
from dgpbench.models.layers import cheaper_form

CHUNK_BYTES = 4 << 20  # of k(Z, H) of a chunk, the largest array that grows with M only
MIN_CHUNK = 128  # columns below which a batch is not split between threads


@dataclass(frozen=True)
class StepSpec:
    """Everything that shapes the compiled step."""

    model: DeepGP
    shapes: tuple[tuple[str, tuple[int, ...]], ...]  # of every parameter, trainable or not
    fixed: frozenset[str]  # names that stay as they are
    batch: int
    full_batch: bool
    bound: Bound = VI
    optimiser: str = "adam"
    parameterisation: str = "natural"
    alternate: bool = False
    direction: str | None = None  # of a line search (search.py); None: steps follow their schedule
    precision: str = "float64"
    chunk_rows: int = 2000
    threads: int = 1
    xla: bool = True
    device: str = "/CPU:0"

    @property
    def natural_layers(self) -> tuple[int, ...]:
        gps = self.model.gps
        return {"adam": (), "gd": (), "ngd_adam": gps[-1:], "ngd_all": gps}[self.optimiser]

    @property
    def param_dtype(self) -> tf.DType:
        return tf.float32 if self.precision == "float32" else tf.float64

    @property
    def batch_dtype(self) -> tf.DType:
        return tf.float64 if self.precision == "float64" else tf.float32

    @property
    def forms(self) -> tuple[str, ...]:
        """Of each layer: what costs least in float64, the cheaper of the safe ones in less (layers.py)."""
        model = self.model
        spread = self.bound.columns if model.latent else self.bound.samples
        before = self.batch * self.bound.samples  # columns in front of the first latent layer

        def form(i: int) -> str:
            if i not in model.gps:
                return "white"
            behind = model.latent and i > model.latent[0]
            columns = self.batch * spread if behind else before
            return cheaper_form(model.layers[i], columns, self.precision == "float64")

        return tuple(form(i) for i in range(len(model.layers)))

    @property
    def chunks(self) -> list[int]:
        """Rows of a minibatch that go through the batch part together."""
        widest = max(self.model.layers[i].num_inducing for i in self.model.gps)
        limit = min(self.chunk_rows, CHUNK_BYTES // (widest * self.batch_dtype.size))
        return chunk_sizes(self.batch, max(1, limit // self.bound.columns), self.threads)

    @property
    def draws(self) -> int:
        """Standard normals for each row of a minibatch and each of the model's noise dimensions."""
        return self.bound.samples if self.bound.kind == "optimal" else self.bound.columns


def chunk_sizes(batch: int, limit: int, threads: int) -> list[int]:
    """Sizes of the column chunks of a batch: at most about `limit`, so that they fit the cache, and enough of
    them to keep every thread busy, since chunks run side by side. Equal sizes where possible: each size is
    compiled once."""
    threads = threads if batch >= threads * MIN_CHUNK else 1
    least = -(-batch // limit)
    least += -least % threads
    count = next((n for n in range(least, 2 * least + 1, threads) if batch % n == 0), least)
    return [len(part) for part in np.array_split(np.arange(batch), count)]
