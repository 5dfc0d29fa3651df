"""K function values of each data point drawn jointly from q(g): what the importance weights of (5.11) need.

The K inputs of a point share one draw of g, so their values have a full K x K covariance
    k(h_k, h_j) + A_k^T (S - I) A_j.
Its products run point by point, as small matrices (C, K P, K). For the Cholesky it is taken apart into its
T = K (K + 1) / 2 lower entries, each an array over outputs and points (P, C), so that one Cholesky, written
out entry by entry, serves every point at once.
"""

from __future__ import annotations

import tensorflow as tf

from dgpbench.gp.fast.blocks import block_ends, from_blocks, product
from dgpbench.gp.kernels.base import Kernel

FLOAT32_JITTER = 1e-5  # of the prior variance, at least: covariances in float32 are off by up to 1e-6 of it
TERMS = 32  # of a sum that is written out
UNROLLED = 8  # up to this many samples the Cholesky is written out entry by entry, which XLA compiles


def pairs(K: int) -> list[tuple[int, int]]:
    """(k, j) with j <= k, row by row."""
    return [(k, j) for k in range(K) for j in range(k + 1)]


def points_first(H: tf.Tensor, K: int) -> tf.Tensor:
    """H (D, K * C) with a row for each sample of each point, those of a point together: (C * K, D)."""
    return tf.reshape(tf.transpose(tf.reshape(H, (H.shape[0], K, -1)), (2, 1, 0)), (-1, H.shape[0]))


def samples_first(F: tf.Tensor, K: int) -> tf.Tensor:
    """Back again: (D, K * C)."""
    return tf.reshape(tf.transpose(tf.reshape(F, (-1, K, F.shape[1])), (2, 1, 0)), (F.shape[1], -1))


def joint_quadratic_form(A, alpha, C, K: int, *half: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """A alpha^T (C * K, P) and a_k^T C_p a_j (T, P, C) for A (C * K, M), points first, C (P, M, M) symmetric.

    With `half`, which is L^-1 and D = L^-T C, in the form of that name: A is k(H, Z) then (forms.half_form).
    The gradient needs no more large products than that of the diagonal.
    """

    @tf.custom_gradient
    def form(right, alpha, C, *half):
        P, M, _ = C.shape
        left, to_right, B = right, alpha, C
        if half:
            Linv, B = half
            left, to_right = tf.matmul(right, Linv, transpose_b=True), tf.matmul(alpha, Linv)
        rows = tf.reshape(right, (-1, K, M))  # C, K, M
        BA = tf.reshape(tf.matmul(left, tf.reshape(B, (P * M, M)), transpose_b=True), (-1, K * P, M))
        value = tf.matmul(BA, rows, transpose_b=True)  # C, K P, K
        entries = tf.transpose(tf.reshape(value, (-1, K, P, K)), (1, 3, 2, 0))  # K, K, P, C

        def gradient(g_mean, g):
            g = _both_triangles(g, K)  # K, K, P, C
            through = _combined(tf.reshape(tf.transpose(g, (3, 0, 1, 2)), (-1, K, K * P)), BA)  # C, K, M
            d_right = tf.reshape(through, right.shape) + tf.matmul(g_mean, to_right)
            g = tf.reshape(tf.transpose(g, (3, 0, 2, 1)), (-1, K * P, K))
            dC = 0.5 * _weighted_products(left, g, P)
            return d_right, tf.matmul(g_mean, left, transpose_a=True), dC, *([None] * len(half))

        mean = tf.matmul(left, alpha, transpose_b=True)
        return (mean, tf.stack([entries[k, j] for k, j in pairs(K)])), gradient

    return form(A, alpha, C, *half)


def separate_quadratic_form(rows, alpha, C, K: int, *half: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The same with rows of its own for each output (P, C * K, M): alpha_p a (P, C * K) and a_k^T C_p a_j
    (T, P, C); L^-1 and D are (P, M, M) in `half`."""

    @tf.custom_gradient
    def form(right, alpha, C, *half):
        left, to_right, B = right, alpha, C
        if half:
            Linv, B = half
            left = tf.matmul(right, Linv, transpose_b=True)
            to_right = tf.linalg.matvec(Linv, alpha, transpose_a=True)
        P, columns, M = right.shape
        each = (P * columns // K, K, M)  # P C, K, M: the points of one output after those of another
        BA = tf.reshape(tf.matmul(left, B, transpose_b=True), each)
        value = tf.matmul(BA, tf.reshape(right, each), transpose_b=True)  # P C, K, K
        entries = tf.stack([tf.reshape(value[:, k, j], (P, -1)) for k, j in pairs(K)])  # T, P, C

        def gradient(g_mean, g):
            g = tf.transpose(tf.reshape(_both_triangles(g, K), (K, K, -1)), (2, 0, 1))  # P C, K, K
            d_right = tf.reshape(_combined(g, BA), right.shape) + g_mean[:, :, None] * to_right[:, None, :]
            weighted = tf.reshape(_combined(g, tf.reshape(left, each)), left.shape)
            dC = 0.5 * product(left, weighted, out="symmetric", transpose_a=True)
            return d_right, tf.linalg.matvec(left, g_mean, transpose_a=True), dC, *([None] * len(half))

        return (tf.linalg.matvec(left, alpha), entries), gradient

    return form(rows, alpha, C, *half)


def _combined(g: tf.Tensor, A: tf.Tensor) -> tf.Tensor:
    """g A point by point, (C, R, J) by (C, J, m): written out as a sum of few terms, which XLA fuses."""
    if g.shape[2] > TERMS:
        return tf.matmul(g, A)
    return _total(g[:, :, j : j + 1] * A[:, j : j + 1] for j in range(g.shape[2]))


def _weighted_products(A: tf.Tensor, g: tf.Tensor, P: int) -> tf.Tensor:
    """sum over points of g_kj a_k a_j^T (P, M, M) for A (C * K, M) and symmetric g (C, K P, K)."""
    M, K, parts, start = A.shape[1], g.shape[2], [], 0
    for end in block_ends(P, M):
        columns = tf.matmul(g, tf.reshape(A[:, start:end], (-1, K, end - start)))  # C, K P, m: sum_j g_kj a_j
        part = tf.matmul(A[:, :end], tf.reshape(columns, (-1, P * (end - start))), transpose_a=True)
        parts.append(tf.transpose(tf.reshape(part, (end, P, end - start)), (1, 2, 0)))
        start = end
    return from_blocks(parts)


def _both_triangles(g: tf.Tensor, K: int) -> tf.Tensor:
    """G + G^T (K, K, P, C) of the lower triangle G that g (T, P, C) holds."""
    entry = dict(zip(pairs(K), tf.unstack(g), strict=True))
    full = [2.0 * entry[k, k] if k == j else entry[max(k, j), min(k, j)] for k in range(K) for j in range(K)]
    return tf.reshape(tf.stack(full), (K, K, *g.shape[1:]))


def _total(terms):
    """A sum in a fixed order."""
    terms = list(terms)
    out = terms[0]
    for term in terms[1:]:
        out = out + term
    return out


@tf.custom_gradient
def _pair_up(H: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Both members of every pair of the K columns of a point, H (D, K, C): two of (D, T, C)."""
    order = pairs(H.shape[1])

    def gradient(g_left, g_right):
        parts = [
            [g_left[:, t] for t, (a, _) in enumerate(order) if a == k]
            + [g_right[:, t] for t, (_, b) in enumerate(order) if b == k]
            for k in range(H.shape[1])
        ]
        return tf.stack([_total(part) for part in parts], 1)

    return (tf.stack([H[:, k] for k, _ in order], 1), tf.stack([H[:, k] for _, k in order], 1)), gradient


def prior_covariance(kernel: Kernel, prepared: dict, H: tf.Tensor, K: int) -> tf.Tensor:
    """k(h_k, h_l) of the K inputs of each point, H (D, K * C): (T, C), or (P, T, C) with a kernel for each
    output."""
    left, right = _pair_up(tf.reshape(H, (H.shape[0], K, -1)))  # D, T, C
    same = tf.constant([k == j for k, j in pairs(K)])[:, None]
    return kernel.between(prepared, left, right, same)


def enough_jitter(jitter, prior: tf.Tensor) -> tf.Tensor:
    """The jitter of each point for a prior covariance (T, C), or of each output and point for (T, P, C).

    With less, in float32, pivots at nearly equal inputs are rounding errors, and a Cholesky blows them up.
    """
    if prior.dtype != tf.float32:
        return jitter
    return tf.maximum(jitter, FLOAT32_JITTER * tf.stop_gradient(prior[0]))  # C, or P, C


def sample(mean: tf.Tensor, covariance: tf.Tensor, eps: tf.Tensor, K: int, jitter) -> tf.Tensor:
    """mean + chol(covariance) eps (P, K * C): mean and eps too, covariance (T, P, C); jitter (P, C), (C,) or
    one."""
    P, cols = mean.shape[0], covariance.shape[2]
    e = tf.reshape(eps, (P, K, cols))
    if K > UNROLLED:
        return mean + tf.reshape(_cholesky_times(covariance, e, K, jitter), (P, K * cols))
    L = _cholesky(covariance, K, jitter)
    draws = [_total(L[k, j] * e[:, j] for j in range(k + 1)) for k in range(K)]
    return mean + tf.reshape(tf.stack(draws, 1), (P, K * cols))


def _cholesky(covariance: tf.Tensor, K: int, jitter) -> dict[tuple[int, int], tf.Tensor]:
    """Entries of the lower factor, each (P, C). A pivot below the jitter counts as the jitter."""
    entry = dict(zip(pairs(K), tf.unstack(covariance), strict=True))
    L: dict[tuple[int, int], tf.Tensor] = {}
    for k in range(K):
        for j in range(k):
            done = [L[k, i] * L[j, i] for i in range(j)]
            L[k, j] = (entry[k, j] - _total(done) if done else entry[k, j]) / L[j, j]
        done = [tf.square(L[k, i]) for i in range(k)]
        pivot = entry[k, k] + jitter - (_total(done) if done else 0.0)
        L[k, k] = tf.sqrt(tf.maximum(pivot, jitter))
    return L


def _cholesky_times(covariance: tf.Tensor, eps: tf.Tensor, K: int, jitter) -> tf.Tensor:
    """The same for many samples, by TensorFlow's batched Cholesky: (P, K, C)."""
    place = [[k * (k + 1) // 2 + j if j <= k else j * (j + 1) // 2 + k for j in range(K)] for k in range(K)]
    full = tf.transpose(tf.gather(covariance, tf.constant(place)), (2, 3, 0, 1))  # P, C, K, K
    jitter = tf.cast(jitter, full.dtype)[..., None, None]  # P, C, 1, 1 or less
    L = tf.linalg.cholesky(full + jitter * tf.eye(K, dtype=full.dtype))
    return tf.transpose(tf.linalg.matvec(L, tf.transpose(eps, (0, 2, 1))), (0, 2, 1))
