"""Variational bounds of deep GPs with and without latent variables.

    VI        doubly stochastic variational inference, thesis (2.19) and (5.3):
              sum_n E[L_n - KL_w] - KL,   L_n analytic in the last layer (5.8)
    DirectVI  the same with q(u) = N(m, S) parameterised directly, not relative to the prior (thesis 3.3)
    IWVI      importance weighted, with the analytic last layer, thesis (5.11):
              sum_n E log 1/K sum_k exp(L_n^k) p(w^k) / q(w^k) - KL
    Optimal   the best q(w), integrated out by quadrature; thesis (4.8) with its logarithm corrected:
              sum_n E log of the integral of exp(L_n(w)) p(w) dw - KL

Sums are written with `+`, one after the other, because tf.add_n adds in an order that depends on timing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import tensorflow as tf

from dgpbench.gp import deep_gp, latent, quadrature
from dgpbench.gp.deep_gp import expected_log_likelihood, mixed_outputs, propagate
from dgpbench.gp.fast.forms import fenced
from dgpbench.gp.fast.joint_samples import UNROLLED
from dgpbench.gp.layer import kl_divergence, whiten_root, whiten_rows
from dgpbench.gp.parameters import scope
from dgpbench.gp.propagation import Whitened
from dgpbench.inference.base import Bound, Numerics
from dgpbench.inference.drawn import fan_out
from dgpbench.inference.hyperpriors import Prior, penalty_of


@dataclass(frozen=True)
class VI(Bound):
    """Mean-field q(u) and, with latent variables, q(w) = N(a, b^2).

    `priors`, by parameter, add log p(theta): the best theta is then a mode of its logarithm.
    """

    priors: tuple[tuple[str, Prior], ...] = field(default=(), kw_only=True)

    def penalty(self, values, prepared, numerics: Numerics) -> dict[int, tf.Tensor]:
        return super().penalty(values, prepared, numerics) | penalty_of(self.priors, values)

    def terms(self, prepared, X, Y, noise, start) -> tf.Tensor:
        Xs, Ys = tf.tile(X, (1, self.samples)), tf.tile(Y, (1, self.samples))
        if not self.model.latent:
            return expected_log_likelihood(self.model, prepared, Xs, Ys, noise)[0]
        q = self.latent_posteriors(prepared, X, Y, start)
        w = self.latent_draws(q, noise)
        ell = expected_log_likelihood(self.model, prepared, Xs, Ys, noise, w)
        return ell[0] - sum(latent.kl_from_prior(a, b) for a, b in q)

    def weighted_latents(self, prepared, X, Y, noise, start) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Return w (dim, K, C) of each latent layer and log exp(L_n^k) p(w^k) / q(w^k) (K, C).

        They serve resampling (5.2.4); K is 1 here.
        """
        return self._weighted(prepared, X, Y, noise, start, True)

    def _weighted(self, prepared, X, Y, noise, start, joint: bool):
        q = self.latent_posteriors(prepared, X, Y, start)
        w = self.latent_draws(q, noise)
        Xs, Ys = tf.tile(X, (1, self.samples)), tf.tile(Y, (1, self.samples))
        ell = expected_log_likelihood(self.model, prepared, Xs, Ys, noise, w, self.importance, joint)
        return w, ell + log_ratio(w, q)

    @property
    def importance(self) -> int:
        """K, the number of samples of w inside the logarithm."""
        return 1

    def latent_posteriors(self, prepared, X, Y, start) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """Return a, b (dim, C) of q(w) in each latent layer."""
        seen = self.model.likelihood.encode(Y)
        layers = [(self.model.layers[i], prepared[f"layer{i}"]) for i in self.model.latent]
        pairs = [layer.posterior(batch, X, seen, start) for layer, batch in layers]
        return [(tf.tile(a, (1, self.samples)), tf.tile(b, (1, self.samples))) for a, b in pairs]

    def latent_draws(self, q, noise: tf.Tensor) -> list[tf.Tensor]:
        """Return w = a + b eps (dim, K, C) in each latent layer."""
        draws = []
        for i, (a, b) in zip(self.model.latent, q, strict=True):
            eps = tf.reshape(noise[self.model.noise_rows(i)], (a.shape[0], self.importance, -1))
            draws.append(a[:, None, :] + b[:, None, :] * eps)
        return draws


def log_ratio(w, q) -> tf.Tensor:
    """Return log p(w) / q(w) over all latent layers: (K, C)."""
    once = [tf.identity(v) for v in w]  # at most two gradients to add for any tensor (kernels)
    return sum(latent.log_prior(v) - latent.log_q(v, a, b) for v, (a, b) in zip(once, q, strict=True))


START_JITTER = 1e-6  # of the Gram matrices at the start


@dataclass(frozen=True)
class DirectVI(VI):
    """q_mu (P, M) of a layer is m, q_sqrt (P, M, M) a lower R with S = R R^T.

    With K_zz = L L^T and u = L v the bound is that of the whitened q(v) = N(L^-1 m, L^-1 S L^-T). Its KL
    depends on the kernel and Z, which changes their gradients and the steps of every optimiser except the
    natural gradient.
    """

    whitened = False

    def initial(self, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the whitened start in these coordinates: the same distribution."""
        out = dict(values)
        for i in self.model.gps:
            p = {name: tf.constant(v) for name, v in scope(values, f"layer{i}").items()}
            L = tf.linalg.cholesky(self.model.layers[i].gram(p, START_JITTER)).numpy()
            mean, root = self.model.parameter_names(i)
            m = values[mean]
            out[mean] = m @ L.T if L.ndim == 2 else np.einsum("pij,pj->pi", L, m)  # one L, or one per output
            out[root] = L @ values[root]
        return out

    def prepare(self, values, numerics: Numerics, key=None, rows=None) -> tuple[dict, dict]:
        pairs = {name: fan_out(v, 2) for name, v in values.items()}
        mine, theirs = ({name: pair[k] for name, pair in pairs.items()} for k in (0, 1))
        q, kl = {}, {}
        for i in self.model.gps:
            p = scope(mine, f"layer{i}")
            L, L_for_root = fan_out(tf.linalg.cholesky(self.model.layers[i].gram(p, numerics.jitter)), 2)
            m, m_for_kl = fan_out(whiten_rows(L, p["q_mu"]), 2)  # natural gradients leave the KL out of m
            R, R_for_kl = fan_out(whiten_root(L_for_root, p["q_sqrt"]), 2)
            q[i], kl[i] = Whitened(m, R), kl_divergence(m_for_kl, R_for_kl)
        dtype = numerics.batch_dtype or next(iter(values.values())).dtype
        prepared, watched = deep_gp.prepare(
            self.model, theirs, numerics.jitter, numerics.forms, dtype, rows, numerics.natural, q
        )
        return prepared | {"kl": kl}, watched

    def penalty(self, values, prepared, numerics: Numerics) -> dict[int, tf.Tensor]:
        others = {i: layer for i, layer in enumerate(self.model.layers) if i not in self.model.gps}
        each = {i: layer.penalty(scope(values, f"layer{i}")) for i, layer in others.items()}
        whole = prepared["kl"] | {i: kl for i, kl in each.items() if kl is not None}
        return whole | penalty_of(self.priors, values)


@dataclass(frozen=True)
class IWVI(VI):
    """K samples of w inside the logarithm. `joint`: one draw of the inner functions for the K samples of a
    point; `dreg`: the doubly reparameterised gradient of q(w) (Tucker et al. 2019)."""

    inside: int = 5  # K
    joint: bool = True
    dreg: bool = False

    @property
    def importance(self) -> int:
        return self.inside

    @property
    def columns(self) -> int:
        return self.samples * self.inside

    @property
    def compiles(self) -> bool:
        return not self.joint or self.inside <= UNROLLED  # XLA's own Cholesky is slow

    def weighted_latents(self, prepared, X, Y, noise, start) -> tuple[list[tf.Tensor], tf.Tensor]:
        return self._weighted(prepared, X, Y, noise, start, self.joint)

    def terms(self, prepared, X, Y, noise, start) -> tf.Tensor:
        _, log_weight = self.weighted_latents(prepared, X, Y, noise, start)
        return tf.reduce_logsumexp(log_weight, 0) - math.log(self.inside)

    def own_gradient(self) -> Callable | None:
        return self._dreg if self.dreg else None

    def _dreg(self, prepared, X, Y, noise, start, weight):
        """Return value and gradient of the weighted sum of terms: Tucker et al. (2019), eq. 8.

        The gradient in the parameters of q is sum_k v_k^2 d(log weight_k)/dw_k dw_k/dphi, with v_k the
        normalised weights and the density q held fixed; all others keep their ordinary gradient.
        """
        Xs, Ys = tf.tile(X, (1, self.samples)), tf.tile(Y, (1, self.samples))
        with tf.GradientTape() as encoder:
            encoder.watch(prepared)
            q = self.latent_posteriors(prepared, X, Y, start)
            w = self.latent_draws(q, noise)
        held = [(tf.stop_gradient(a), tf.stop_gradient(b)) for a, b in q]
        with tf.GradientTape() as tape:
            tape.watch([prepared, w])
            ell = expected_log_likelihood(
                self.model, fenced(prepared), Xs, Ys, noise, w, self.inside, self.joint
            )
            log_weight = ell + log_ratio(w, held)
            each = tf.reduce_logsumexp(log_weight, 0) - math.log(self.inside)
            value = tf.reduce_sum(each) * weight
        zero = tf.UnconnectedGradients.ZERO
        ordinary, d_w = tape.gradient(value, [prepared, w], unconnected_gradients=zero)
        share = tf.nn.softmax(log_weight, 0)  # d_w has one factor v_k already
        through = encoder.gradient(w, prepared, [share * d for d in d_w], unconnected_gradients=zero)
        return value, tf.nest.map_structure(tf.add, ordinary, through)


CHECK_NATS = 0.01  # change per point by doubling the nodes above which a note is given


@dataclass(frozen=True)
class Optimal(VI):
    """One latent layer, right below the last; `nodes` for each point, under the rule adaptive | hermite."""

    nodes: int = 64
    rule: str = "adaptive"

    @property
    def importance(self) -> int:
        """Number of nodes in all dimensions together."""
        return self.nodes**self.dim

    @property
    def dim(self) -> int:
        return self.model.layers[self.model.latent[0]].dim

    @property
    def columns(self) -> int:
        return self.samples * self.importance

    @property
    def noise_columns(self) -> int:
        return self.samples

    def terms(self, prepared, X, Y, noise, start) -> tf.Tensor:
        _, log_weight = self.weighted_latents(prepared, X, Y, noise, start)
        return tf.reduce_logsumexp(log_weight, 0)

    def weighted_latents(self, prepared, X, Y, noise, start) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Return the nodes (dim, K, C) and the logs of their contributions to the integral (K, C)."""
        Xs, Ys = tf.tile(X, (1, self.samples)), tf.tile(Y, (1, self.samples))
        nodes, log_weight = self._place(prepared, Xs, Ys, noise)
        ell = expected_log_likelihood(self.model, prepared, Xs, Ys, noise, [nodes], self.importance)
        return [nodes], log_weight + ell

    def _place(self, prepared, X, Y, noise) -> tuple[tf.Tensor, tf.Tensor]:
        """Return nodes (dim, K, C) and log weights (K, C) that include the prior's density."""
        K, C = self.importance, X.shape[1]
        if self.rule == "hermite":
            nodes, log_weight = quadrature.hermite(self.nodes, self.dim)
            nodes = tf.tile(tf.constant(nodes, X.dtype)[:, :, None], (1, 1, C))
            return nodes, tf.constant(log_weight[:, None], X.dtype)
        fixed = tf.nest.map_structure(tf.stop_gradient, prepared)
        grid = tf.tile(tf.constant(quadrature.coarse_grid(K), X.dtype)[None, :, None], (1, 1, C))
        mean, var = mixed_outputs(self.model, fixed, *propagate(self.model, fixed, X, noise, [grid], K))

        def log_joint(m, v, w):  # P, F, C
            P, F, _ = m.shape
            flat = lambda a: tf.reshape(a, (P, -1))  # noqa: E731
            expectations = self.model.likelihood.variational_expectations
            ell = expectations(fixed["likelihood"], flat(m), flat(v), tf.tile(Y, (1, F)))
            return tf.reshape(ell, (F, -1)) - 0.5 * w * w

        w, log_weight = quadrature.place(mean, var, log_joint, K)
        w = tf.stop_gradient(w)[None]
        return w, tf.stop_gradient(log_weight) + latent.log_prior(w)

    def checks(self, prepared, X, Y, seed: int) -> tuple[dict[str, dict[str, float]], list[str]]:
        """Return mean and largest change of a point's bound, in nats, when its nodes are doubled."""
        noise = tf.constant(np.random.RandomState(seed).randn(self.model.noise_dim, X.shape[1]))
        once, twice = (
            replace(self, samples=1, nodes=nodes).terms(prepared, X, Y, noise, tf.constant(0)).numpy()
            for nodes in (self.nodes, 2 * self.nodes)
        )
        change = np.abs(twice - once)
        check = {"mean": float(np.mean(change)), "max": float(change.max()), "rows": X.shape[1]}
        if check["mean"] <= CHECK_NATS:
            return {"quadrature": check}, []
        note = (
            f"quadrature: doubling the nodes changes the bound by {check['mean']:.2g} nats per point:"
            " it is no bound; use more inference.quadrature.nodes or the adaptive rule"
        )
        return {"quadrature": check}, [note]
