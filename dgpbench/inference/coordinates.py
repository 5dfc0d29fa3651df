"""Coordinates in which q(u) is stored and moved: whitened, v, or direct, u = L v with K_zz = L L^T.

Natural gradients are taken of q(v). Parameters xi of u are linear in those of v under natural, meanvar and
meanvar_sqrt, so that a natural step is the same step in both; not so under the other three.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import tensorflow as tf

from dgpbench.gp.parameters import constrain, scope

if TYPE_CHECKING:
    from dgpbench.gp.deep_gp import DeepGP
    from dgpbench.inference.base import Oracle

Pair = tuple[tf.Tensor, tf.Tensor]


class White:
    """What is stored is q(v) itself."""

    def white(self, m: tf.Tensor, R: tf.Tensor) -> Pair:
        """Mean (P, M) and lower root (P, M, M) of v from what is stored."""
        return m, R

    def stored(self, m: tf.Tensor, R: tf.Tensor) -> Pair:
        """The inverse of `white`."""
        return m, R

    def inward(self, parameterisation: str, x1: tf.Tensor, x2: tf.Tensor) -> Pair:
        """xi of v from xi of what is stored."""
        return x1, x2

    def outward(self, parameterisation: str, x1: tf.Tensor, x2: tf.Tensor) -> Pair:
        """The inverse of `inward`; linear, so that it also maps directions."""
        return x1, x2

    def gradient(self, parameterisation: str, d1: tf.Tensor, d2: tf.Tensor) -> Pair:
        """The ordinary gradient in xi of what is stored, from that in xi of v."""
        return d1, d2


@dataclass(frozen=True)
class Direct(White):
    """What is stored is q(u); `root` is L (M, M), or (P, M, M) where each output has its own."""

    root: tf.Tensor

    def white(self, m, R):
        return self.inward("meanvar_sqrt", m, R)

    def stored(self, m, R):
        return self.outward("meanvar_sqrt", m, R)

    def inward(self, parameterisation, x1, x2):
        if parameterisation == "natural":  # theta_1 = S^-1 m, theta_2 = -S^-1 / 2
            return _apply(self.root, x1, x2, both=True, transpose=True)
        return _apply(self._inverse, x1, x2, both=parameterisation == "meanvar")

    def outward(self, parameterisation, x1, x2):
        if parameterisation == "natural":
            return _apply(self._inverse, x1, x2, both=True, transpose=True)
        return _apply(self.root, x1, x2, both=parameterisation == "meanvar")

    def gradient(self, parameterisation, d1, d2):
        if parameterisation == "natural":
            return _apply(self.root, d1, d2, both=True)
        d1, d2 = _apply(self._inverse, d1, d2, both=parameterisation == "meanvar", transpose=True)
        return d1, d2 if parameterisation == "meanvar" else tf.linalg.band_part(d2, -1, 0)

    @property
    def _inverse(self) -> tf.Tensor:
        *outputs, M, _ = self.root.shape
        return tf.linalg.triangular_solve(self.root, tf.eye(M, batch_shape=outputs, dtype=self.root.dtype))


def _apply(A: tf.Tensor, x1: tf.Tensor, x2: tf.Tensor, both: bool, transpose: bool = False) -> Pair:
    """A x1 and A x2, or A x2 A^T where it acts from `both` sides; A^T for A under `transpose`."""
    if A.shape.rank == 3:
        first = tf.linalg.matvec(A, x1, transpose_a=transpose)
    else:
        first = tf.matmul(x1, A, transpose_b=not transpose)
    second = tf.matmul(A, x2, transpose_a=transpose)
    return first, tf.matmul(second, A, transpose_b=not transpose) if both else second


def coordinates(model: DeepGP, layer: int, whitened: bool, oracle: Oracle) -> White:
    """Those of one layer's q(u) at the present kernel and Z."""
    if whitened:
        return White()
    raw = scope({name: v.read_value() for name, v in oracle.raw.items()}, f"layer{layer}")
    p = constrain(raw, model.layers[layer].constraints())
    return Direct(tf.linalg.cholesky(model.layers[layer].gram(p, oracle.jitter)))
