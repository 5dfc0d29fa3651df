"""The bound with the best q(w), integrated out by quadrature. Thesis (4.8), its logarithm put right:

sum_n E log of the integral of exp(L_n(w)) p(w) dw - KL
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf

from dgpbench.gp import latent, quadrature
from dgpbench.gp.deep_gp import expected_log_likelihood, mixed_outputs, propagate
from dgpbench.inference.dsvi import VI

CHECK_NATS = 0.01  # of change by doubling the nodes, per point: more is told


@dataclass(frozen=True)
class Optimal(VI):
    """One latent layer, right below the last; `nodes` for each point, under the rule adaptive | hermite."""

    nodes: int = 64
    rule: str = "adaptive"

    @property
    def importance(self) -> int:
        """Nodes in all dimensions together."""
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
        """The nodes (dim, K, C) and the logs of what each adds to the integral (K, C)."""
        Xs, Ys = tf.tile(X, (1, self.samples)), tf.tile(Y, (1, self.samples))
        nodes, log_weight = self._place(prepared, Xs, Ys, noise)
        ell = expected_log_likelihood(self.model, prepared, Xs, Ys, noise, [nodes], self.importance)
        return [nodes], log_weight + ell

    def _place(self, prepared, X, Y, noise) -> tuple[tf.Tensor, tf.Tensor]:
        """Nodes (dim, K, C) and log weights with the prior's density in them (K, C)."""
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
        """The change of a point's bound when its nodes are doubled: mean and largest, in nats."""
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
