"""Sums over inducing points, and sums of weighted squares sum_b g_pb a_b a_b^T (P, M, M), the largest product
of a gradient.

The latter is symmetric. It is computed in block rows, from the first column to the diagonal, and what lies
above is copied: 3/8 less to multiply with four blocks. With one output and a small matrix the products get
too thin for that to pay.
"""

from __future__ import annotations

import tensorflow as tf

BLOCKS = 4  # of a matrix
MIN_SIZE, MIN_SIZE_ALONE = 64, 256  # the side from which there are blocks, with several outputs and with one


def block_ends(P: int, M: int) -> list[int]:
    """The last rows, exclusive, of the blocks of P matrices of side M."""
    count = BLOCKS if M >= (MIN_SIZE if P > 1 else MIN_SIZE_ALONE) else 1
    return [M * (i + 1) // count for i in range(count)]


def weighted_squares(A: tf.Tensor, g: tf.Tensor) -> tf.Tensor:
    """sum_b g_pb a_b a_b^T for A (M, B) and g (P, B)."""
    (P, B), M, parts, start = g.shape, A.shape[0], [], 0
    for end in block_ends(P, M):
        rows = tf.reshape(A[start:end] * g[:, None, :], (P * (end - start), B))
        part = tf.matmul(rows, A[:end], transpose_b=True)
        parts.append(tf.reshape(part, (P, end - start, end)))
        start = end
    return from_blocks(parts)


def from_blocks(parts: list[tf.Tensor]) -> tf.Tensor:
    """The symmetric matrices (..., M, M) whose block rows (..., rows, columns to the diagonal) these are."""
    full, start = [], 0
    for i, part in enumerate(parts):
        end = part.shape[-1]
        right = [tf.linalg.matrix_transpose(row[..., start:end]) for row in parts[i + 1 :]]
        full.append(tf.concat([part, *right], -1))
        start = end
    return tf.concat(full, -2)


def sum_over_inducing(A: tf.Tensor) -> tf.Tensor:
    """The sum of A (P, M, B) over M in blocks of 32 rows, which XLA fuses with whatever makes A; a longer sum
    it takes apart and writes A to memory first."""
    blocks = [tf.reduce_sum(A[:, i : i + 32], 1) for i in range(0, A.shape[1], 32)]
    return sum(blocks[1:], blocks[0])
