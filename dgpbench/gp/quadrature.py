"""Quadrature over a latent variable: log of the integral of exp(L_n(w)) p(w) dw (thesis 4.2.2).

`hermite` is the thesis's rule: fixed Gauss-Hermite nodes under the prior. Where the noise is small against
the node spacing it is no bound, and training exploits that. `adaptive` places nodes for each point: m(w) and
v(w) of the last layer vary on the scale of the kernel, so a coarse grid of them is enough to see where
exp(L_n(w)) p(w) has its mass, however narrow; panels of Gauss-Legendre nodes are then put there.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dgpbench.gp.lazy import lazy

if TYPE_CHECKING:
    import tensorflow as tf
else:
    tf = lazy("tensorflow")

RANGE = 8.0  # the prior has 1e-15 of its mass outside
PANEL = 2  # Gauss-Legendre nodes in a panel: many small panels did better than few large ones
DENSE = 16  # points of the fine grid to one of the coarse grid
FLATTEN = 0.1  # panels follow (mass density)^0.1, so that the flanks of a peak are covered too
SPARE = 1e-3  # share of the panels' density that is spread evenly


def hermite(nodes: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (dim, K) and log weights (K,) of the product rule for N(0, I)."""
    x, weight = np.polynomial.hermite_e.hermegauss(nodes)
    log_weight = np.log(weight) - 0.5 * math.log(2.0 * math.pi)
    grids = np.meshgrid(*[x] * dim, indexing="ij")
    logs = np.meshgrid(*[log_weight] * dim, indexing="ij")
    return np.stack([g.ravel() for g in grids]), np.sum([g.ravel() for g in logs], 0)


@lru_cache(maxsize=8)
def _grids(nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coarse grid (Q,), cell centres of the fine grid (F,), and the spline from one to the other (F, Q)."""
    from scipy.interpolate import make_interp_spline

    coarse = np.linspace(-RANGE, RANGE, nodes)
    edges = np.linspace(-RANGE, RANGE, nodes * DENSE + 1)
    fine = 0.5 * (edges[1:] + edges[:-1])
    return coarse, fine, make_interp_spline(coarse, np.eye(nodes), k=3)(fine)


def coarse_grid(nodes: int) -> np.ndarray:
    return _grids(nodes)[0]


def place(mean: tf.Tensor, var: tf.Tensor, log_joint, nodes: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Nodes and log weights (nodes, C) for each column.

    mean, var (P, Q * C) are moments of the last layer on the coarse grid of Q = nodes points;
    log_joint(mean, var, w) gives L_n(w) + log p(w) (F, C) for moments (P, F, C) at w (F, 1).
    """
    _, fine, spline = _grids(nodes)
    P, dtype = mean.shape[0], mean.dtype
    to_fine = lambda a: tf.einsum(  # noqa: E731
        "fq,pqc->pfc", tf.constant(spline, dtype), tf.reshape(a, (P, nodes, -1))
    )
    log_mass = log_joint(to_fine(mean), tf.maximum(to_fine(var), 0.0), tf.constant(fine[:, None], dtype))
    density = tf.exp(FLATTEN * (log_mass - tf.reduce_max(log_mass, 0, keepdims=True)))  # F, C
    density = density / tf.reduce_sum(density, 0, keepdims=True) + SPARE / len(fine)
    above = tf.cumsum(density, 0)
    below = above - density
    panels = nodes // PANEL
    width = 2.0 * RANGE / len(fine)
    total = above[-1]
    edges = []
    for j in range(panels + 1):  # the piecewise linear inverse of the cumulative density
        u = total * (j / panels)
        edges.append(width * tf.reduce_sum(tf.clip_by_value((u - below) / density, 0.0, 1.0), 0) - RANGE)
    edges = tf.stack(edges)  # panels + 1, C
    x, weight = np.polynomial.legendre.leggauss(PANEL)
    low, size = edges[:-1], edges[1:] - edges[:-1]
    w = low[:, None] + size[:, None] * tf.constant((0.5 * (x + 1.0))[None, :, None], dtype)
    tiny = 1e-30 if dtype == tf.float32 else 1e-300
    log_w = tf.math.log(tf.maximum(size, tiny))[:, None] + tf.constant(
        np.log(0.5 * weight)[None, :, None], dtype
    )
    return tf.reshape(w, (panels * PANEL, -1)), tf.reshape(log_w, (panels * PANEL, -1))
