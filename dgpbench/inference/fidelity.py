"""The variational bound of a multi-fidelity deep GP: every row is seen at its own level.

    sum_t sum_i E log N(y_i^t; f_t(x_i), s_t) - sum_t KL(q(u_t) || p(u_t))
with a sample of f_{t-1} as input of f_t.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import tensorflow as tf

from dgpbench.inference.base import Bound

if TYPE_CHECKING:
    from dgpbench.gp.fidelity import FidelityGP


@dataclass(frozen=True)
class FidelityBound(Bound):
    model: FidelityGP

    def terms(self, prepared, X, Y, noise, start) -> tf.Tensor:
        X, Y = (tf.tile(A, (1, self.samples)) for A in (X, Y))
        noises = tf.unstack(prepared["likelihood"]["variance"])
        total = tf.zeros((X.shape[1],), X.dtype)
        for t, (mean, var) in enumerate(self.model.walk(prepared, X, noise)):
            each = self.model.likelihood.variational_expectations({"variance": noises[t]}, mean, var, Y)
            total += tf.where(X[-1] == t, each, tf.zeros_like(each))
        return total

    def moments(self, prepared, X, noise, w=(), K: int = 1, joint: bool = True, repeat: int = 1):
        X = tf.tile(X, (1, repeat))
        levels = list(self.model.walk(prepared, X, noise))
        found = levels[0]
        for t, pair in enumerate(levels[1:], 1):
            found = tuple(tf.where(X[-1:] == t, new, old) for new, old in zip(pair, found, strict=True))
        return found

    def noise_variance(self, prepared, X) -> tf.Tensor:
        level = tf.cast(X[-1], tf.int32)
        return tf.gather(prepared["likelihood"]["variance"], level)[None]
