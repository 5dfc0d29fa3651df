"""The forms of a layer in which every output has a kernel of its own (forms.py, whitening.py): everything has
a leading axis of outputs, K_zz (P, M, M) and K = k(Z, H) (P, M, B), and products run output by output.

    Half: A = L^-1 K, var from K^T [L^-T C] A; safe in float32.
    Quad: var from K^T [L^-T C L^-1] K; for float64 only.
White would need one product more than Half for every output and has no place here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from dgpbench.gp.fast.blocks import block_ends, from_blocks, product, sum_over_inducing
from dgpbench.gp.fast.forms import Fenced, fence
from dgpbench.gp.fast.joint_samples import separate_quadratic_form
from dgpbench.gp.fast.whitening import inverse_cholesky, outer_square, through_cholesky
from dgpbench.gp.propagation import Whitened


@tf.custom_gradient
def whitening(K: tf.Tensor, alpha: tf.Tensor, C: tf.Tensor) -> tuple:
    """L^-1 of each K = L L^T, with alpha (P, M) and C (P, M, M) passed through: what `half_form` reads. The
    gradient in L^-1 follows from those in alpha and C, as in whitening.py."""
    L = tf.linalg.cholesky(K)
    Linv = tf.linalg.triangular_solve(L, tf.eye(K.shape[-1], batch_shape=K.shape[:-2], dtype=K.dtype))

    def gradient(_, d_alpha, d_C):
        A_dAt = d_alpha[:, :, None] * alpha[:, None, :] + 2.0 * tf.cast(tf.matmul(d_C, C), K.dtype)
        return _through_cholesky(-A_dAt, L), d_alpha, d_C

    return (Linv, alpha, C), gradient


def _through_cholesky(T: tf.Tensor, L: tf.Tensor) -> tf.Tensor:
    """The transpose of dK = L^-T phi(T^T) L^-1 (whitening.py) from T = dL^T L, whose upper triangles count.
    Of small matrices in float64 a triangular solve takes half the time of a product with L^-1: with both, 4 %
    of a step on one thread (DGP2, batch 1000, width 8)."""
    upper = np.triu(np.ones(L.shape[-2:]), 1) + 0.5 * np.eye(L.shape[-1])
    left = tf.linalg.triangular_solve(L, T * tf.constant(upper, L.dtype), adjoint=True)
    return tf.linalg.triangular_solve(L, tf.linalg.matrix_transpose(left), adjoint=True)


@tf.custom_gradient
def folding(K: tf.Tensor, alpha: tf.Tensor, C: tf.Tensor) -> tuple:
    """alpha L^-1 (P, M) and L^-T C L^-1 (P, M, M) of each K = L L^T, C symmetric: what `quadratic_form`
    reads."""
    Linv = inverse_cholesky(K)

    def gradient(d_alpha, d_C):
        white_alpha = tf.linalg.matvec(Linv, d_alpha)
        right = product(d_C, Linv, b="upper", transpose_b=True)
        white_C = product(Linv, right, "lower", out="symmetric")
        T = alpha[:, :, None] * white_alpha[:, None, :] + 2.0 * product(C, white_C, out="lower")
        return through_cholesky(-T, Linv), white_alpha, white_C

    folded = product(Linv, product(C, Linv, b="lower"), "upper", out="symmetric", transpose_a=True)
    return (tf.linalg.matvec(Linv, alpha, transpose_a=True), folded), gradient


@tf.custom_gradient
def quadratic_form(K: tf.Tensor, alpha: tf.Tensor, C: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """alpha_p K_p (P, B) and k_pb^T C_p k_pb (P, B) for symmetric C (P, M, M), K (P, M, B), alpha (P, M)."""
    CK = tf.matmul(C, K)  # P, M, B

    def gradient(g_mean, g_quad):
        return _d_kernel(alpha, CK, g_mean, g_quad), tf.linalg.matvec(K, g_mean), _squares(K, g_quad)

    return (_combined(alpha, K), sum_over_inducing(CK * K)), gradient


@tf.custom_gradient
def half_form(K: tf.Tensor, Linv, alpha: tf.Tensor, C: tf.Tensor, D) -> tuple[tf.Tensor, tf.Tensor]:
    """`quadratic_form` of A = L^-1 K, from D = L^-T C (P, M, M). C is there for its gradient; L^-1 and D
    have none here."""
    A = tf.matmul(Linv, K)  # P, M, B
    DA = tf.matmul(D, A)

    def gradient(g_mean, g_quad):
        dK = _d_kernel(tf.linalg.matvec(Linv, alpha, transpose_a=True), DA, g_mean, g_quad)
        return dK, None, tf.linalg.matvec(A, g_mean), _squares(A, g_quad), None

    return (_combined(alpha, A), sum_over_inducing(DA * K)), gradient


def _combined(alpha: tf.Tensor, A: tf.Tensor) -> tf.Tensor:
    """sum_m alpha_pm A_pmb (P, B)."""
    return tf.squeeze(tf.matmul(alpha[:, None, :], A), 1)


def _d_kernel(alpha: tf.Tensor, CK: tf.Tensor, g_mean: tf.Tensor, g_quad: tf.Tensor) -> tf.Tensor:
    """Gradient in K (P, M, B) of both values of a form."""
    return alpha[:, :, None] * g_mean[:, None, :] + 2.0 * CK * g_quad[:, None, :]


def _squares(A: tf.Tensor, g: tf.Tensor) -> tf.Tensor:
    """sum_b g_pb a_pb a_pb^T (P, M, M) for A (P, M, B) and g (P, B)."""
    parts, start = [], 0
    for end in block_ends(1, A.shape[1]):
        parts.append(tf.matmul(A[:, start:end] * g[:, None, :], A[:, :end], transpose_b=True))
        start = end
    return from_blocks(parts)


class Half(NamedTuple):
    Linv: Fenced
    alpha: tf.Tensor
    C: tf.Tensor
    D: Fenced  # L^-T C

    def moments(self, K: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """alpha A and A^T C A (P, B) for K = k(Z, H) (P, M, B)."""
        return half_form(K, self.Linv.value, self.alpha, self.C, self.D.value)

    def joint_moments(self, rows: tf.Tensor, K: int) -> tuple[tf.Tensor, tf.Tensor]:
        """The same with all covariances of the K columns of a point (joint_samples.py), for rows k(H, Z)."""
        return separate_quadratic_form(rows, self.alpha, self.C, K, self.Linv.value, self.D.value)


class Quad(NamedTuple):
    alpha: tf.Tensor  # alpha L^-1
    C: tf.Tensor  # L^-T C L^-1

    def moments(self, K: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return quadratic_form(K, self.alpha, self.C)

    def joint_moments(self, rows: tf.Tensor, K: int) -> tuple[tf.Tensor, tf.Tensor]:
        return separate_quadratic_form(rows, self.alpha, self.C, K)


def make(
    form: str, Kzz: tf.Tensor, q: Whitened, batch_dtype: tf.DType
) -> tuple[Half | Quad, tuple[tf.Tensor, tf.Tensor]]:
    """The form for K_zz (P, M, M) and a posterior, and the tensors m and S - I that it was made from; `white`
    and `half` are both Half."""
    dtype, (P, M, _) = Kzz.dtype if form == "quad" else batch_dtype, Kzz.shape
    if q.root is not None:
        C = outer_square(tf.cast(q.root, dtype)) - tf.eye(M, dtype=dtype)
    else:
        C = -tf.eye(M, batch_shape=(P,), dtype=dtype) if q.excess is None else tf.cast(q.excess, dtype)
    if form == "quad":
        return Quad(*folding(Kzz, q.mean, C)), (q.mean, C)
    Linv, alpha, white = whitening(Kzz, q.mean, C)
    D = tf.stop_gradient(tf.matmul(tf.cast(Linv, dtype), C, transpose_a=True))
    return Half(Fenced(fence(Linv)), alpha, white, Fenced(fence(D))), (q.mean, C)


def cheaper_form(num_inducing: int, columns: int, exact: bool) -> str:
    """Per output, in products of M x M by M x columns, with gradients: Half 3 - 3/8, Quad 2 - 3/8 and about
    four more of M x M by M x M."""
    return "quad" if exact and columns > 3 * num_inducing else "half"
