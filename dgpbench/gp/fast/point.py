"""The form of a layer whose q(u) is a point, S = 0, as samplers have it (forms.py has the others).

    mean = alpha A,   var = k(h, h) - A^T A,   A = L^-1 k(Z, h),
with one large product forward and two in the gradient, each over a triangle. It serves a program that XLA
compiles as a whole as well, where no native Cholesky is to be had (elimination.py).
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from dgpbench.gp.fast import elimination
from dgpbench.gp.fast.fence import Fenced, fence
from dgpbench.gp.fast.symmetric import from_blocks, sum_over_inducing
from dgpbench.gp.fast.whitening import inverse_cholesky, through_cholesky

BLOCK = 64  # rows at least of the blocks in which a triangle is multiplied


def _blocks(M: int) -> list[tuple[int, int]]:
    """First and last rows, the latter exclusive, of at most four blocks."""
    count = max(1, min(4, M // BLOCK))
    ends = [M * i // count for i in range(count + 1)]
    return list(zip(ends, ends[1:], strict=False))


def _lower(Linv: tf.Tensor, K: tf.Tensor) -> tf.Tensor:
    """L^-1 K (M, B)."""
    return tf.concat([tf.matmul(Linv[a:b, :b], K[:b]) for a, b in _blocks(K.shape[0])], 0)


def _upper(Linv: tf.Tensor, G: tf.Tensor) -> tf.Tensor:
    """L^-T G (M, B)."""
    parts = [tf.matmul(Linv[a:, a:b], G[a:], transpose_a=True) for a, b in _blocks(G.shape[0])]
    return tf.concat(parts, 0)


def _squares(A: tf.Tensor, g: tf.Tensor) -> tf.Tensor:
    """sum_b g_b a_b a_b^T (M, M) for g (1, B)."""
    parts = [tf.matmul(A[a:b] * g, A[:b], transpose_b=True) for a, b in _blocks(A.shape[0])]
    return from_blocks(parts)


@tf.custom_gradient
def moments(K: tf.Tensor, Linv: tf.Tensor, alpha: tf.Tensor, C: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """alpha A (P, B) and -a_b^T a_b (1, B) for K (M, B). C (M, M) = -I is there for its gradient; L^-1 has
    none here."""
    A = _lower(Linv, K)  # M, B

    def gradient(g_mean, g_quad):
        dA = tf.matmul(alpha, g_mean, transpose_a=True) - 2.0 * A * g_quad
        return _upper(Linv, dA), None, tf.matmul(g_mean, A, transpose_b=True), _squares(A, g_quad)

    return (tf.matmul(alpha, A), -sum_over_inducing(tf.square(A)[None])), gradient


def whitening(K: tf.Tensor, alpha: tf.Tensor, compiled: bool) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """L^-1 of K = L L^T, alpha (P, M) as it is, and C = -I: what `moments` reads. The gradient in L^-1
    follows from those in alpha and C, as in whitening.py: dA A^T = alpha^T dalpha - 2 dC."""

    @tf.custom_gradient
    def made(K, alpha):
        Linv = (elimination.inverse_cholesky if compiled else inverse_cholesky)(K)

        def gradient(_, d_alpha, d_C):
            dA_At = tf.matmul(alpha, d_alpha, transpose_a=True) - 2.0 * d_C
            return through_cholesky(-dA_At, Linv), d_alpha

        return (Linv, tf.identity(alpha), -tf.eye(K.shape[0], dtype=K.dtype)), gradient

    return made(K, alpha)


class Point(NamedTuple):
    Linv: Fenced
    alpha: tf.Tensor
    C: tf.Tensor  # M, M

    def moments(self, K: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """alpha A (P, B) and -A^T A (1, B) for K = k(Z, H) (M, B)."""
        return moments(K, self.Linv.value, self.alpha, self.C)


def make(Kzz: tf.Tensor, mean: tf.Tensor, compiled: bool) -> Point:
    """The form of a layer with inducing outputs `mean` (P, M), whitened."""
    Linv, alpha, C = whitening(Kzz, mean, compiled)
    return Point(Fenced(fence(Linv)), alpha, C)
