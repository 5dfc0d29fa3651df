"""Global inducing points (Ober and Aitchison 2021): inducing inputs pass through the layers.

A layer's inducing inputs Z are the outputs of the layer below at its own, as drawn. Each layer has noisy
pseudo-observations v of its GPs there, with covariance N = R R^T that its outputs share:
    q(u | Z) proportional to p(u | Z) N(v; u, N),
GP regression on v. With K = k(Z, Z) = L L^T, u = L w, K + N = B B^T and V = B^-1 L, w has
    mean V^T B^-1 v,   covariance I - V^T V,   determinant |N| / |K + N|,
and a draw is w0 + V^T B^-1 (v - L w0 - R e) for standard normal w0 and e: nothing is inverted that may be
small. q(u) follows its inputs, so that layers are correlated with no parameters for it. Where each output has
a kernel, K, L, B and V have a leading axis of outputs, and N is still one for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dgpbench.gp.lazy import lazy
from dgpbench.inference.drawn import Given, PassedThrough, PassedThroughMethod, fan_out, normals

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

    from dgpbench.gp import parameters, propagation
    from dgpbench.gp.deep_gp import DeepGP
    from dgpbench.gp.parameters import Constraint
else:
    tf, parameters = lazy("tensorflow"), lazy("dgpbench.gp.parameters")
    propagation = lazy("dgpbench.gp.propagation")


@dataclass(frozen=True)
class GlobalInducing(PassedThrough):
    """q_mu (P, M) of a layer are its pseudo-observations v, q_noise (M, M) is R."""

    def initial(self, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """v = 0, or under a zero mean function where the next layer's Z stands; its noise has the deviation
        that a mean-field q(u) starts with."""
        out = {name: v for name, v in values.items() if not name.endswith("/q_sqrt")}
        for i, layer in enumerate(self.model.layers):
            out[f"layer{i}/q_noise"] = values[f"layer{i}/q_sqrt"][0]
            after = values.get(f"layer{i + 1}/Z")
            if layer.mean == "zero" and after is not None and not layer.mixed:
                out[f"layer{i}/q_mu"] = after.T
        return out

    def constraints(self) -> dict[str, Constraint]:
        return self.model.constraints() | {f"layer{i}/q_noise": parameters.LOWER for i in self.model.gps}

    def given(self, layer, p: Mapping[str, tf.Tensor], K: tf.Tensor, Z: tf.Tensor, key) -> Given:
        P, M = p["q_mu"].shape
        K, for_L = fan_out(K, 2)
        L, L_for_draw, L_for_outputs = fan_out(tf.linalg.cholesky(for_L), 3)
        R, R_for_draw, R_for_kl = fan_out(p["q_noise"], 3)
        B = tf.linalg.cholesky(K + tf.matmul(R, R, transpose_b=True))
        B, B_for_mean, B_for_draw, B_for_kl = fan_out(B, 4)
        V, V_for_draw, V_for_S, V_for_kl = fan_out(tf.linalg.triangular_solve(B, L), 4)
        v, v_for_draw = fan_out(_columns(tf.transpose(p["q_mu"]), K), 2)
        mean = tf.matmul(tf.linalg.triangular_solve(B_for_mean, v), V, transpose_a=True)  # P, M or P, 1, M
        mean, mean_for_kl = fan_out(tf.reshape(mean, (P, M)), 2)
        log_det = 2.0 * (_log_diagonal(R_for_kl) - _log_diagonal(B_for_kl))  # of each covariance of w
        spread = P * tf.reduce_mean(tf.reduce_sum(tf.square(V_for_kl), (-2, -1)) + log_det)
        kl = 0.5 * (tf.reduce_sum(tf.square(mean_for_kl)) - spread)
        if key is None:
            excess = -tf.matmul(V_for_S, V_for_S, transpose_a=True)
            return Given(propagation.Whitened(mean, excess=tf.reshape(excess, (-1, M, M))), kl)
        w, e = (_columns(A, K) for A in tf.unstack(normals(key, (2, M, P), K.dtype)))
        gap = v_for_draw - tf.matmul(L_for_draw, w) - tf.matmul(R_for_draw, e)
        w += tf.matmul(V_for_draw, tf.linalg.triangular_solve(B_for_draw, gap), transpose_a=True)
        w, w_for_outputs = fan_out(tf.linalg.matrix_transpose(w), 2)  # P, M or P, 1, M
        u = tf.reshape(tf.matmul(w_for_outputs, L_for_outputs, transpose_b=True), (P, M))
        outputs = layer.with_mean(p, tf.matmul(p["P"], u) if layer.mixed else u, Z)
        return Given(propagation.Whitened(tf.reshape(w, (P, M))), kl, outputs)


def _columns(A: tf.Tensor, K: tf.Tensor) -> tf.Tensor:
    """Columns (M, P) as factors of K multiply them: as they are, or (P, M, 1) for a K of each output."""
    return A if K.shape.rank == 2 else tf.transpose(A)[:, :, None]


def _log_diagonal(A: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.math.log(tf.abs(tf.linalg.diag_part(A))), -1)


class Global(PassedThroughMethod):
    def bound(self, model: DeepGP) -> GlobalInducing:
        return GlobalInducing(model, self.settings["samples"])
