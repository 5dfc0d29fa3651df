"""Products of M x M matrices whose operands or result are triangular or symmetric, in blocks.

With four blocks 3/8 to 11/16 of a product need not be computed. Small matrices are one block: for them this
is tf.matmul.
"""

from __future__ import annotations

import tensorflow as tf

from dgpbench.gp.fast.symmetric import block_ends, from_blocks


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
