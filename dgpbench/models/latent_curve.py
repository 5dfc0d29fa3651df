"""The first GP behind a latent variable at the input, as a curve in w for each row: known on a grid,
interpolated elsewhere.

In the models [lv, gp, ...] the moments of the first GP at (x, w) are smooth functions of the one number w.
They are asked of the GP at a few values of w once for each row, and then read from a spline for all the
values of w and all the samples that prediction and density need: the products with M x M matrices for every
output of the widest layer are gone. The samples themselves, and all further layers, are computed as ever
(deep_gp.propagate).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import tensorflow as tf

from dgpbench.gp.deep_gp import propagate
from dgpbench.gp.fast import forms
from dgpbench.gp.layer import VARIANCE_FLOOR
from dgpbench.inference.base import Bound

RANGE = 8.0  # of w: the prior has 1e-15 of its mass outside
BEND = 2.0  # w = a sinh(BEND u), u even: nodes are 3.8 times as dense at 0 as at the ends
NODES = (33, 65)  # values of w to try
DEGREE = 7  # of the spline
COLUMNS = 2000  # that pass through the further layers at once: their kernels with Z stay in the cache
ROUGH = 5e-3  # error of every second node's spline at the others: that of all nodes' is 100 times smaller


def possible(bound: Bound) -> bool:
    """Whether the model is [lv, gp, ...] with one latent number, and the method has no moments of its own."""
    model = bound.model
    kinds = [layer.kind for layer in model.layers[:2]]
    plain = type(bound).moments is Bound.moments
    return plain and kinds == ["lv", "gp"] and model.latent == (0,) and model.layers[0].dim == 1


def nodes(count: int) -> np.ndarray:
    """Values of w, denser where its prior is (count,)."""
    return to_w(np.linspace(-1.0, 1.0, count))


def to_w(u):
    """w in [-RANGE, RANGE] of u in [-1, 1], an array or a tensor."""
    sinh = tf.sinh if tf.is_tensor(u) else np.sinh
    return (RANGE / math.sinh(BEND)) * sinh(BEND * u)


def to_u(w: tf.Tensor) -> tf.Tensor:
    return tf.asinh(w * (math.sinh(BEND) / RANGE)) / BEND


@lru_cache(maxsize=4)
def pieces(count: int) -> np.ndarray:
    """From values at the nodes to the polynomial in each cell of u: (cells, DEGREE + 1, count), in powers of
    the place in the cell, from 0 to 1."""
    from scipy.interpolate import make_interp_spline

    u = np.linspace(-1.0, 1.0, count)
    spline = make_interp_spline(u, np.eye(count), k=DEGREE)
    scale = [(u[1] - u[0]) ** j / math.factorial(j) for j in range(DEGREE + 1)]
    return np.stack([spline(u[:-1], nu=j) * scale[j] for j in range(DEGREE + 1)], 1)


@lru_cache(maxsize=4)
def between(count: int) -> np.ndarray:
    """From values at every second node to the spline through them at the others (count // 2, ...)."""
    half = pieces(count // 2 + 1)
    return np.einsum("cjq,j->cq", half, 0.5 ** np.arange(DEGREE + 1))


def spline_at(values: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """Functions (R, Q, B), known at the Q nodes, at w (B, K) between the first and the last: (R, K, B)."""
    R, Q, B = values.shape
    made = tf.einsum("cjq,rqb->jbcr", tf.constant(pieces(Q), w.dtype), values)  # DEGREE + 1, B, Q - 1, R
    place = (to_u(w) + 1.0) * (0.5 * (Q - 1))
    cell = tf.clip_by_value(tf.floor(place), 0.0, Q - 2.0)
    t = (place - cell)[:, :, None]
    row = (Q - 1) * tf.range(B)[:, None] + tf.cast(cell, tf.int32)  # B, K
    powers = [tf.gather(tf.reshape(power, (-1, R)), row) for power in tf.unstack(made)]  # each B, K, R
    total = powers[-1]
    for power in powers[-2::-1]:
        total = total * t + power
    return tf.transpose(total, (2, 1, 0))


def at_odd_nodes(values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Functions (R, Q, B) at every second node by the spline through the others, and as they are."""
    by_spline = tf.einsum("cq,rqb->rcb", tf.constant(between(values.shape[1]), values.dtype), values[:, ::2])
    return by_spline, values[:, 1::2]


class Curve:
    """The first GP's moments (P, Q, N) at the nodes of the rows X (N, D), and what follows from them."""

    def __init__(self, bound: Bound, prepared: dict, X: tf.Tensor, eps: tf.Tensor, count: int):
        """`eps` (noise_dim, C) is the noise of the C = S N columns, row n in columns n, N + n, ..."""
        self.model, self.prepared, self.X, self.eps = bound.model, prepared, X, eps
        N = X.shape[0]
        head = replace(self.model, layers=self.model.layers[:2])
        w = tf.tile(tf.constant(nodes(count), X.dtype)[None, :, None], (1, 1, N))
        unused = tf.zeros((0, count * N), X.dtype)
        own = prepared | {"layer1": _in_blocks(prepared["layer1"])}
        moments = propagate(head, own, tf.transpose(X), unused, [w], count, joint=False)
        self.values = tf.reshape(tf.concat(moments, 0), (-1, count, N))  # 2 P, Q, N

    def doubt(self) -> tf.Tensor:
        """The largest error of mean and sd at every second node by the spline through the others, in units of
        what is bearable: up to 1 is good."""
        (mean, var), (true_mean, true_var) = (tf.split(a, 2) for a in at_odd_nodes(self.values))
        errors = tf.abs(mean - true_mean), tf.abs(_sd(var) - _sd(true_var))
        return tf.maximum(*(tf.reduce_max(error) for error in errors)) / ROUGH

    def at(self, w: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and variance (P, K, S, N) of the first GP at w (K, S, N), by the spline."""
        K, S, N = w.shape
        made = spline_at(self.values, tf.transpose(tf.reshape(w, (K * S, N))))
        return tuple(tf.split(tf.reshape(made, (-1, K, S, N)), 2))

    def at_nodes(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and variance (P, Q, 1, N) at the nodes."""
        return tuple(tf.split(self.values[:, :, None], 2))

    def outputs(self, w: tf.Tensor, mean: tf.Tensor, var: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Moments (P, K C) of the last layer from those of the first GP (P1, K, S or 1, N) at w (K, S, N)."""
        K, S, N = w.shape
        flat = lambda A: tf.reshape(A, (A.shape[0], -1))  # noqa: E731
        if len(self.model.layers) == 2:
            whole = (mean.shape[0], K, S, N)
            return flat(tf.broadcast_to(mean, whole)), flat(tf.broadcast_to(var, whole))
        first = self.model.layers[1]
        eps = tf.reshape(self.eps[self.model.noise_rows(1)], (-1, 1, S, N))
        F = flat(mean + _sd(var) * eps)  # P1, K C
        if first.mixed:
            x = tf.tile(tf.transpose(self.X), (1, K * S))
            H = tf.concat([x, self.prepared["layer0"]["scale"] * tf.reshape(w, (1, -1))], 0)
            batch = self.prepared["layer1"]
            F = first.add_mean(batch, tf.matmul(batch.mixing["P"], F), H)
        rest = replace(self.model, layers=self.model.layers[2:])
        rows = self.model.noise_rows(2).start
        noise = tf.tile(self.eps[rows : self.model.noise_dim], (1, K))
        own = {f"layer{i}": _in_blocks(self.prepared[f"layer{i + 2}"]) for i in range(len(rest.layers))}
        ends = [*range(COLUMNS, F.shape[1], COLUMNS), F.shape[1]]
        parts = [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
        made = [propagate(rest, self.prepared | own, F[:, part], noise[:, part]) for part in parts]
        return tuple(tf.concat(each, 1) for each in zip(*made, strict=True))


class Ways:
    """Ways to compute blocks of rows, the cheapest first: one that leaves doubt is not tried again."""

    def __init__(self, ways: tuple):
        self.ways = ways

    def first_good(self, run):
        """The value of run(way) -> value, doubt for the first way whose doubt is at most 1, or the last."""
        while True:
            value, doubt = run(self.ways[0])
            if len(self.ways) == 1 or doubt <= 1.0:
                return value
            self.ways = self.ways[1:]


def _in_blocks(batch):
    """A prepared GP layer with the form that costs least where no gradient is asked for."""
    return batch._replace(form=forms.Blocks(*batch.form)) if isinstance(batch.form, forms.Quad) else batch


def _sd(var: tf.Tensor) -> tf.Tensor:
    return tf.sqrt(tf.maximum(var, VARIANCE_FLOOR[var.dtype]))
