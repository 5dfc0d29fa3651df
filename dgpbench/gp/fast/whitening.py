"""The M x M part of a layer: L^-1 of K_zz = L L^T, and C = S - I in the coordinates of the batch part.

Gradients are written by hand. Where L^-1 serves only to form A = L^-1 k, and A only alpha A and A^T C A, the
gradient in L^-1 follows from those in alpha and C, without a pass over the batch.

`compiled_inverse_cholesky` is for programs that XLA compiles as a whole. XLA's own Cholesky runs column by
column: 20 ms for M = 225 where LAPACK takes half a millisecond. Small matrices are eliminated row by row in
one loop, larger ones in halves by products. A matrix that is not positive definite gives NaN, no error.
"""

from __future__ import annotations

import tensorflow as tf

from dgpbench.gp.fast.blocks import product


def inverse_cholesky(K: tf.Tensor) -> tf.Tensor:
    eye = tf.eye(K.shape[-1], batch_shape=K.shape[:-2], dtype=K.dtype)
    return tf.linalg.triangular_solve(tf.linalg.cholesky(K), eye)


def through_cholesky(T: tf.Tensor, Linv: tf.Tensor) -> tf.Tensor:
    """dK for a gradient dL in its Cholesky factor, from T = L^T dL: L^-T phi(T) L^-1 (Murray 2016).

    Not symmetric: K is, and then only the symmetric part of its gradient counts.
    """
    T = tf.linalg.set_diag(tf.linalg.band_part(T, -1, 0), 0.5 * tf.linalg.diag_part(T))
    return product(Linv, product(T, Linv, "lower", "lower", "lower"), "upper", transpose_a=True)


def _times(C: tf.Tensor, A: tf.Tensor, a: str, transpose_b: bool = False) -> tf.Tensor:
    """C_p A for each C_p of C (P, M, M), as one product; `a` as in `product`."""
    return tf.reshape(product(tf.reshape(C, (-1, C.shape[2])), A, b=a, transpose_b=transpose_b), C.shape)


def _sum_of_products(C: tf.Tensor, G: tf.Tensor, out: str) -> tf.Tensor:
    """sum_p C_p G_p (M, M) for symmetric C_p, as one product; `out` as there."""
    left, right = (tf.reshape(A, (-1, A.shape[2])) for A in (C, G))
    return product(left, right, out=out, transpose_a=True)


@tf.custom_gradient
def whitening(K: tf.Tensor, alpha: tf.Tensor, C: tf.Tensor) -> tuple:
    """L^-1 of K = L L^T, with alpha (P, M) and C (P, M, M) passed through: what the `white` form reads.

    Where L^-1 serves only to form A = L^-1 k, and A only alpha A and A^T C A, its gradient dA k^T needs no
    pass over the batch: dA A^T = alpha^T dalpha + 2 sum_p C_p dC_p, and that is all the Cholesky asks for.
    """
    Linv = inverse_cholesky(K)

    def gradient(_, d_alpha, d_C):
        C_dC = tf.cast(_sum_of_products(C, d_C, "lower"), K.dtype)
        dA_At = tf.matmul(alpha, d_alpha, transpose_a=True) + 2.0 * C_dC  # its lower triangle
        return through_cholesky(-dA_At, Linv), d_alpha, d_C

    return (Linv, alpha, C), gradient


@tf.custom_gradient
def folding(K: tf.Tensor, alpha: tf.Tensor, C: tf.Tensor) -> tuple:
    """L^-1 of K = L L^T, alpha L^-1 (P, M) and L^-T C L^-1 (P, M, M), C symmetric: what `quad` reads.

    Gradients are brought back to whitened coordinates, where the Cholesky asks for what it does above. The
    gradient in L^-1 itself is not taken: nothing of the batch part reads it.
    """
    Linv = inverse_cholesky(K)

    def gradient(_, d_alpha, d_C):
        white_alpha = tf.matmul(d_alpha, Linv, transpose_b=True)
        white_C = product(Linv, _times(d_C, Linv, "upper", transpose_b=True), "lower", out="symmetric")
        T = tf.matmul(alpha, white_alpha, transpose_a=True) + 2.0 * _sum_of_products(C, white_C, "lower")
        return through_cholesky(-T, Linv), white_alpha, white_C

    folded = product(Linv, _times(C, Linv, "lower"), "upper", out="symmetric", transpose_a=True)
    return (Linv, tf.matmul(alpha, Linv), folded), gradient


@tf.custom_gradient
def folding_root(K: tf.Tensor, alpha: tf.Tensor, R: tf.Tensor) -> tuple:
    """`folding` of C = R R^T - I (P, M, M) from R: 5 P + 2 products of M x M where R R^T and `folding`, with
    their gradients, need 7 P.

    L^-T C L^-1 = W W^T - K^-1 =: F with W = L^-T R. For a gradient G in F, dR = 2 L^-1 G W, and what the
    Cholesky asks for, sum_p C_p dC_p of whitened coordinates, is L^T (sum_p F_p G_p) L^-T.
    """
    L = tf.linalg.cholesky(K)
    Linv = tf.linalg.triangular_solve(L, tf.eye(K.shape[0], dtype=K.dtype))
    W = product(Linv, R, "upper", "lower", transpose_a=True)  # P, M, M
    Kinv = product(Linv, Linv, "upper", "lower", "symmetric", transpose_a=True)
    F = product(W, W, out="symmetric", transpose_b=True) - Kinv

    def gradient(_, d_alpha, G):
        white_alpha = tf.matmul(d_alpha, Linv, transpose_b=True)
        G_Linv = _times(G, Linv, "upper", transpose_b=True)  # G_p L^-T
        C_dC = product(L, _sum_of_products(F, G_Linv, "full"), "upper", out="lower", transpose_a=True)
        T = tf.matmul(alpha, white_alpha, transpose_a=True) + 2.0 * C_dC
        dR = 2.0 * product(G_Linv, W, out="lower", transpose_a=True)
        return through_cholesky(-T, Linv), white_alpha, dR

    return (Linv, tf.matmul(alpha, Linv), F), gradient


@tf.custom_gradient
def outer_square(R: tf.Tensor) -> tf.Tensor:
    """R R^T (P, M, M) for lower triangles R. Gradients are symmetric here, so that one product does where
    autodiff takes two; of the gradient in R only the lower triangle is meant."""
    square = product(R, R, "lower", "upper", "symmetric", transpose_b=True)
    return square, lambda G: 2.0 * product(G, R, b="lower", out="lower")


LEAF = 32  # side up to which a loop over rows is faster than products of halves


def compiled_inverse_cholesky(K: tf.Tensor) -> tf.Tensor:
    """L^-1 (M, M). With K = [A B^T; B C]: L^-1 = [A' 0; -S' W A' S'], A' that of A, W = B A'^T and S' that of
    C - W W^T."""
    if (M := K.shape[0]) <= LEAF:
        return _eliminated(K)
    half = LEAF * -(-M // (2 * LEAF))
    top = compiled_inverse_cholesky(K[:half, :half])
    W = tf.matmul(K[half:, :half], top, transpose_b=True)
    low = compiled_inverse_cholesky(K[half:, half:] - tf.matmul(W, W, transpose_b=True))
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
