"""The work that is timed: shapes and data, the same for every system. Needs only NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from dgpbench.errors import UserError

MIXED_GPS = 5  # of an inner layer of the IWVI paper
BATCHES_OF_DATA = 4  # training rows per row of a minibatch


@dataclass(frozen=True)
class Case:
    """A sparse (depth 1) or deep GP trained with doubly stochastic variational inference and Adam.

    With `latent` dimensions at the input it is the IWVI paper's: inner layers of mixed GPs, the last layer by
    natural gradients, and as many importance samples as `importance` says (0: plain variational inference).
    `own`: every output of an inner layer has its own kernel and inducing inputs, and a learned linear mean.
    """

    name: str
    batch: int
    inputs: int
    width: int  # outputs of each inner layer
    num_inducing: int
    depth: int
    latent: int = 0
    importance: int = 0
    own: bool = False

    @property
    def num_data(self) -> int:
        return BATCHES_OF_DATA * self.batch

    @property
    def widths(self) -> list[int]:
        """Dimensions from the inputs and latents to the single output."""
        return [self.inputs + self.latent, *[self.width] * (self.depth - 1), 1]

    @property
    def gps(self) -> list[int]:
        """GPs of each layer: as many as outputs, but for mixed ones."""
        inner = min(MIXED_GPS, self.width) if self.latent else self.width
        return [inner] * (self.depth - 1) + [1]

    @property
    def columns(self) -> int:
        """Columns of a minibatch that pass through the layers."""
        return self.batch * max(self.importance, 1)

    def to_dict(self) -> dict:
        return asdict(self)

    def data(self, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """X (N, D), Y (N, 1) and inducing inputs Z (M, D)."""
        random = np.random.RandomState(0)
        X = random.randn(self.num_data, self.inputs)
        Y = np.sin(X @ random.randn(self.inputs, 1)) + 0.1 * random.randn(self.num_data, 1)
        Z = X[: self.num_inducing].copy()
        return X.astype(dtype), Y.astype(dtype), Z.astype(dtype)


def principal_map(X: np.ndarray, count: int) -> np.ndarray:
    """The map (D, count) to the first principal axes: inner mean function where the width shrinks."""
    part = X[:2000]
    return np.linalg.svd(part - part.mean(0), full_matrices=False)[2][:count].T.copy()


def _standard_cases() -> dict[str, Case]:
    """(a) the timing table of the DSVI paper, (b) a set of the shape of kin8nm, (c) the IWVI paper's."""
    cases = []
    for group, batch, width in (("a", 10_000, 1), ("b", 1000, 8)):
        cases.append(Case(f"{group}-sgp", batch, 8, width, 100, 1))
        cases.append(Case(f"{group}-sgp500", batch, 8, width, 500, 1))
        cases += [Case(f"{group}-dgp{depth}", batch, 8, width, 100, depth) for depth in (2, 3, 4, 5)]
    cases.append(Case("c-lvgpgp", 512, 8, 9, 128, 2, latent=1))
    return {case.name: case for case in cases}


CASES = _standard_cases()


def select(names: Sequence[str], known: Sequence[str], what: str) -> list[str]:
    """Names in `known` that are given, or begin with a given word before a hyphen; all if none is given."""
    words = [word for name in names for word in name.split(",") if word]
    chosen: list[str] = []
    for word in words:
        found = [word] if word in known else [name for name in known if name.startswith(f"{word}-")]
        if not found:
            raise UserError(f"unknown {what} '{word}'; there are {', '.join(known)}")
        chosen += found
    return [name for name in known if name in chosen] if words else list(known)
