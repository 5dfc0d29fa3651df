"""L^-1 of K = L L^T in operations that XLA compiles well on a processor, for programs that it takes whole.

XLA's own Cholesky runs column by column: 20 ms for M = 225 where LAPACK takes half a millisecond. Here small
matrices are eliminated row by row in one loop, larger ones in halves by products. A matrix that is not
positive definite gives NaN, no error.
"""

from __future__ import annotations

import tensorflow as tf

LEAF = 32  # side up to which a loop over rows is faster than products of halves


def inverse_cholesky(K: tf.Tensor) -> tf.Tensor:
    """L^-1 (M, M). With K = [A B^T; B C]: L^-1 = [A' 0; -S' W A' S'], A' that of A, W = B A'^T and S' that of
    C - W W^T."""
    if (M := K.shape[0]) <= LEAF:
        return _eliminated(K)
    half = LEAF * -(-M // (2 * LEAF))
    top = inverse_cholesky(K[:half, :half])
    W = tf.matmul(K[half:, :half], top, transpose_b=True)
    low = inverse_cholesky(K[half:, half:] - tf.matmul(W, W, transpose_b=True))
    left = tf.concat([top, -tf.matmul(low, tf.matmul(W, top))], 0)
    return tf.concat([left, tf.pad(low, [(half, 0), (0, 0)])], 1)


def _eliminated(K: tf.Tensor) -> tf.Tensor:
    """The same by Gauss's elimination of [K I] in the place of K, two pivots at a time: column j of I takes
    the place of column j of K, which is done with. Below the pivots then stand the rows of L^-1, each still
    to be divided by the root of its pivot."""
    M = K.shape[0]
    zero, one, rows = tf.zeros((), K.dtype), tf.ones((), K.dtype), tf.range(M)

    def below(j, column, pivot):
        return tf.where(rows > j, column / pivot, zero)

    def eliminate(i, W):  # W M, M
        j, k = 2 * i, 2 * i + 1
        first = below(j, W[:, j], W[j, j])
        upper = tf.where(rows == j, W[j] + one, W[j])
        row, column = W[k] - first[k] * upper, W[:, k] - first * upper[k]  # as the first pivot leaves them
        second, lower = below(k, column, row[k]), tf.where(rows == k, row + one, row)
        return i + 1, W - first[:, None] * upper - second[:, None] * lower

    _, W = tf.while_loop(lambda i, _: i < M // 2, eliminate, (0, K), maximum_iterations=M // 2)
    unit = tf.linalg.set_diag(tf.linalg.band_part(W, -1, 0), tf.ones((M,), K.dtype))
    return unit / tf.sqrt(tf.linalg.diag_part(W))[:, None]
