"""Variational inference with q(u) = N(m, S) parameterised directly, not relative to the prior (thesis 3.3).

With K_zz = L L^T and u = L v the bound is that of the whitened q(v) = N(L^-1 m, L^-1 S L^-T). Its KL depends
on the kernel and Z too, so that gradients of these are others, and so are the steps of every optimiser but
the natural gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from dgpbench.gp import deep_gp
from dgpbench.gp.layer import kl_divergence, whiten_root, whiten_rows
from dgpbench.gp.parameters import scope
from dgpbench.gp.propagation import Whitened
from dgpbench.inference.base import Numerics
from dgpbench.inference.drawn import fan_out
from dgpbench.inference.dsvi import VI
from dgpbench.inference.priors import penalty_of

START_JITTER = 1e-6  # of the Gram matrices at the start


@dataclass(frozen=True)
class DirectVI(VI):
    """q_mu (P, M) of a layer is m, q_sqrt (P, M, M) a lower R with S = R R^T."""

    whitened = False

    def initial(self, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The start of a whitened q in these coordinates: the same distribution."""
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
