"""One Gaussian over the inducing outputs of all layers (Ustyuzhaninov et al. 2020, section 4.1).

Whitened, with all hidden GPs in one vector h = m_h + R e and each output GP given them,
    u_L = m_L + C e + R_L e_L,   e, e_L ~ N(0, I),
which is any joint N(m, S) of one output; more outputs are independent of each other given the hidden layers.
Its KL to N(0, I) is that of the factors. Two estimators of E log p(y | f_L):
    sampled   draw e, once for all points, and propagate points given the hidden u; the last layer is
              integrated
    analytic  integrate over all u: (f_1, ..., f_L) of a point is a chain of Gaussians. Given the GPs below,
              with a = L^-1 k(Z, f_{l-1}) and r = k - a^T a, those of layer l have mean a^T m and covariances
              (a^T R)(a^T R)^T among each other and with those below, and r more on the diagonal
Hidden GPs may stand in groups that are independent of each other (`Star`): R has a block for each. The
chain's conditional moments come from a block Cholesky factor of that covariance, for any width and depth.

`Star` is stripes and arrow (Lindinger et al. 2020), this Gaussian without most of its covariances. It keeps
those of a GP's own inducing outputs, of GPs at the same position in different hidden layers
(stripes), and of every hidden GP with the output GPs (arrow). In the order of positions, the outputs last,
the Cholesky factor of S has the zeros of S: R has a block for each position. With two layers there is only
the arrow.

A position has one GP in each hidden layer, so that the chain is one of scalars: of a point, with
g_i = a_i^T R_i (R_i has (i + 1) M columns, its others are zero), V V^T = (g_i g_j^T) + diag(r) row by row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dgpbench.config.schema import Field
from dgpbench.errors import UserError
from dgpbench.gp.lazy import lazy
from dgpbench.inference.adam_method import ADAM_FIELDS
from dgpbench.inference.base import Numerics
from dgpbench.inference.drawn import Drawn, DrawnMethod, fan_out, normals

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

    from dgpbench.gp import deep_gp, parameters, propagation
    from dgpbench.gp import layer as gp_layer
    from dgpbench.gp.deep_gp import DeepGP
    from dgpbench.gp.parameters import Constraint
else:
    tf, np, deep_gp = lazy("tensorflow"), lazy("numpy"), lazy("dgpbench.gp.deep_gp")
    parameters, propagation = lazy("dgpbench.gp.parameters"), lazy("dgpbench.gp.propagation")
    gp_layer = lazy("dgpbench.gp.layer")

MOST_HIDDEN = 4000  # inducing outputs of a group: their covariance has the square of it in entries
SMALLEST = 1e-12  # variance of a GP given its inducing outputs


@dataclass(frozen=True)
class Joint(Drawn):
    """By sampling u. hidden/q_root (T, K, K) is R, a block for each group of GPs; q_cross (P, M, T K) of the
    last layer is C. Here all hidden GPs are one group."""

    @property
    def groups(self) -> int:
        """T, groups of hidden GPs that are independent of each other: equally many of each layer."""
        return 1

    @property
    def group_size(self) -> int:
        """K, inducing outputs of a group."""
        inner = self.model.layers[:-1]
        return sum(layer.output_dim * layer.num_inducing for layer in inner) // self.groups

    @property
    def last(self) -> int:
        return len(self.model.layers) - 1

    def places(self) -> list[slice]:
        """Of each hidden layer in a group: its GPs one after the other."""
        sizes = [layer.output_dim * layer.num_inducing // self.groups for layer in self.model.layers[:-1]]
        return [slice(sum(sizes[:i]), sum(sizes[: i + 1])) for i in range(self.last)]

    def initial(self, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Those of a mean-field q(u): no covariance between GPs."""
        if not self.last:
            return values
        T, K = self.groups, self.group_size
        out, root = dict(values), np.zeros((T, K, K))
        for i, place in enumerate(self.places()):
            blocks = out.pop(f"layer{i}/q_sqrt")
            own, M = len(blocks) // T, blocks.shape[-1]
            for p, block in enumerate(blocks):
                at = place.start + p % own * M
                root[p // own, at : at + M, at : at + M] = block
        P, M = values[f"layer{self.last}/q_mu"].shape
        return out | {"hidden/q_root": root, f"layer{self.last}/q_cross": np.zeros((P, M, T * K))}

    def constraints(self) -> dict[str, Constraint]:
        return self.model.constraints() | {"hidden/q_root": parameters.LOWER}

    def draw(self, values, numerics: Numerics, key) -> tuple[dict[str, Any], dict[int, tf.Tensor]]:
        mean, root = (values[name] for name in self.model.parameter_names(self.last))
        q = {}
        if self.last:
            e = normals(key, (self.groups, self.group_size), mean.dtype)
            shift = tf.linalg.matvec(values["hidden/q_root"], e)
            mean = mean + tf.linalg.matvec(values[f"layer{self.last}/q_cross"], tf.reshape(e, (-1,)))
        for i, place in enumerate(self.places()):
            m = values[f"layer{i}/q_mu"]
            q[i] = propagation.Whitened(m + tf.reshape(shift[:, place], m.shape))
        q[self.last] = propagation.Whitened(mean, root)
        dtype = numerics.batch_dtype or mean.dtype
        layers, _ = deep_gp.prepare(self.model, values, numerics.jitter, numerics.forms, dtype, q=q)
        del layers["likelihood"]
        return layers, self.divergences(values)

    def divergences(self, values) -> dict[int, tf.Tensor]:
        """KL of the hidden layers together, below 0, and of the last given them."""
        mean, root = (values[name] for name in self.model.parameter_names(self.last))
        kl = gp_layer.kl_divergence(mean, root)
        if not self.last:
            return {0: kl}
        means = [tf.reshape(values[f"layer{i}/q_mu"], (self.groups, -1)) for i in range(self.last)]
        below = gp_layer.kl_divergence(tf.concat(means, 1), values["hidden/q_root"])
        cross = tf.reduce_sum(tf.square(values[f"layer{self.last}/q_cross"]))
        return {0: below, self.last: kl + 0.5 * cross}


@dataclass(frozen=True)
class Marginalised(Joint):
    """By integrating over u; predictions draw it."""

    @property
    def compiles(self) -> bool:
        return False  # small Cholesky factors for each point

    @property
    def column_numbers(self) -> int:  # type: ignore[override]  # depends on the sizes here
        """Half of the numbers of a^T R and a^T C: 2.5 to 2.8 such arrays were found in a step, not the six
        that `engine/spec.py` reckons with."""
        T, total = self.groups, self.model.layers[-1].output_dim * self.groups * self.group_size
        for layer, place in zip(self.model.layers, self.places(), strict=False):
            own = layer.output_dim // T
            total += T * own * place.start + T * layer.num_inducing * own * (own + 1) // 2
        return total // 2

    def prepare(self, values, numerics: Numerics, key=None, rows=None) -> tuple[Any, dict]:
        if numerics.num_data is None:
            return super().prepare(values, numerics, key, rows)
        copies = {name: fan_out(v, 3) for name, v in values.items()}
        for_gram, for_rest, for_kl = ({name: c[i] for name, c in copies.items()} for i in range(3))
        roots, layers = self.roots(for_rest), []
        for i, layer in enumerate(self.model.layers):
            p = parameters.scope(for_rest, f"layer{i}")
            kernel = layer.kernel.prepare(parameters.scope(p, "kernel"), p["Z"])
            K = layer.gram(parameters.scope(for_gram, f"layer{i}"), numerics.jitter)
            part = {name: p[name] for name in ("q_mu", "q_sqrt", "W", "P") if name in p}
            layers.append(part | {"kernel": kernel, "L": tf.linalg.cholesky(K), "R": roots[i]})
        likelihood = parameters.scope(for_rest, "likelihood")
        return {"likelihood": likelihood, "chain": tuple(layers), "kl": self.divergences(for_kl)}, {}

    def roots(self, values) -> list[Any]:
        """The rows of R of each hidden layer, and C, as `terms` reads them: (M, GPs, M_q) for each hidden GP
        q, the columns of its e. GPs of the layer that stand before q are left out: R is lower triangular."""
        layer_of = [i for i, layer in enumerate(self.model.layers[:-1]) for _ in range(layer.output_dim)]
        sizes = [self.model.layers[i].num_inducing for i in layer_of]
        columns = tf.split(values["hidden/q_root"][0], sizes, 1)  # K, M_q
        cross = tf.split(values[f"layer{self.last}/q_cross"], sizes, 2)  # P, M, M_q
        out: list[list[tf.Tensor]] = [[] for _ in self.model.layers]
        for q, (column, of_last) in enumerate(zip(columns, cross, strict=True)):
            _, *from_q = tf.split(column, [sum(sizes[:q]), *sizes[q:]], 0)
            for i in range(layer_of[q], self.last):
                out[i].append(tf.stack([R for R, j in zip(from_q, layer_of[q:], strict=True) if j == i], 1))
            out[self.last].append(tf.transpose(of_last, (1, 0, 2)))
        return [tuple(blocks) for blocks in out]

    def terms(self, prepared, X, Y, noise, start) -> tf.Tensor:
        model = self.model
        H, Ys = tf.tile(X, (1, self.samples)), tf.tile(Y, (1, self.samples))
        below: list[list[list[tf.Tensor]]] = []  # G of the layers below, whose GPs are their means + V eps
        V = eps = tf.zeros((), H.dtype)
        for i, (layer, p) in enumerate(zip(model.layers, prepared["chain"], strict=True)):
            H, for_diagonal, for_mean = fan_out(H, 3)
            A = gp_layer.whiten(p["L"], layer.kernel.cross(p["kernel"], H))  # M, C
            A, A_for_r, A_for_own, *A_for_R = fan_out(A, 3 + len(p["R"]))
            mean = tf.matmul(p["q_mu"], A)  # P, C
            r = layer.kernel.diagonal(p["kernel"], for_diagonal) - tf.reduce_sum(tf.square(A_for_r), 0)
            r = tf.maximum(r, SMALLEST)  # 1, C
            # a^T R in blocks (C, GPs, M_q), as many copies of each as there are uses
            G = [fan_out(_through(R, a), self.last + 1) for R, a in zip(p["R"], A_for_R, strict=True)]
            if below:
                V, for_W = fan_out(V, 2)
                known = tf.concat([_covariance(G, others) for others in below], 1)  # C, GPs below, P
                W = fan_out(tf.linalg.triangular_solve(for_W, known), 3)
                mean += tf.transpose(tf.matmul(W[0], eps, transpose_a=True)[..., 0])
            if i == self.last:
                own = tf.einsum("pmk,mc->pkc", p["q_sqrt"], A_for_own)
                S = sum(tf.reduce_sum(tf.square(g.pop()), -1) for g in G) - tf.reduce_sum(tf.square(W[1]), 1)
                var = r + tf.transpose(S) + tf.reduce_sum(tf.square(own), 1)
                break
            S = _covariance_among(G)  # C, P, P
            if below:
                S -= tf.matmul(W[1], W[1], transpose_a=True)
            root = tf.linalg.cholesky(tf.linalg.set_diag(S, tf.linalg.diag_part(S) + tf.transpose(r)))
            root, for_F = fan_out(root, 2)
            e = tf.transpose(noise[model.noise_rows(i)])[..., None]  # C, P, 1
            F = mean + tf.transpose(tf.matmul(for_F, e)[..., 0])
            if below:
                left = tf.concat([V, tf.linalg.matrix_transpose(W[2])], 1)
                V = tf.concat([left, tf.pad(root, ((0, 0), (V.shape[1], 0), (0, 0)))], 2)
                eps = tf.concat([eps, e], 1)
            else:
                V, eps = root, e
            below.append(G)
            H = layer.with_mean(p, tf.matmul(p["P"], F) if layer.mixed else F, for_mean)
        own_noise = noise[model.likelihood_rows]
        return model.likelihood.variational_expectations(prepared["likelihood"], mean, var, Ys, own_noise)


def _through(R: tf.Tensor, A: tf.Tensor) -> tf.Tensor:
    """A^T R (C, P, K) for R (M, P, K) and A (M, C), as one product."""
    M, P, K = R.shape
    return tf.reshape(tf.matmul(A, tf.reshape(R, (M, P * K)), transpose_a=True), (-1, P, K))


def _covariance(G: list[list[tf.Tensor]], below: list[list[tf.Tensor]]) -> tf.Tensor:
    """Sums over the e of all GPs, (C, GPs of a layer below, P) for a^T R of both; takes a copy of each."""
    parts = [tf.matmul(b.pop(), g.pop(), transpose_b=True) for b, g in zip(below, G, strict=False)]
    most = parts[0].shape[1]
    return sum(tf.pad(part, ((0, 0), (most - part.shape[1], 0), (0, 0))) for part in parts)


def _covariance_among(G: list[list[tf.Tensor]]) -> tf.Tensor:
    """The same of a layer with itself, (C, P, P)."""
    parts = [gp_layer.inner_products(g.pop()) for g in G]
    most = parts[0].shape[1]
    zeros = [most - part.shape[1] for part in parts]
    return sum(tf.pad(part, ((0, 0), (n, 0), (n, 0))) for part, n in zip(parts, zeros, strict=True))


class JointGaussian(DrawnMethod):
    fields = {"estimator": Field(str, choices=("sampled", "analytic")), **ADAM_FIELDS}

    def precision(self, model: Mapping[str, Any]) -> str:
        return "float64" if self._marginalises(model) else "mixed"

    def _marginalises(self, model: Mapping[str, Any]) -> bool:
        """Return whether u is integrated out, by Cholesky factors of small covariances of each point."""
        return self.analytic and len(model["layers"]) > 1

    def refuses(self, model: Mapping[str, Any], likelihood: str) -> str | None:
        if (reason := super().refuses(model, likelihood)) or not self._marginalises(model):
            return reason
        if self.cfg["precision"] != "float64":
            return (
                f"inference={self.settings['name']} factorises small covariances for each point; remove "
                f"precision={self.cfg['precision']} (the default is float64 here), or set "
                "inference.estimator=sampled"
            )
        return _correlated(likelihood)

    @property
    def analytic(self) -> bool:
        return self.settings["estimator"] == "analytic"

    def bound(self, model: DeepGP) -> Joint:
        analytic = self.analytic and len(model.layers) > 1
        if analytic and (reason := _correlated(model.likelihood.name)):  # chosen by the data
            raise UserError(reason)
        bound = self.kinds()[analytic](model, self.settings["samples"])
        if bound.group_size > MOST_HIDDEN:
            raise UserError(
                f"inference={self.settings['name']} has a covariance of {bound.group_size:,} inducing outputs"
                f", at most {MOST_HIDDEN:,} fit; set a smaller model.num_inducing or model.width"
            )
        return bound

    def kinds(self) -> tuple[type[Joint], type[Joint]]:
        """The bounds of the two estimators."""
        return Joint, Marginalised


def _correlated(likelihood: str) -> str | None:
    """Why the analytic estimator refuses a likelihood; None where it does not."""
    if likelihood not in ("softmax", "robustmax"):
        return None
    return (
        f"likelihood={likelihood} compares outputs, which inference.estimator=analytic leaves correlated; "
        "use inference.estimator=sampled"
    )


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
        """Those of `Marginalised` with L^-1 in place of L."""
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
