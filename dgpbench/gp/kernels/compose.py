"""Sums, products and kernels of some of the inputs."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np
import tensorflow as tf

from dgpbench.gp.kernels.base import Kernel, Prepared
from dgpbench.gp.kernels.covariances import White
from dgpbench.gp.parameters import Constraint


@dataclass(frozen=True)
class Combination(Kernel):
    """Several kernels of the same inputs; prepared for all of them, in a tuple."""

    parts: tuple[Kernel, ...]

    @property
    def input_dim(self) -> int:  # type: ignore[override]  # that of its parts
        return self.parts[0].input_dim

    @property
    def stackable(self) -> bool:  # type: ignore[override]  # if its parts are
        return all(part.stackable for part in self.parts)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts for name in part.names)

    def initial(self, variance: float, lengthscale: float, white: float) -> dict[str, np.ndarray]:
        out: dict[str, np.ndarray] = {}
        for i, part in enumerate(self.parts):
            out |= part.initial(1.0 if i else variance, lengthscale, white)
        return out

    def constraints(self) -> dict[str, Constraint]:
        return {name: c for part in self.parts for name, c in part.constraints().items()}

    def prepare(self, p: dict[str, tf.Tensor], Z: tf.Tensor) -> Prepared:
        return tuple(part.prepare(p, Z) for part in self.parts)


class Sum(Combination):
    """k_1 + k_2 + ... White noise among them adds to the diagonal only."""

    def __str__(self) -> str:
        return "+".join(map(str, self.parts))

    def gram(self, prepared: Prepared) -> tf.Tensor:
        pairs = list(zip(self.parts, prepared, strict=True))
        total = _added(part.gram(q) for part, q in pairs if not part.noise)
        for part, q in pairs:
            total = part.on_diagonal(q, total) if isinstance(part, White) else total
        return total

    def cross(self, prepared: Prepared, H: tf.Tensor) -> tf.Tensor:
        return _added(k.cross(q, H) for k, q in zip(self.parts, prepared, strict=True) if not k.noise)

    def cross_rows(self, prepared: Prepared, H: tf.Tensor) -> tf.Tensor:
        return _added(k.cross_rows(q, H) for k, q in zip(self.parts, prepared, strict=True) if not k.noise)

    def diagonal(self, prepared: Prepared, H: tf.Tensor) -> tf.Tensor:
        return _added(k.diagonal(q, H) for k, q in zip(self.parts, prepared, strict=True))

    def between(self, prepared: Prepared, left: tf.Tensor, right: tf.Tensor, same: tf.Tensor) -> tf.Tensor:
        return _added(k.between(q, left, right, same) for k, q in zip(self.parts, prepared, strict=True))


class Product(Combination):
    """k_1 k_2 ..."""

    def __str__(self) -> str:
        return "*".join(f"/{part}/" if isinstance(part, Sum) else str(part) for part in self.parts)

    def gram(self, prepared: Prepared) -> tf.Tensor:
        return _multiplied(k.gram(q) for k, q in zip(self.parts, prepared, strict=True))

    def cross(self, prepared: Prepared, H: tf.Tensor) -> tf.Tensor:
        each = zip(self.parts, prepared, copies(H, len(self.parts)), strict=True)
        return _multiplied(k.cross(q, h) for k, q, h in each)

    def cross_rows(self, prepared: Prepared, H: tf.Tensor) -> tf.Tensor:
        each = zip(self.parts, prepared, copies(H, len(self.parts)), strict=True)
        return _multiplied(k.cross_rows(q, h) for k, q, h in each)

    def diagonal(self, prepared: Prepared, H: tf.Tensor) -> tf.Tensor:
        each = zip(self.parts, prepared, copies(H, len(self.parts)), strict=True)
        return _multiplied(k.diagonal(q, h) for k, q, h in each)

    def between(self, prepared: Prepared, left: tf.Tensor, right: tf.Tensor, same: tf.Tensor) -> tf.Tensor:
        n = len(self.parts)
        each = zip(self.parts, prepared, copies(left, n), copies(right, n), strict=True)
        return _multiplied(k.between(q, a, b, same) for k, q, a, b in each)


@dataclass(frozen=True)
class Active(Kernel):
    """A kernel of the inputs `dims` only, each named once, in this order."""

    kernel: Kernel
    dims: tuple[int, ...]
    input_dim: int

    def __str__(self) -> str:
        first, end = self.dims[0], self.dims[-1] + 1
        inner = f"/{self.kernel}/" if isinstance(self.kernel, Combination) else str(self.kernel)
        if len(self.dims) > 1 and self.dims == tuple(range(first, end)):
            return f"{inner}@{first}:{end}"
        return inner + "".join(f"@{d}" for d in self.dims)

    @property
    def names(self) -> tuple[str, ...]:
        return self.kernel.names

    def initial(self, variance: float, lengthscale: float, white: float) -> dict[str, np.ndarray]:
        return self.kernel.initial(variance, lengthscale, white)

    def constraints(self) -> dict[str, Constraint]:
        return self.kernel.constraints()

    def prepare(self, p: dict[str, tf.Tensor], Z: tf.Tensor) -> Prepared:
        return self.kernel.prepare(p, chosen(Z, self.dims, 1))

    def gram(self, prepared: Prepared) -> tf.Tensor:
        return self.kernel.gram(prepared)

    def cross(self, prepared: Prepared, H: tf.Tensor) -> tf.Tensor:
        return self.kernel.cross(prepared, chosen(H, self.dims, 0))

    def cross_rows(self, prepared: Prepared, H: tf.Tensor) -> tf.Tensor:
        return self.kernel.cross_rows(prepared, chosen(H, self.dims, 1))

    def diagonal(self, prepared: Prepared, H: tf.Tensor) -> tf.Tensor:
        return self.kernel.diagonal(prepared, chosen(H, self.dims, 0))

    def between(self, prepared: Prepared, left: tf.Tensor, right: tf.Tensor, same: tf.Tensor) -> tf.Tensor:
        a, b = (chosen(points, self.dims, 0) for points in (left, right))
        return self.kernel.between(prepared, a, b, same)


def with_white(kernel: Kernel) -> Kernel:
    """`kernel` with white noise; itself if it has some."""
    if "white" in kernel.names:
        return kernel
    parts = kernel.parts if isinstance(kernel, Sum) else (kernel,)
    return Sum((*parts, White("white", kernel.input_dim)))


def _added(terms: Iterable[tf.Tensor]) -> tf.Tensor:
    return sum(terms)  # from 0: how many operations there are decides in which order gradients are added


def _multiplied(factors: Iterable[tf.Tensor]) -> tf.Tensor:
    return reduce(operator.mul, factors)


def copies(H: tf.Tensor, n: int) -> list[tf.Tensor]:
    """H n times, by twos, so that no tensor gets more than two gradients to add (covariances.py)."""
    H = tf.identity(H)
    return [H] if n == 1 else copies(H, n // 2) + copies(H, n - n // 2)


def chosen(points: tf.Tensor, dims: tuple[int, ...], axis: int) -> tf.Tensor:
    """The entries `dims` of one axis. The gradient puts each back in its place, with zeros between."""
    back = [dims.index(d) if d in dims else len(dims) for d in range(points.shape[axis])]

    @tf.custom_gradient
    def take(points):
        def gradient(G):
            zero = tf.zeros_like(tf.gather(G, [0], axis=axis))
            return tf.gather(tf.concat([G, zero], axis), back, axis=axis)

        return tf.gather(points, dims, axis=axis), gradient

    return take(points)
