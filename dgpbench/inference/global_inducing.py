"""Methods whose inducing inputs pass through the layers: global inducing points, and inducing locations.

Inducing inputs are parameters of the first layer only. The inducing inputs Z of a layer above are the drawn
outputs of the layer below at its own inducing inputs.

Global inducing points (Ober and Aitchison 2021): each layer has noisy pseudo-observations v of its GPs at Z,
with covariance N = R R^T that its outputs share:
    q(u | Z) proportional to p(u | Z) N(v; u, N),
GP regression on v. With K = k(Z, Z) = L L^T, u = L w, K + N = B B^T and V = B^-1 L, w has
    mean V^T B^-1 v,   covariance I - V^T V,   determinant |N| / |K + N|,
and a draw is w0 + V^T B^-1 (v - L w0 - R e) for standard normal w0 and e: nothing is inverted that may be
small. q(u) follows its inputs, so that layers are correlated without parameters for the correlation. Where
each output has a kernel, K, L, B and V have a leading axis of outputs, and all outputs share one N.

Inducing locations (Ustyuzhaninov et al. 2020, section 4.2): the outputs of each layer at its inducing inputs
have a Gaussian posterior,
    q(f_l) = N(m_l, S_l), l = 1..L,
not whitened, including the mean function and independent of the other layers. f_{l-1} are the inducing inputs
of layer l and f_l its inducing outputs, so that the functions between them depend on both. The bound is
    E log p(y | f_L) - sum_l E KL(q(f_l) || N(mean(f_{l-1}), K(f_{l-1}))),
both expectations over the same draws. With K = L L^T the layer's u = f_l - mean(f_{l-1}) has whitened mean
L^-1 (m_l - mean) and root L^-1 R_l, S_l = R_l R_l^T. With a kernel for each output, each has its K and L.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from dgpbench.gp.lazy import lazy
from dgpbench.inference.adam_method import any_own_inducing
from dgpbench.inference.base import Numerics
from dgpbench.inference.drawn import Drawn, DrawnMethod, fan_out, normals, stream

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

    from dgpbench.gp import layer as gp_layer
    from dgpbench.gp import parameters, propagation
    from dgpbench.gp.deep_gp import DeepGP
    from dgpbench.gp.parameters import Constraint
else:
    tf, gp_layer = lazy("tensorflow"), lazy("dgpbench.gp.layer")
    parameters, propagation = lazy("dgpbench.gp.parameters"), lazy("dgpbench.gp.propagation")


class Given(NamedTuple):
    """A layer given its inducing inputs: q(u) whitened, a drawn point in an inner layer; KL(q(u) || p(u))
    before the draw; the drawn outputs at the inducing inputs (width, M), in an inner layer."""

    q: Any
    kl: tf.Tensor
    outputs: tf.Tensor | None = None


@dataclass(frozen=True)
class PassedThrough(Drawn):
    """A subclass has `given`. Z of the layers above the first only tells their structure."""

    def given(self, layer, p: Mapping[str, tf.Tensor], K: tf.Tensor, Z: tf.Tensor, key) -> Given:
        """The layer with parameters p at inducing inputs Z (D, M), K = k(Z, Z) with jitter (M, M), or
        (P, M, M) where each output has a kernel; `key` seeds the draw of an inner layer, and is None in the
        last."""
        raise NotImplementedError

    def draw(self, values, numerics: Numerics, key) -> tuple[dict[str, Any], dict[int, tf.Tensor]]:
        layers, penalties, last = {}, {}, len(self.model.layers) - 1
        dtype = numerics.batch_dtype or values["layer0/Z"].dtype
        Z = values["layer0/Z"]
        for i, layer in enumerate(self.model.layers):
            for_gram, for_mean, here = fan_out(Z, 3)
            p = parameters.scope(values, f"layer{i}")
            K = layer.gram(p | {"Z": for_gram}, numerics.jitter)
            own = stream(key, i) if i < last else None
            found = self.given(layer, p, K, tf.transpose(for_mean), own)
            form = numerics.forms[i] if numerics.forms else "white"
            how = propagation.Preparation(numerics.jitter, form, dtype, q=found.q)
            layers[f"layer{i}"], _ = layer.prepare(p | {"Z": here}, how)
            penalties[i] = found.kl
            if found.outputs is not None:
                Z = tf.transpose(found.outputs)
        return layers, penalties


class PassedThroughMethod(DrawnMethod):
    """What the methods of `PassedThrough` share: one set of inducing points for all layers and outputs."""

    own_kernels = True

    def refuses(self, model: Mapping[str, Any], likelihood: str) -> str | None:
        if reason := super().refuses(model, likelihood):
            return reason
        own = self.settings["name"]
        if any_own_inducing(model):
            return (
                f"inference={own} takes model.per_output=kernel, not all: the outputs of a layer share the "
                "inducing inputs that pass through; use kernel or set model.per_output=none"
            )
        overrides = model.get("layer_overrides") or {}
        layers = range(len(model.get("layers", ())))
        counts = [overrides.get(str(i), {}).get("num_inducing", model["num_inducing"]) for i in layers]
        if len(set(counts)) < 2:
            return None
        return (
            f"inference={own} passes the same inducing points through all layers; model.layer_overrides "
            f"gives them {', '.join(map(str, counts))}: set model.num_inducing alone"
        )


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
