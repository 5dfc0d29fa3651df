"""One sparse GP layer with whitened q(u) = N(m, S), S = L_q L_q^T, Z and kernel shared by its P outputs.

With A = L^-1 k(Z, h), K_zz = L L^T (thesis eq. 2.14-2.16, whitened):
    mean = m^T A,   var = k(h, h) + A^T (S - I) A.
No (P, B, B) array is ever formed. Three equal forms of the batch part:
    white: A = L^-1 K is formed, var from A^T (S - I) A. Safe in float32. The gradient in L^-1 is not taken
           through the batch: it follows from those in m and S (whitening.py).
    half:  A likewise, var from K^T [L^-T (S - I)] A: the product is also the gradient in K, which saves one.
           As safe as white, and used where P M is small against the columns.
    quad:  var from K^T [L^-T (S - I) L^-1] K without A: fewer products per column, for float64 only
           (in float32 the entries of the bracket cancel and gradients are wrong).
All have a hand-written gradient that reuses the forward products.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from dgpbench.gp.kernels.base import Kernel
from dgpbench.models import joint
from dgpbench.models.parameters import scope
from dgpbench.models.symmetric import weighted_squares
from dgpbench.models.whitening import folding, folding_root, outer_square, whitening

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


def cheaper_form(layer: GPLayer, columns: int, exact: bool) -> str:
    """Which form needs fewer products in float64 (`exact`), or among the safe ones.

    Beside P each for the variance and its gradient, `white` pays 2 of M x M by M x columns, for A and its
    gradient, `half` pays 1 and P of M x M by M x M, `quad` pays none and 2 P + 2 (P > 1) or 4 of those.
    """
    inducing = layer.output_dim * layer.num_inducing
    if exact and 2 * columns > 3 * inducing:
        return "quad"
    return "half" if columns > 2 * inducing else "white"  # M x M products are slower than wide ones


def prepare(
    layer: GPLayer, p: dict[str, tf.Tensor], jitter: tf.Tensor, form: str, batch_dtype, natural: bool
) -> tuple[dict, tuple[tf.Tensor, tf.Tensor]]:
    """The M x M part: what `conditional` reads, which does not depend on the batch, and the tensors m and
    S - I that it was made from; a `natural` layer has gradients in both.

    In the `white` form S is made in the precision of the batch part, which is the precision it is used in.
    """
    kernel = layer.kernel.prepare(scope(p, "kernel"), p["Z"])
    Kzz = layer.kernel.gram(kernel) + jitter * tf.eye(layer.num_inducing, dtype=p["Z"].dtype)
    dtype = Kzz.dtype if form == "quad" else batch_dtype
    R, batch = tf.cast(p["q_sqrt"], dtype), {"kernel": kernel}
    C = outer_square(R) - tf.eye(layer.num_inducing, dtype=dtype)  # S - I
    if form == "quad" and layer.output_dim > 1 and not natural:
        Linv, batch["alpha"], batch["C"] = folding_root(Kzz, p["q_mu"], R)
    elif form == "quad":
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
    return batch, (p["q_mu"], C)


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
    H, for_kernel = tf.identity(H), tf.identity(H)  # at most two gradients to add for any tensor (gp/kernels)
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

    With its gradient in one piece for each argument: see the note on the order of sums in gp/kernels.
    """
    diagonal = tf.linalg.diag_part(L)
    log_det = 2.0 * tf.reduce_sum(tf.math.log(tf.abs(diagonal)))
    squares = tf.reduce_sum(tf.square(m)) + tf.reduce_sum(tf.square(L))
    value = 0.5 * (squares - tf.cast(tf.size(m), m.dtype) - log_det)
    return value, lambda g: (g * m, g * tf.linalg.set_diag(L, diagonal - 1.0 / diagonal))
