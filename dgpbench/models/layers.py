"""One sparse GP layer with whitened q(u) = N(m, S), S = L_q L_q^T, Z and kernel shared by its P outputs.

With A = L^-1 k(Z, h), K_zz = L L^T (thesis eq. 2.14-2.16, whitened):
    mean = m^T A,   var = k(h, h) + A^T (S - I) A.
No (P, B, B) array is ever formed. Three equal forms of the batch part:
    white: A = L^-1 K is formed, var from A^T (S - I) A. Safe in float32. The gradient in L^-1 is not taken
           through the batch: it follows from those in m and S (`whitening`).
    half:  A likewise, var from K^T [L^-T (S - I)] A: the product is also the gradient in K, which saves one.
           As safe as white, and used where P M is small against the columns.
    quad:  var from K^T [L^-T (S - I) L^-1] K without A: fewer products per column, for float64 only
           (in float32 the entries of the bracket cancel and gradients are wrong).
All have a hand-written gradient that reuses the forward products.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from dgpbench.models import joint
from dgpbench.models.kernels import Kernel
from dgpbench.models.parameters import scope
from dgpbench.models.symmetric import weighted_squares

VARIANCE_FLOOR = {tf.float64: 1e-12, tf.float32: 1e-8}  # before the square root of a sample


@dataclass(frozen=True)
class GPLayer:
    """Static structure of a layer. `mean` is zero | identity | linear (x W with a fixed W).

    `output_dim` counts the GPs. Where `mixed` is not 0 they are mixed linearly to that many outputs, P g(h),
    and the mean function is added after the mixing (thesis 5.1.5).
    """

    kernel: Kernel
    num_inducing: int
    output_dim: int
    mean: str
    mixed: int = 0

    @property
    def input_dim(self) -> int:
        return self.kernel.input_dim

    @property
    def width(self) -> int:
        """Dimension of what leaves the layer."""
        return self.mixed or self.output_dim

    @property
    def noise_dim(self) -> int:
        return self.output_dim


def _inverse_cholesky(K: tf.Tensor) -> tf.Tensor:
    return tf.linalg.triangular_solve(tf.linalg.cholesky(K), tf.eye(K.shape[0], dtype=K.dtype))


def _through_cholesky(T: tf.Tensor, Linv: tf.Tensor) -> tf.Tensor:
    """dK for a gradient dL in its Cholesky factor, from T = L^T dL: L^-T phi(T) L^-1 (Murray 2016).

    Not symmetric: K is, and then only the symmetric part of its gradient counts.
    """
    T = tf.linalg.set_diag(tf.linalg.band_part(T, -1, 0), 0.5 * tf.linalg.diag_part(T))
    return tf.matmul(Linv, tf.matmul(T, Linv), transpose_a=True)


def _times(C: tf.Tensor, A: tf.Tensor, transpose_b: bool = False) -> tf.Tensor:
    """C_p A for each C_p of C (P, M, M), as one product."""
    return tf.reshape(tf.matmul(tf.reshape(C, (-1, C.shape[2])), A, transpose_b=transpose_b), C.shape)


def _sum_of_products(C: tf.Tensor, G: tf.Tensor) -> tf.Tensor:
    """sum_p C_p G_p (M, M) for symmetric C_p, as one product."""
    return tf.matmul(*(tf.reshape(A, (-1, A.shape[2])) for A in (C, G)), transpose_a=True)


@tf.custom_gradient
def whitening(K: tf.Tensor, alpha: tf.Tensor, C: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """L^-1 of K = L L^T, with alpha (P, M) and C (P, M, M) passed through: what the `white` form reads.

    Where L^-1 serves only to form A = L^-1 k, and A only alpha A and A^T C A, its gradient dA k^T needs no
    pass over the batch: dA A^T = alpha^T dalpha + 2 sum_p C_p dC_p, and that is all the Cholesky asks for.
    """
    Linv = _inverse_cholesky(K)

    def gradient(_, d_alpha, d_C):
        dA_At = tf.matmul(alpha, d_alpha, transpose_a=True) + 2.0 * tf.cast(_sum_of_products(C, d_C), K.dtype)
        return _through_cholesky(-dA_At, Linv), d_alpha, d_C

    return (Linv, alpha, C), gradient


@tf.custom_gradient
def folding(K: tf.Tensor, alpha: tf.Tensor, C: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """L^-1 of K = L L^T, alpha L^-1 (P, M) and L^-T C L^-1 (P, M, M), C symmetric: what `quad` reads.

    Gradients are brought back to whitened coordinates, where the Cholesky asks for what it does above. The
    gradient in L^-1 itself is not taken: nothing of the batch part reads it.
    """
    Linv = _inverse_cholesky(K)

    def gradient(_, d_alpha, d_C):
        white_alpha, white_C = unfolded(d_alpha, d_C, Linv)
        T = tf.matmul(alpha, white_alpha, transpose_a=True) + 2.0 * _sum_of_products(C, white_C)
        return _through_cholesky(-T, Linv), white_alpha, white_C

    folded = tf.matmul(Linv, _times(C, Linv), transpose_a=True)
    return (Linv, tf.matmul(alpha, Linv), folded), gradient


def unfolded(d_alpha: tf.Tensor, d_C: tf.Tensor, Linv: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The gradients in alpha and C from those in what `folding` made of them."""
    return tf.matmul(d_alpha, Linv, transpose_b=True), tf.matmul(Linv, _times(d_C, Linv, transpose_b=True))


@tf.custom_gradient
def whitened(Linv: tf.Tensor, K: tf.Tensor) -> tf.Tensor:
    """A = L^-1 K (M, B); the gradient in L^-1 is the business of `whitening`."""
    return tf.matmul(Linv, K), lambda G: (None, tf.matmul(Linv, G, transpose_a=True))


@tf.custom_gradient
def whitened_rows(Linv: tf.Tensor, K: tf.Tensor) -> tf.Tensor:
    """The same for k(H, Z) (B, M): (B, M)."""
    return tf.matmul(K, Linv, transpose_b=True), lambda G: (None, tf.matmul(G, Linv))


def sum_over_inducing(A: tf.Tensor) -> tf.Tensor:
    """The sum of A (P, M, B) over M in blocks of 32 rows, which XLA fuses with whatever makes A; a longer sum
    it takes apart and writes A to memory first."""
    blocks = [tf.reduce_sum(A[:, i : i + 32], 1) for i in range(0, A.shape[1], 32)]
    return sum(blocks[1:], blocks[0])


@tf.custom_gradient
def quadratic_form(K: tf.Tensor, alpha: tf.Tensor, C: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """alpha K (P, B) and k_b^T C_p k_b (P, B) for symmetric C (P, M, M), K (M, B), alpha (P, M)."""
    P, M, _ = C.shape
    CK = tf.reshape(tf.matmul(tf.reshape(C, (P * M, M)), K), (P, M, K.shape[1]))  # P, M, B
    quad = sum_over_inducing(CK * K)  # P, B

    def gradient(g_mean, g_quad):
        g = g_quad[:, None, :]  # P, 1, B
        dK = tf.matmul(alpha, g_mean, transpose_a=True) + 2.0 * tf.reduce_sum(CK * g, 0)  # M, B
        return dK, tf.matmul(g_mean, K, transpose_b=True), weighted_squares(K, g_quad)

    return (tf.matmul(alpha, K), quad), gradient


@tf.custom_gradient
def half_form(K: tf.Tensor, Linv, alpha: tf.Tensor, C: tf.Tensor, D) -> tuple[tf.Tensor, tf.Tensor]:
    """`quadratic_form` of A = L^-1 K, from D = L^-T C (P, M, M). C is there for its gradient; that in L^-1 is
    the business of `whitening`."""
    P, M, _ = C.shape
    A = tf.matmul(Linv, K)  # M, B
    DA = tf.reshape(tf.matmul(tf.reshape(D, (P * M, M)), A), (P, M, K.shape[1]))  # P, M, B

    def gradient(g_mean, g_quad):
        g = g_quad[:, None, :]  # P, 1, B
        dK = tf.matmul(tf.matmul(alpha, Linv), g_mean, transpose_a=True) + 2.0 * tf.reduce_sum(DA * g, 0)
        return dK, None, tf.matmul(g_mean, A, transpose_b=True), weighted_squares(A, g_quad), None

    return (tf.matmul(alpha, A), sum_over_inducing(DA * K)), gradient


@tf.custom_gradient
def outer_square(A: tf.Tensor) -> tf.Tensor:
    """A A^T (P, M, M). Gradients are symmetric here, so that one product does where autodiff takes two."""
    return tf.matmul(A, A, transpose_b=True), lambda G: 2.0 * tf.matmul(G, A)


def cheaper_form(layer: GPLayer, columns: int, exact: bool) -> str:
    """Which form needs fewer products in float64 (`exact`), or among the safe ones.

    Beside P each for the variance and its gradient, `white` pays 2 of M x M by M x columns, for A and its
    gradient, `half` pays 1 and P of M x M by M x M, `quad` pays none and 3 P of M x M by M x M.
    """
    inducing = layer.output_dim * layer.num_inducing
    if exact and 2 * columns > 3 * inducing:
        return "quad"
    return "half" if columns > 2 * inducing else "white"  # M x M products are slower than wide ones


def prepare(
    layer: GPLayer, p: dict[str, tf.Tensor], jitter: tf.Tensor, form: str, batch_dtype: tf.DType
) -> tuple[dict, tf.Tensor]:
    """The M x M part: what `conditional` reads, which does not depend on the batch, and L^-1.

    In the `white` form S is made in the precision of the batch part, which is the precision it is used in.
    """
    kernel = layer.kernel.prepare(scope(p, "kernel"), p["Z"])
    Kzz = layer.kernel.gram(kernel) + jitter * tf.eye(layer.num_inducing, dtype=p["Z"].dtype)
    dtype = Kzz.dtype if form == "quad" else batch_dtype
    C = outer_square(tf.cast(p["q_sqrt"], dtype)) - tf.eye(layer.num_inducing, dtype=dtype)  # S - I
    batch = {"kernel": kernel}
    if form == "quad":
        Linv, batch["alpha"], batch["C"] = folding(Kzz, p["q_mu"], C)
    else:
        Linv, batch["alpha"], batch["C"] = whitening(Kzz, p["q_mu"], C)
        batch["Linv"] = Linv
    if form == "half":
        batch["D"] = tf.stop_gradient(tf.matmul(tf.cast(Linv, dtype), C, transpose_a=True))
    if layer.mean == "linear":
        batch["W"] = p["W"]
    if layer.mixed:
        batch["P"] = p["P"]  # width, output_dim
    return batch, Linv


def gradient_in_mean_and_covariance(d_batch: dict, Linv: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """dD/dm (P, M) and dD/dS (P, M, M) from the gradient in what `prepare` made, in any form.

    dD/dS is symmetric but for rounding.
    """
    g_m, g_S = d_batch["alpha"], d_batch["C"]
    if "Linv" not in d_batch:
        g_m, g_S = unfolded(g_m, g_S, Linv)
    return g_m, tf.cast(g_S, g_m.dtype)


def conditional(layer: GPLayer, batch: dict, H: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean and variance (P, B) of the GPs at each column of H (D, B); mean function included unless mixed."""
    if "D" in batch:
        K = layer.kernel.cross(batch["kernel"], H)
        mean, quad = half_form(K, batch["Linv"], batch["alpha"], batch["C"], batch["D"])
    else:
        mean, quad = quadratic_form(_weights(layer, batch, H), batch["alpha"], batch["C"])
    var = layer.kernel.diagonal(batch["kernel"], H) + quad
    return mean if layer.mixed else add_mean(layer, batch, mean, H), var


def _weights(layer: GPLayer, batch: dict, H: tf.Tensor) -> tf.Tensor:
    """k(Z, H) or A = L^-1 k(Z, H) (M, B), whichever the quadratic forms of this batch part take."""
    K = layer.kernel.cross(batch["kernel"], H)
    return whitened(batch["Linv"], K) if "Linv" in batch else K


def add_mean(layer: GPLayer, batch: dict, F: tf.Tensor, H: tf.Tensor) -> tf.Tensor:
    """F plus the mean function at H."""
    if layer.mean == "identity":
        return F + H
    if layer.mean == "linear":
        return F + tf.matmul(batch["W"], H, transpose_a=True)  # W is D, width
    return F


def sample(layer: GPLayer, batch: dict, H: tf.Tensor, eps: tf.Tensor, K: int, jitter) -> tf.Tensor:
    """A draw of what leaves the layer at each column of H (D, K * C): (width, K * C).

    The K columns of a point come from one draw of the function (joint.py); different points from different
    ones, as in DSVI. eps (output_dim, K * C) is standard normal; with K = 1 it may have S columns for each of
    H, in S blocks: S independent draws at each, from moments that are computed once.
    """
    if K == 1:
        mean, var = conditional(layer, batch, H)
        sd = tf.sqrt(tf.maximum(var, VARIANCE_FLOOR[var.dtype]))
        if (S := eps.shape[1] // H.shape[1]) > 1:
            mean, sd, H = (tf.tile(A, (1, S)) for A in (mean, sd, H))
        F = mean + sd * eps
        return mix(layer, batch, F, H) if layer.mixed else F
    H, for_kernel = tf.identity(H), tf.identity(H)  # at most two gradients to add for any tensor (kernels.py)
    A = layer.kernel.cross_rows(batch["kernel"], joint.points_first(for_kernel, K))  # C K, M
    if "Linv" in batch and "D" not in batch:
        A = whitened_rows(batch["Linv"], A)
    half = (batch["Linv"], batch["D"]) if "D" in batch else ()
    mean, form = joint.joint_quadratic_form(A, batch["alpha"], batch["C"], K, *half)
    among = joint.prior_covariance(layer.kernel, batch["kernel"], for_kernel, K)  # T, C
    jitter = joint.enough_jitter(jitter, among)
    F = joint.sample(joint.samples_first(mean, K), form + among[:, None, :], eps, K, jitter)
    return mix(layer, batch, F, H) if layer.mixed else add_mean(layer, batch, F, H)


def mix(layer: GPLayer, batch: dict, F: tf.Tensor, H: tf.Tensor) -> tf.Tensor:
    """P f plus the mean function (width, B) for draws F (output_dim, B) of the GPs."""
    return add_mean(layer, batch, tf.matmul(batch["P"], F), H)


@tf.custom_gradient
def kl_divergence(m: tf.Tensor, L: tf.Tensor) -> tf.Tensor:
    """KL(N(m, L L^T) || N(0, I)) summed over outputs, for m (P, M) and L (P, M, M).

    With its gradient in one piece for each argument: see the note on the order of sums in kernels.py.
    """
    diagonal = tf.linalg.diag_part(L)
    log_det = 2.0 * tf.reduce_sum(tf.math.log(tf.abs(diagonal)))
    squares = tf.reduce_sum(tf.square(m)) + tf.reduce_sum(tf.square(L))
    value = 0.5 * (squares - tf.cast(tf.size(m), m.dtype) - log_det)
    return value, lambda g: (g * m, g * tf.linalg.set_diag(L, diagonal - 1.0 / diagonal))
