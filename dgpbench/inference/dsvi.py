"""Doubly stochastic variational inference: thesis (2.19), with latent variables (5.3).

    sum_n E[L_n - KL_w] - KL,   L_n analytic in the last layer (5.8)
Sums are written with `+`, one after the other: tf.add_n adds in an order that depends on timing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import tensorflow as tf

from dgpbench.gp import latent
from dgpbench.gp.deep_gp import expected_log_likelihood
from dgpbench.inference.base import Bound, Numerics
from dgpbench.inference.priors import Prior, penalty_of


@dataclass(frozen=True)
class VI(Bound):
    """Mean-field q(u) and, where there are latent variables, q(w) = N(a, b^2). With `priors`, by
    parameter, log p(theta) is added: the best theta is a mode of its logarithm."""

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
        """w (dim, K, C) of each latent layer and log exp(L_n^k) p(w^k) / q(w^k) (K, C), for resampling
        (5.2.4); K is 1 here."""
        return self._weighted(prepared, X, Y, noise, start, True)

    def _weighted(self, prepared, X, Y, noise, start, joint: bool):
        q = self.latent_posteriors(prepared, X, Y, start)
        w = self.latent_draws(q, noise)
        Xs, Ys = tf.tile(X, (1, self.samples)), tf.tile(Y, (1, self.samples))
        ell = expected_log_likelihood(self.model, prepared, Xs, Ys, noise, w, self.importance, joint)
        return w, ell + log_ratio(w, q)

    @property
    def importance(self) -> int:
        """K, the samples of w inside the logarithm."""
        return 1

    def latent_posteriors(self, prepared, X, Y, start) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """a, b (dim, C) of q(w) in each latent layer."""
        seen = self.model.likelihood.encode(Y)
        layers = [(self.model.layers[i], prepared[f"layer{i}"]) for i in self.model.latent]
        pairs = [layer.posterior(batch, X, seen, start) for layer, batch in layers]
        return [(tf.tile(a, (1, self.samples)), tf.tile(b, (1, self.samples))) for a, b in pairs]

    def latent_draws(self, q, noise: tf.Tensor) -> list[tf.Tensor]:
        """w = a + b eps (dim, K, C) in each latent layer."""
        draws = []
        for i, (a, b) in zip(self.model.latent, q, strict=True):
            eps = tf.reshape(noise[self.model.noise_rows(i)], (a.shape[0], self.importance, -1))
            draws.append(a[:, None, :] + b[:, None, :] * eps)
        return draws


def log_ratio(w, q) -> tf.Tensor:
    """log p(w) / q(w) over all latent layers: (K, C)."""
    once = [tf.identity(v) for v in w]  # at most two gradients to add for any tensor (kernels)
    return sum(latent.log_prior(v) - latent.log_q(v, a, b) for v, (a, b) in zip(once, q, strict=True))
