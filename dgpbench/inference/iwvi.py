"""Importance-weighted variational inference with the analytic last layer, thesis (5.11):

sum_n E log 1/K sum_k exp(L_n^k) p(w^k) / q(w^k) - KL
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf

from dgpbench.gp.deep_gp import expected_log_likelihood
from dgpbench.gp.fast.forms import fenced
from dgpbench.gp.fast.joint_samples import UNROLLED
from dgpbench.inference.dsvi import VI, log_ratio


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
        """Value and gradient of the weighted sum of terms: Tucker et al. (2019), eq. 8.

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
