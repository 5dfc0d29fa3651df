"""Stripes and arrow (Lindinger et al. 2020): the joint Gaussian of joint.py without most of its covariances.

Kept are those of a GP's own inducing outputs, of GPs at the same position in different hidden layers
(stripes), and of every hidden GP with the output GPs (arrow). In the order of positions, the outputs last,
the Cholesky factor of S has the zeros of S: R has a block for each position. With two layers there is only
the arrow.

A position has one GP in each hidden layer, so that the chain of joint.py is one of scalars: of a point, with
g_i = a_i^T R_i (R_i has (i + 1) M columns, its others are zero), V V^T = (g_i g_j^T) + diag(r) row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dgpbench.errors import UserError
from dgpbench.gp.lazy import lazy
from dgpbench.inference.base import Numerics
from dgpbench.inference.drawn import fan_out
from dgpbench.inference.joint import SMALLEST, Joint, JointGaussian, Marginalised

if TYPE_CHECKING:
    import tensorflow as tf

    from dgpbench.gp import layer as gp_layer
    from dgpbench.gp.deep_gp import DeepGP
else:
    tf, gp_layer = lazy("tensorflow"), lazy("dgpbench.gp.layer")


@dataclass(frozen=True)
class Star(Joint):
    @property
    def groups(self) -> int:
        return self.model.layers[0].output_dim


@dataclass(frozen=True)
class MarginalisedStar(Marginalised):
    @property
    def groups(self) -> int:
        return self.model.layers[0].output_dim

    @property
    def compiles(self) -> bool:
        return True

    def prepare(self, values, numerics: Numerics, key=None, rows=None) -> tuple[Any, dict]:
        """Those of joint.py with L^-1 in place of L."""
        prepared, rest = super().prepare(values, numerics, key, rows)
        for p in prepared.get("chain", ()):
            L = p.pop("L")
            p["L^-1"] = gp_layer.whiten(L, tf.eye(L.shape[0], dtype=L.dtype))
        return prepared, rest

    def roots(self, values) -> list[Any]:
        """R of each hidden layer, and C, as one matrix (M, outputs T K) of its columns that are not 0."""
        out = []
        for layer, place in zip(self.model.layers, self.places(), strict=False):
            R = values["hidden/q_root"][:, place, : place.stop]  # T, M, columns
            out.append(tf.reshape(tf.transpose(R, (1, 0, 2)), (layer.num_inducing, -1)))
        C = values[f"layer{self.last}/q_cross"]  # P, M, T K
        return [*out, tf.reshape(tf.transpose(C, (1, 0, 2)), (C.shape[1], -1))]

    def terms(self, prepared, X, Y, noise, start) -> tf.Tensor:
        model, C, T = self.model, X.shape[1] * self.samples, self.groups
        H, Ys = tf.tile(X, (1, self.samples)), tf.tile(Y, (1, self.samples))
        below: list[tuple] = []  # of hidden layers: g (C, 1, T, columns), row of V left of V_ii, V_ii, e
        for i, (layer, p) in enumerate(zip(model.layers, prepared["chain"], strict=True)):
            H, for_diagonal, for_mean = fan_out(H, 3)
            A = fan_out(tf.matmul(p["L^-1"], layer.kernel.cross(p["kernel"], H)), 4)  # M, C
            mean = tf.matmul(p["q_mu"], A[0])  # P, C
            r = layer.kernel.diagonal(p["kernel"], for_diagonal) - tf.reduce_sum(tf.square(A[1]), 0)
            r = tf.maximum(r, SMALLEST)  # 1, C
            outputs = 1 if i < self.last else mean.shape[0]
            g = tf.reshape(tf.matmul(A[2], p["R"], transpose_a=True), (C, outputs, T, -1))
            shift, explained = 0.0, 0.0
            row: list[tf.Tensor] = []
            for j, (g_j, row_j, V_jj, e_j) in enumerate(below):
                v = tf.reduce_sum(g[..., : g_j.shape[-1]] * g_j, -1)  # C, outputs, T
                v = (v - sum(row[k] * row_j[k] for k in range(j))) / V_jj
                shift, explained, row = shift + v * e_j, explained + tf.square(v), [*row, v]
            known = tf.reduce_sum(tf.square(g), -1) - explained
            if i == self.last:
                mean += tf.transpose(tf.reduce_sum(shift, -1))
                own = tf.einsum("pmk,mc->pkc", p["q_sqrt"], A[3])
                var = r + tf.transpose(tf.reduce_sum(known, -1)) + tf.reduce_sum(tf.square(own), 1)
                break
            V = tf.sqrt(known + tf.transpose(r)[..., None])  # C, 1, T
            e = tf.transpose(noise[model.noise_rows(i)])[:, None]
            F = mean + tf.transpose((shift + V * e)[:, 0])
            below.append((g, row, V, e))
            H = layer.with_mean(p, tf.matmul(p["P"], F) if layer.mixed else F, for_mean)
        own_noise = noise[model.likelihood_rows]
        return model.likelihood.variational_expectations(prepared["likelihood"], mean, var, Ys, own_noise)


class StripesAndArrow(JointGaussian):
    def bound(self, model: DeepGP) -> Joint:
        widths = [layer.output_dim for layer in model.layers[:-1]]
        if len(set(widths)) > 1:
            raise UserError(
                f"inference=star couples GPs at the same position of hidden layers, which have "
                f"{', '.join(map(str, widths))} of them; set model.width, or use inference=joint"
            )
        return super().bound(model)

    def kinds(self) -> tuple[type[Joint], type[Joint]]:
        return Star, MarginalisedStar
