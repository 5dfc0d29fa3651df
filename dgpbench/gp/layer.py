"""Sparse GP layers with whitened q(u) = N(m, S), S = L_q L_q^T.

With A = L^-1 k(Z, h), K_zz = L L^T (thesis 2.6, 2.7 with 1.28, 1.29, whitened):
    mean = m^T A,   var = k(h, h) + A^T (S - I) A,
in whichever of three equal forms costs least (fast/forms.py). The P outputs of a `GPLayer` share Z
and the kernel.

Each output of a `SeparateLayer` has its own kernel, and its own Z where the values have one for each.
Products and Choleskys are batched over a leading axis of outputs: a variance is (P,), lengthscales are
(P, D), and Z is (M, D) or (P, M, D).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import tensorflow as tf

from dgpbench.gp.fast import forms, joint_samples, point, separate
from dgpbench.gp.kernels.base import Kernel
from dgpbench.gp.parameters import LOWER, Constraint, below, scope
from dgpbench.gp.propagation import Flow, Preparation, Whitened

VARIANCE_FLOOR = {tf.float64: 1e-12, tf.float32: 1e-8}  # before the square root of a sample


class PreparedGP(NamedTuple):
    """The part of a layer that does not depend on the batch. `mean` and `mixing` may hold W and P."""

    kernel: dict
    form: Any  # of fast/forms.py, or of fast/separate.py
    mean: dict[str, tf.Tensor]
    mixing: dict[str, tf.Tensor]


@dataclass(frozen=True)
class GPLayer:
    """Static structure of a layer. `mean` is zero | identity | linear (x W, fixed or trained).

    `output_dim` counts the GPs. Where `mixed` is not 0 they are mixed linearly to that many outputs, P g(h),
    and the mean function is added after the mixing (thesis 5.1.5). With `grid`, the points along each input,
    Z is a grid, the kernel an RBF, and jitter stands on each factor of K_zz (fast/grid.py).
    """

    kernel: Kernel
    num_inducing: int
    output_dim: int
    mean: str
    mixed: int = 0
    grid: tuple[int, ...] = ()
    kind: ClassVar[str] = "gp"
    variational: ClassVar[tuple[str, ...]] = ("q_mu", "q_sqrt")  # parameters of q, by name or folder
    has_point: ClassVar[bool] = True  # whether the form of a q(u) without covariance is there (fast/point.py)

    @property
    def input_dim(self) -> int:
        return self.kernel.input_dim

    @property
    def width(self) -> int:
        """Output dimension of the layer."""
        return self.mixed or self.output_dim

    @property
    def noise_dim(self) -> int:
        return self.output_dim

    def describe(self) -> str:
        return f"{self.mixed} ({self.output_dim} GPs mixed)" if self.mixed else str(self.output_dim)

    def constraints(self) -> dict[str, Constraint]:
        return {"q_sqrt": LOWER} | below("kernel", self.kernel.constraints())

    def form(self, columns: int, exact: bool) -> str:
        """Return the cheapest batch form for `columns` columns, in float64 if `exact`."""
        return forms.cheaper_form(self.output_dim, self.num_inducing, columns, exact)

    # ---- M x M part ----------------------------------------------------------------------------------

    def gram(self, p: Mapping[str, tf.Tensor], jitter) -> tf.Tensor:
        """Return K_zz (M, M) with jitter on its diagonal."""
        if self.grid:
            return point.grid_gram(point.along(p["Z"], self.grid), *self.scales(p), jitter)
        return self._gram(self.kernel.prepare(scope(p, "kernel"), p["Z"]), p["Z"].dtype, jitter)

    def scales(self, p: Mapping[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Return lengthscales and variance of a kernel with one part."""
        own = scope(p, f"kernel/{self.kernel.names[0]}")
        return own["lengthscales"], own["variance"]

    def _gram(self, kernel: dict, dtype, jitter) -> tf.Tensor:
        return self.kernel.gram(kernel) + jitter * tf.eye(self.num_inducing, dtype=dtype)

    def prepare(
        self, p: Mapping[str, tf.Tensor], how: Preparation
    ) -> tuple[PreparedGP, tuple[tf.Tensor, tf.Tensor] | None]:
        """Return the layer as `conditional` reads it, and the tensors m and S - I that it was made from.

        A point has no S, and None instead of the tensors.
        """
        q = how.q or Whitened(p["q_mu"], p["q_sqrt"])
        kernel = self.kernel.prepare(scope(p, "kernel"), p["Z"])
        Kzz = self.gram(p, how.jitter) if self.grid else self._gram(kernel, p["Z"].dtype, how.jitter)
        if how.form == "point":
            return PreparedGP(kernel, point.make(Kzz, q.mean, how.compiled), *self._maps(p)), None
        form, watched = forms.make(how.form, Kzz, q, how.batch_dtype, how.natural)
        return PreparedGP(kernel, form, *self._maps(p)), watched

    def _maps(self, p: Mapping[str, tf.Tensor]) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        """Return W of the mean function and P of the mixing, each empty if the layer has none."""
        return {"W": p["W"]} if self.mean == "linear" else {}, {"P": p["P"]} if self.mixed else {}

    def penalty(self, p: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """KL(q(u) || p(u))."""
        return kl_divergence(p["q_mu"], p["q_sqrt"])

    # ---- batch part ----------------------------------------------------------------------------------

    def conditional(self, batch: PreparedGP, H: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return mean and variance (P, B) of the GPs at each column of H (D, B).

        The mean includes the mean function unless the GPs are mixed.
        """
        mean, quad = batch.form.moments(self.kernel.cross(batch.kernel, H))
        var = self.kernel.diagonal(batch.kernel, H) + quad
        if quad.shape[0] < mean.shape[0]:  # one S for all outputs
            var = tf.broadcast_to(var, mean.shape)
        return mean if self.mixed else self.add_mean(batch, mean, H), var

    def add_mean(self, batch: PreparedGP, F: tf.Tensor, H: tf.Tensor) -> tf.Tensor:
        """Return F plus the mean function at H."""
        return self.with_mean(batch.mean, F, H)

    def with_mean(self, p: Mapping[str, tf.Tensor], F: tf.Tensor, H: tf.Tensor) -> tf.Tensor:
        """Return F plus the mean function at H, from the layer's parameters p."""
        if self.mean == "identity":
            return F + H
        if self.mean == "linear":
            return F + tf.matmul(p["W"], H, transpose_a=True)  # W is D, width
        return F

    def carry(self, batch: PreparedGP, H: tf.Tensor, flow: Flow) -> tf.Tensor:
        """Draw the layer's outputs (width, K C) at H, from the next rows of the flow's noise."""
        return self.sample(batch, H, flow.draw(self.noise_dim, H), flow.together, flow.jitter)

    def sample(self, batch: PreparedGP, H: tf.Tensor, eps: tf.Tensor, K: int = 1, jitter=None) -> tf.Tensor:
        """Draw the layer's outputs (width, K * C) at each column of H (D, K * C).

        The K columns of a point come from one draw of the function (joint_samples.py); different points from
        different ones, as in DSVI. eps (output_dim, K * C) is standard normal. With K = 1 it may have S
        columns for each of H, in S blocks: S independent draws at each column, from moments computed once.
        """
        if K == 1:
            mean, var = self.conditional(batch, H)
            sd = tf.sqrt(tf.maximum(var, VARIANCE_FLOOR[var.dtype]))
            if (S := eps.shape[1] // H.shape[1]) > 1:
                mean, sd, H = (tf.tile(A, (1, S)) for A in (mean, sd, H))
            F = mean + sd * eps
            return self._mix(batch, F, H) if self.mixed else F
        H, for_kernel = tf.identity(H), tf.identity(H)  # at most two gradients to add for any tensor
        mean, form, among = self.joint_moments(batch, for_kernel, K)
        jitter = joint_samples.enough_jitter(jitter, among)
        F = joint_samples.sample(mean, form + among, eps, K, jitter)
        return self._mix(batch, F, H) if self.mixed else self.add_mean(batch, F, H)

    def joint_moments(self, batch: PreparedGP, H: tf.Tensor, K: int) -> tuple[tf.Tensor, ...]:
        """Return the mean (P, K * C) of the GPs at H (D, K * C) without mean function, and both parts of the
        covariances between the K columns of a point (joint_samples.py).

        The part of q(u) has shape (T, P, C), the part of the prior (T, 1, C).
        """
        rows = self.kernel.cross_rows(batch.kernel, joint_samples.points_first(H, K))  # C K, M
        mean, form = batch.form.joint_moments(rows, K)
        among = joint_samples.prior_covariance(self.kernel, batch.kernel, H, K)  # T, C
        return joint_samples.samples_first(mean, K), form, among[:, None, :]

    def _mix(self, batch: PreparedGP, F: tf.Tensor, H: tf.Tensor) -> tf.Tensor:
        """Return P f plus the mean function (width, B) for draws F (output_dim, B) of the GPs."""
        return self.add_mean(batch, tf.matmul(batch.mixing["P"], F), H)


def whiten(L: tf.Tensor, K: tf.Tensor) -> tf.Tensor:
    """Return A = L^-1 K with its whole gradient, in L and in K; L is the Cholesky factor of `GPLayer.gram`.

    New methods use this A. The A inside the fast forms has no gradient in L, and `fence` protects it.
    """
    return tf.linalg.triangular_solve(L, K)


def whiten_rows(L: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Whiten each row of (P, M); L is (M, M), or (P, M, M) where each output has its own."""
    if L.shape.rank == 3:
        return whiten(L, rows[:, :, None])[:, :, 0]
    return tf.transpose(whiten(L, tf.transpose(rows)))


def whiten_root(L: tf.Tensor, R: tf.Tensor) -> tf.Tensor:
    """Return L^-1 R_p (P, M, M) for lower triangles R_p; L as in `whiten_rows`."""
    if L.shape.rank == 3:
        return tf.linalg.band_part(whiten(L, R), -1, 0)
    P, M, _ = R.shape
    side_by_side = tf.reshape(tf.transpose(R, (1, 0, 2)), (M, P * M))
    R = tf.reshape(whiten(L, side_by_side), (M, P, M))
    return tf.linalg.band_part(tf.transpose(R, (1, 0, 2)), -1, 0)


@tf.custom_gradient
def inner_products(G: tf.Tensor) -> tf.Tensor:
    """Return G G^T (..., P, P) for G (..., P, K); its gradient is one product, autodiff needs two."""
    products = tf.matmul(G, G, transpose_b=True)
    return products, lambda d: tf.matmul(d + tf.linalg.matrix_transpose(d), G)


@tf.custom_gradient
def kl_divergence(m: tf.Tensor, L: tf.Tensor) -> tf.Tensor:
    """Return KL(N(m, L L^T) || N(0, I)) summed over outputs, for m (P, M) and L (P, M, M).

    Each argument has one gradient, so that no sum depends on the order of its terms (see gp/kernels).
    """
    diagonal = tf.linalg.diag_part(L)
    log_det = 2.0 * tf.reduce_sum(tf.math.log(tf.abs(diagonal)))
    squares = tf.reduce_sum(tf.square(m)) + tf.reduce_sum(tf.square(L))
    value = 0.5 * (squares - tf.cast(tf.size(m), m.dtype) - log_det)
    return value, lambda g: (g * m, g * tf.linalg.set_diag(L, diagonal - 1.0 / diagonal))


@dataclass(frozen=True)
class SeparateLayer(GPLayer):
    """A kernel for each output; Z too where the values have one for each."""

    has_point = False

    def _prepared_kernel(self, p: Mapping[str, tf.Tensor]):
        own = {n: v[:, None, None] if v.shape.rank == 1 else v for n, v in scope(p, "kernel").items()}
        return self.kernel.prepare(own, p["Z"])

    def form(self, columns: int, exact: bool) -> str:
        return separate.cheaper_form(self.num_inducing, columns, exact)

    def gram(self, p: Mapping[str, tf.Tensor], jitter) -> tf.Tensor:
        """K_zz (P, M, M) with jitter on its diagonals."""
        return self._gram(self._prepared_kernel(p), p["Z"].dtype, jitter)

    def prepare(
        self, p: Mapping[str, tf.Tensor], how: Preparation
    ) -> tuple[PreparedGP, tuple[tf.Tensor, tf.Tensor]]:
        kernel = self._prepared_kernel(p)
        Kzz = self._gram(kernel, p["Z"].dtype, how.jitter)
        q = how.q or Whitened(p["q_mu"], p["q_sqrt"])
        form, watched = separate.make(how.form, Kzz, q, how.batch_dtype)
        return PreparedGP(kernel, form, *self._maps(p)), watched

    def joint_moments(self, batch: PreparedGP, H: tf.Tensor, K: int) -> tuple[tf.Tensor, ...]:
        """As in GPLayer, with (T, P, C) of the prior too."""
        rows = self.kernel.cross_rows(batch.kernel, joint_samples.points_first(H, K))  # P, C K, M
        mean, form = batch.form.joint_moments(rows, K)
        mean = tf.linalg.matrix_transpose(tf.reshape(mean, (self.output_dim, -1, K)))  # P, K, C
        among = joint_samples.prior_covariance(self.kernel, batch.kernel, H, K)  # P, T, C
        return tf.reshape(mean, (self.output_dim, -1)), form, tf.transpose(among, (1, 0, 2))
