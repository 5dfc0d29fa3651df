"""Block products of M x M matrices that are symmetric or triangular, and sums over inducing points.

Sums of weighted squares, sum_b g_pb a_b a_b^T (P, M, M), are the largest product of a gradient. They are
symmetric: block rows are computed from the first column to the diagonal, and the rest is copied. Four blocks
save 3/8 of the multiplications, products with triangles 3/8 to 11/16. One output with a small matrix is a
single block, because its products would become too thin.
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


def product(
    A: tf.Tensor,
    B: tf.Tensor,
    a: str = "full",
    b: str = "full",
    out: str = "full",
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> tf.Tensor:
    """A B. `a` and `b` say what is known of the factors as they are multiplied, after a transposition:
    full | lower | upper (triangular); `out` of the result: full | symmetric | lower, where the last asks for
    its lower triangle only, and anything may stand above.
    """
    by_columns = a == "full" and b != "full" and out != "symmetric"
    ends, everything = block_ends(1, B.shape[-1]), slice(None)
    parts, start = [], 0
    for end in ends:
        here, head, tail = slice(start, end), slice(0, end), slice(start, None)
        if by_columns:
            inner = {"lower": tail, "upper": head}[b]
            rows, columns = everything if out == "full" else tail, here
        else:
            inner = {"full": everything, "lower": head, "upper": tail}[a]
            rows, columns = here, everything if out == "full" else head
        left, right = _cut(A, rows, inner, transpose_a), _cut(B, inner, columns, transpose_b)
        parts.append(tf.matmul(left, right, transpose_a=transpose_a, transpose_b=transpose_b))
        start = end
    if len(parts) == 1:
        return parts[0]
    if out == "symmetric":
        return from_blocks(parts)
    if out == "lower":
        parts = [_extended(part, ends[-1], by_columns) for part in parts]
    return tf.concat(parts, -1 if by_columns else -2)


def _cut(A: tf.Tensor, rows: slice, columns: slice, transposed: bool) -> tf.Tensor:
    """What becomes the block of these rows and columns when A is transposed, or is it already."""
    rows, columns = (columns, rows) if transposed else (rows, columns)
    return A if rows == columns == slice(None) else A[..., rows, columns]


def _extended(part: tf.Tensor, M: int, column: bool) -> tf.Tensor:
    """A block column with zeros above, or a block row with zeros on its right, of length M."""
    zeros = [(M - part.shape[-2], 0), (0, 0)] if column else [(0, 0), (0, M - part.shape[-1])]
    return tf.pad(part, [(0, 0)] * (part.shape.rank - 2) + zeros)
