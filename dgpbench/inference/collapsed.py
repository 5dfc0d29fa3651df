"""The collapsed bound of the GP-LVM (Titsias and Lawrence 2010): q(u) at its optimum, in closed form.

One GP with Gaussian noise s2 behind latent variables, q(w) = N(a, b^2). With psi statistics (gp/psi.py) of
the inputs h = [x, w] or [A x, w], K_zz = L L^T, N rows and P outputs,
    A = L^-1 psi1 (M, N),   C = I + L^-1 (sum_n psi2) L^-T / s2 = R R^T,   c = R^-1 A Y^T / s2 (M, P),
    bound = -N P / 2 log(2 pi s2) - |Y|^2 / (2 s2) - P / 2 log|C| + |c|^2 / 2
            - P / 2 (sum_n psi0 / s2 - tr(C - I)) - KL(q(w)) - KL(q(A)),
reached by whitened q(u) = N(C^-1 A Y^T / s2, C^-1), the same covariance for every output. No minibatches.

`CollapsedAdam` moves the other parameters by Adam and sets q(u) to its optimum after every step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from dgpbench.config.schema import Field, show_value
from dgpbench.errors import UserError
from dgpbench.gp.lazy import lazy
from dgpbench.inference.adam_method import ADAM_FIELDS, ADAM_RATES, AdamMethod
from dgpbench.inference.analytic import kernels_without_psi
from dgpbench.inference.base import Batch, Bound, Oracle, Update
from dgpbench.inference.drawn import fan_out

if TYPE_CHECKING:
    import tensorflow as tf

    from dgpbench.gp import latent, layer, parameters, propagation, psi
    from dgpbench.gp.deep_gp import DeepGP
    from dgpbench.gp.layer import GPLayer
    from dgpbench.inference.base import Values
    from dgpbench.inference.updates import adam
else:
    tf, psi, latent = lazy("tensorflow"), lazy("dgpbench.gp.psi"), lazy("dgpbench.gp.latent")
    propagation, parameters = lazy("dgpbench.gp.propagation"), lazy("dgpbench.gp.parameters")
    layer, adam = lazy("dgpbench.gp.layer"), lazy("dgpbench.inference.updates.adam")

LAYERS = (["lv", "gp"], ["linear", "lv", "gp"])
NOT_GAUSSIAN = "inference=collapsed is for Gaussian noise, not likelihood={}; use inference=vi"


class Optimum(NamedTuple):
    """The bound, and the q(u) that reaches it: mean (P, M) and a lower root (M, M) of the covariance."""

    bound: tf.Tensor
    mean: tf.Tensor
    root: tf.Tensor


def optimum(model: DeepGP, values: Values, X: tf.Tensor, Y: tf.Tensor, jitter) -> Optimum:
    """The collapsed bound at all N columns of X (D, N), Y (P, N)."""
    last: GPLayer = model.layers[-1]
    held = parameters.scope(values, f"layer{len(model.layers) - 1}")
    pairs = {name: fan_out(v, 2) for name, v in held.items() if not name.startswith("q_")}
    own, for_gram = ({name: pair[k] for name, pair in pairs.items()} for k in (0, 1))
    P, N, M = Y.shape[0], tf.cast(tf.shape(Y)[1], Y.dtype), last.num_inducing
    s2 = fan_out(values["likelihood/variance"], 5)
    h, penalty = gaussian_inputs(model, values, X, Y, jitter)
    kernel = last.kernel.prepare(parameters.scope(own, "kernel"), own["Z"])
    L = fan_out(tf.linalg.cholesky(last.gram(for_gram, jitter)), 3)
    A = layer.whiten(L[0], psi.psi1(last.kernel, kernel, h))
    half = layer.whiten(L[1], _summed(psi.psi2(last.kernel, kernel, h), M))
    B = layer.whiten(L[2], tf.transpose(half)) / s2[0]
    R = tf.linalg.cholesky(tf.eye(M, dtype=Y.dtype) + 0.5 * (B + tf.transpose(B)))
    c = layer.whiten(R, tf.matmul(A, Y, transpose_b=True)) / s2[1]
    psi0 = N * tf.reduce_mean(psi.psi0(last.kernel, kernel, h))  # (1, N), or (1, 1) where all are alike
    log_det = 2.0 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(R)))
    bound = -0.5 * (N * P * tf.math.log(2.0 * math.pi * s2[2]) + tf.reduce_sum(tf.square(Y)) / s2[3])
    bound += 0.5 * (tf.reduce_sum(tf.square(c)) - P * (log_det + psi0 / s2[4] - tf.linalg.trace(B)))
    mean = tf.transpose(tf.linalg.triangular_solve(R, c, adjoint=True))
    root = tf.linalg.cholesky(tf.linalg.cholesky_solve(R, tf.eye(M, dtype=Y.dtype)))
    return Optimum(bound - penalty, mean, root)


def gaussian_inputs(model: DeepGP, values: Values, X, Y, jitter) -> tuple[psi.Inputs, tf.Tensor]:
    """Inputs of the last layer under q(w) and q(A), independent Gaussians, and the KL divergence of both."""
    mean, var, penalty = X, tf.zeros_like(X), tf.zeros((), X.dtype)
    how = propagation.Preparation(jitter, rows=tf.range(tf.shape(X)[1]))
    for i, front in enumerate(model.layers[:-1]):
        own = parameters.scope(values, f"layer{i}")
        batch, _ = front.prepare(own, how)
        if front.kind == "linear":
            var = tf.matmul(batch["variance"], tf.square(mean))  # A is drawn once: x is certain
            mean = tf.matmul(batch["mean"], mean)
            penalty += front.penalty(own)
        else:
            rows = own["local/mean"].shape[0] if front.q == "free" else None
            seen = [tf.ensure_shape(A, (A.shape[0], rows)) for A in (X, Y)]
            a, b = front.posterior(batch, *seen, tf.constant(0))
            scale = batch["scale"]
            mean = tf.concat([mean, scale * a], 0)
            var = tf.concat([var, tf.square(scale * b)], 0)
            penalty += tf.reduce_sum(latent.kl_from_prior(a, b))
    return psi.Inputs(mean, var), penalty


def _summed(lower: tf.Tensor, M: int) -> tf.Tensor:
    """The symmetric matrix (M, M) summed over points, from the lower triangles (T, N) of psi2."""
    i, j = psi.pairs(M)
    total = tf.reduce_sum(lower, 1)
    half = tf.scatter_nd(list(zip(i, j, strict=True)), total, (M, M))
    return half + tf.transpose(half) - tf.linalg.diag(tf.linalg.diag_part(half))


class CollapsedGPLVM(AdamMethod):
    fields: ClassVar[Mapping[str, Field]] = {
        "latent_q": Field(str, choices=("free", "amortised")),
        "encoder": Field(list),
        **ADAM_FIELDS,
    }

    def refuses(self, model: Mapping[str, Any], likelihood: str) -> str | None:
        layers = model.get("layers")
        if layers not in LAYERS:
            return (
                f"inference=collapsed is for one GP behind latent variables, model.layers=[lv,gp] or "
                f"[linear,lv,gp], such as model=gplvm or cde; model={model['name']} has "
                f"{show_value(layers)}: use inference=vi, or model=sgpr without latent variables"
            )
        if likelihood not in ("auto", "gaussian"):
            return NOT_GAUSSIAN.format(likelihood)
        if model.get("output_gps"):
            return (
                f"model.output_gps={model['output_gps']} makes correlated outputs, whose best q(u) has no "
                "factor for each GP; set model.output_gps=null or use inference=vi"
            )
        if self.cfg["precision"] == "float32":
            return "inference=collapsed solves with Cholesky factors; use precision=mixed or float64"
        return kernels_without_psi("collapsed", model, "inference=vi")

    def bound(self, model: DeepGP) -> Bound:
        from dgpbench.inference.bounds import VI

        if model.likelihood.name != "gaussian":
            raise UserError(NOT_GAUSSIAN.format(model.likelihood.name))
        return VI(model, self.settings["samples"])

    def update(self, bound: Bound) -> Update:
        return CollapsedAdam(bound)


@dataclass(frozen=True)
class CollapsedAdam(Update):
    """The objective is `optimum` at all rows, not the oracle's."""

    fit: Bound  # for constraints and structure
    rates = ADAM_RATES
    needs_all_rows = "inference=collapsed"

    @property
    def posterior_names(self) -> tuple[str, str]:
        return self.fit.model.parameter_names(len(self.fit.model.layers) - 1)

    def slots(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        return adam.adam_slots(
            {name: shapes[name] for name in adam.without(list(shapes), self.posterior_names)}
        )

    def step(self, oracle: Oracle, batch: Batch) -> tuple[tf.Tensor, int]:
        names = adam.without(oracle.trainable, self.posterior_names)
        with tf.GradientTape() as tape:
            raw = {name: v.read_value() for name, v in oracle.raw.items()}
            tape.watch([raw[name] for name in names])
            found = self._optimum(oracle, batch, raw)
        watched, zero = [raw[name] for name in names], tf.UnconnectedGradients.ZERO
        found_gradients = tape.gradient(found.bound, watched, unconnected_gradients=zero)
        dense = [tf.convert_to_tensor(g) for g in found_gradients]  # those of gathered rows come as slices
        bound, gradients = adam.all_there((found.bound, dict(zip(names, dense, strict=True))))
        adam.adam_step(oracle, gradients, batch.step)
        after = self._optimum(oracle, batch, {name: v.read_value() for name, v in oracle.raw.items()})
        mean, root = self.posterior_names
        oracle.raw[mean].assign(after.mean)
        oracle.raw[root].assign(tf.broadcast_to(after.root, oracle.raw[root].shape))
        return bound, 0

    def _optimum(self, oracle: Oracle, batch: Batch, raw: Mapping[str, tf.Tensor]) -> Optimum:
        values = parameters.constrain(raw, self.fit.constraints())
        X, Y = (tf.cast(tf.transpose(A), oracle.jitter.dtype) for A in (batch.X, batch.Y))
        return optimum(self.fit.model, values, X, Y, oracle.jitter)
