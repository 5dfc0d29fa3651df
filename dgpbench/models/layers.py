"""One sparse GP layer with whitened q(u) = N(m, S), S = L_q L_q^T, Z and kernel shared by its P outputs.

With A = L^-1 k(Z, h), K_zz = L L^T (thesis eq. 2.14-2.16, whitened):
    mean = m^T A,   var = k(h, h) + A^T (S - I) A.
No (P, B, B) array is ever formed. Two equal forms of the batch part:
    white: A = L^-1 K is formed, var from A^T (S - I) A. Safe in float32.
    quad:  var from K^T [L^-T (S - I) L^-1] K without A: fewer products per column, for float64 only
           (in float32 the entries of the bracket cancel and gradients are wrong).
Both have a hand-written gradient that reuses the forward products.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from dgpbench.models.kernels import Kernel
from dgpbench.models.parameters import scope


@dataclass(frozen=True)
class GPLayer:
    """Static structure of a layer. `mean` is zero | identity | linear (x W with a fixed W)."""

    kernel: Kernel
    num_inducing: int
    output_dim: int
    mean: str

    @property
    def input_dim(self) -> int:
        return self.kernel.input_dim


@tf.custom_gradient
def inverse_cholesky(K: tf.Tensor) -> tf.Tensor:
    """L^-1 with K = L L^T. The gradient needs three products and no triangular solve."""
    L = tf.linalg.cholesky(K)
    Linv = tf.linalg.triangular_solve(L, tf.eye(tf.shape(K)[0], dtype=K.dtype))

    def gradient(G):
        # dL = -L^-T G L^-T; pulled through the Cholesky: dK = L^-T sym(phi(L^T dL)) L^-1, L^T dL = -G L^-T
        T = tf.linalg.band_part(-tf.matmul(G, Linv, transpose_b=True), -1, 0)
        T = 0.5 * (T + tf.transpose(T))  # phi halves the diagonal; symmetrising halves the rest
        T = T - 0.5 * tf.linalg.diag(tf.linalg.diag_part(T))
        return tf.matmul(Linv, tf.matmul(T, Linv), transpose_a=True)

    return Linv, gradient


@tf.custom_gradient
def quadratic_form(K: tf.Tensor, alpha: tf.Tensor, C: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """alpha K (P, B) and k_b^T C_p k_b (P, B) for symmetric C (P, M, M), K (M, B), alpha (P, M)."""
    P, M, _ = C.shape
    CK = tf.reshape(tf.matmul(tf.reshape(C, (P * M, M)), K), (P, M, K.shape[1]))  # P, M, B
    quad = tf.reduce_sum(CK * K, 1)  # P, B

    def gradient(g_mean, g_quad):
        g = g_quad[:, None, :]  # P, 1, B
        dK = tf.matmul(alpha, g_mean, transpose_a=True) + 2.0 * tf.reduce_sum(CK * g, 0)  # M, B
        dC = tf.matmul(tf.reshape(K * g, (P * M, K.shape[1])), K, transpose_b=True)
        return dK, tf.matmul(g_mean, K, transpose_b=True), tf.reshape(dC, (P, M, M))

    return (tf.matmul(alpha, K), quad), gradient


@tf.custom_gradient
def outer_square(A: tf.Tensor) -> tf.Tensor:
    """A A^T (P, M, M). Its gradient is symmetric here, so that one product serves where autodiff takes two."""
    return tf.matmul(A, A, transpose_b=True), lambda G: 2.0 * tf.matmul(G, A)


def cheaper_form(layer: GPLayer, columns: int) -> str:
    """Which form needs fewer products in float64: `white` pays 3 more of M x M by M x columns for A and its
    gradient, `quad` pays 4 more of M x M by M x M for each output (numbers measured in docs/performance.md)."""
    return "quad" if 3 * columns > 4 * layer.output_dim * layer.num_inducing else "white"


def prepare(layer: GPLayer, p: dict[str, tf.Tensor], jitter: tf.Tensor, form: str) -> tuple[dict, tf.Tensor]:
    """The M x M part: what `conditional` reads, which does not depend on the batch, and L^-1."""
    kernel = layer.kernel.prepare(scope(p, "kernel"), p["Z"])
    eye = tf.eye(layer.num_inducing, dtype=p["Z"].dtype)
    Linv = inverse_cholesky(layer.kernel.gram(kernel) + jitter * eye)
    batch = {"kernel": kernel}
    if form == "quad":  # L^-T (S - I) L^-1 with S = L_q L_q^T
        batch["C"] = outer_square(tf.matmul(Linv, p["q_sqrt"], transpose_a=True)) - outer_square(tf.transpose(Linv))
        batch["alpha"] = tf.matmul(p["q_mu"], Linv)  # P, M
    else:
        batch |= {"Linv": Linv, "C": outer_square(p["q_sqrt"]) - eye, "alpha": p["q_mu"]}
    if layer.mean == "linear":
        batch["W"] = p["W"]
    return batch, Linv


def gradient_in_mean_and_covariance(d_batch: dict, Linv: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """dD/dm (P, M) and dD/dS (P, M, M) from the gradient in what `prepare` made, in either form."""
    g_m, g_S = d_batch["alpha"], d_batch["C"]
    if "Linv" not in d_batch:  # alpha = m^T L^-1, C = L^-T (S - I) L^-1
        g_m = tf.matmul(g_m, Linv, transpose_b=True)
        g_S = tf.matmul(Linv, tf.matmul(g_S, Linv, transpose_b=True))
    return g_m, 0.5 * (g_S + tf.linalg.matrix_transpose(g_S))


def conditional(layer: GPLayer, batch: dict, H: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean and variance (P, B) of f(h) under q for each column of H (D, B), mean function included."""
    K = layer.kernel.cross(batch["kernel"], H)  # M, B
    if "Linv" in batch:
        K = tf.matmul(batch["Linv"], K)  # A
    mean, quad = quadratic_form(K, batch["alpha"], batch["C"])
    var = layer.kernel.diagonal(batch["kernel"], H) + quad
    if layer.mean == "identity":
        mean += H
    elif layer.mean == "linear":
        mean += tf.matmul(batch["W"], H, transpose_a=True)  # W is D, P
    return mean, var


def kl_divergence(p: dict[str, tf.Tensor]) -> tf.Tensor:
    """KL(N(m, L_q L_q^T) || N(0, I)) summed over outputs."""
    m, L = p["q_mu"], p["q_sqrt"]
    log_det = 2.0 * tf.reduce_sum(tf.math.log(tf.abs(tf.linalg.diag_part(L))))
    count = tf.cast(tf.size(m), m.dtype)
    return 0.5 * (tf.reduce_sum(m * m) + tf.reduce_sum(L * L) - count - log_det)
