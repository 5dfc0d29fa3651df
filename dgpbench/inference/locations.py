"""Inducing points as inducing locations (Ustyuzhaninov et al. 2020, section 4.2).

Inducing inputs stand at the first layer only. What the layers give there has a Gaussian posterior each,
    q(f_l) = N(m_l, S_l), l = 1..L,
not whitened, the mean function included and independent of the others: f_{l-1} are the inducing inputs of
layer l and f_l its inducing outputs, so that the functions between them depend on both. The bound is
    E log p(y | f_L) - sum_l E KL(q(f_l) || N(mean(f_{l-1}), K(f_{l-1}))),
both expectations over the same draws. With K = L L^T the layer's u = f_l - mean(f_{l-1}) has whitened mean
L^-1 (m_l - mean) and root L^-1 R_l, S_l = R_l R_l^T. With a kernel for each output, each has its K and L.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dgpbench.gp.lazy import lazy
from dgpbench.inference.drawn import Given, PassedThrough, PassedThroughMethod, fan_out, normals

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

    from dgpbench.gp import layer as gp_layer
    from dgpbench.gp import parameters, propagation
    from dgpbench.gp.deep_gp import DeepGP
else:
    tf, gp_layer = lazy("tensorflow"), lazy("dgpbench.gp.layer")
    parameters, propagation = lazy("dgpbench.gp.parameters"), lazy("dgpbench.gp.propagation")

START_JITTER = 1e-6  # of the Gram matrices at the start


@dataclass(frozen=True)
class LocationsBound(PassedThrough):
    """q_mu (P, M) of a layer is m, q_sqrt (P, M, M) is R."""

    def initial(self, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The start of a mean-field q(u) in these coordinates: inner means are the next layer's Z."""
        out = dict(values)
        for i, layer in enumerate(self.model.layers):
            p = {name: tf.constant(v) for name, v in parameters.scope(values, f"layer{i}").items()}
            L = tf.linalg.cholesky(layer.gram(p, START_JITTER)).numpy()
            mean, root = self.model.parameter_names(i)
            after = values.get(f"layer{i + 1}/Z")
            u = values[mean] @ L.T if L.ndim == 2 else (L @ values[mean][:, :, None])[:, :, 0]  # P, M
            out[mean] = u + (0.0 if after is None else after.T)
            out[root] = L @ values[root]
        return out

    def given(self, layer, p: Mapping[str, tf.Tensor], K: tf.Tensor, Z: tf.Tensor, key) -> Given:
        P, M = p["q_mu"].shape
        L, L_for_root, L_for_draw = fan_out(tf.linalg.cholesky(K), 3)
        m, m_for_draw = fan_out(p["q_mu"], 2)
        R, R_for_draw = fan_out(p["q_sqrt"], 2)
        mean, mean_for_draw = fan_out(layer.with_mean(p, tf.zeros((P, M), K.dtype), Z), 2)
        m, m_for_kl = fan_out(gp_layer.whiten_rows(L, m - mean), 2)
        R, R_for_kl = fan_out(gp_layer.whiten_root(L_for_root, R), 2)
        kl = gp_layer.kl_divergence(m_for_kl, R_for_kl)
        if key is None:
            return Given(propagation.Whitened(m, R), kl)
        f = m_for_draw + tf.linalg.matvec(R_for_draw, normals(key, (P, M), K.dtype))
        f, outputs = fan_out(f, 2)
        u = gp_layer.whiten_rows(L_for_draw, f - mean_for_draw)
        return Given(propagation.Whitened(u), kl, outputs)


class Locations(PassedThroughMethod):
    def refuses(self, model: Mapping[str, Any], likelihood: str) -> str | None:
        if reason := super().refuses(model, likelihood):
            return reason
        own = self.settings["name"]
        overrides = (model.get("layer_overrides") or {}).values()
        if any(part.get("inner_gps") for part in (model, *overrides)) and len(model["layers"]) > 1:
            return (
                f"inference={own} has a posterior of what leaves a layer, which mixed GPs (model.inner_gps) "
                "do not span; set model.inner_gps=null or use inference=global_inducing"
            )
        return None

    def bound(self, model: DeepGP) -> LocationsBound:
        return LocationsBound(model, self.settings["samples"])
