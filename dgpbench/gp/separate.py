"""A GP layer in which every output has a kernel of its own, and by choice inducing inputs of its own: what
layer.py has with a leading axis of outputs, in batched products and Choleskys.

Hyperparameters have that axis first: a variance is (P,), lengthscales are (P, D); Z is (M, D), or (P, M, D)
where each output has its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import tensorflow as tf

from dgpbench.gp.fast import joint, separate
from dgpbench.gp.layer import GPLayer, PreparedGP
from dgpbench.gp.parameters import scope
from dgpbench.gp.preparation import Preparation, Whitened


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
        rows = self.kernel.cross_rows(batch.kernel, joint.points_first(H, K))  # P, C K, M
        mean, form = batch.form.joint_moments(rows, K)
        mean = tf.linalg.matrix_transpose(tf.reshape(mean, (self.output_dim, -1, K)))  # P, K, C
        among = joint.prior_covariance(self.kernel, batch.kernel, H, K)  # P, T, C
        return tf.reshape(mean, (self.output_dim, -1)), form, tf.transpose(among, (1, 0, 2))
