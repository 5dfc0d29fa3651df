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
Hidden GPs may stand in groups that are independent of each other (star.py): R has a block for each. The
chain's conditional moments come from a block Cholesky factor of that covariance, for any width and depth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dgpbench.config.schema import Field
from dgpbench.errors import UserError
from dgpbench.inference.base import Numerics
from dgpbench.inference.drawn import Drawn, DrawnMethod, fan_out, normals
from dgpbench.inference.lazy import lazy
from dgpbench.inference.variational import ADAM_FIELDS

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

    from dgpbench.gp import deep_gp, parameters, preparation
    from dgpbench.gp import layer as gp_layer
    from dgpbench.gp.deep_gp import DeepGP
    from dgpbench.gp.parameters import Constraint
else:
    tf, np, deep_gp = lazy("tensorflow"), lazy("numpy"), lazy("dgpbench.gp.deep_gp")
    parameters, preparation = lazy("dgpbench.gp.parameters"), lazy("dgpbench.gp.preparation")
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
            q[i] = preparation.Whitened(m + tf.reshape(shift[:, place], m.shape))
        q[self.last] = preparation.Whitened(mean, root)
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

    def prepare(self, values, numerics: Numerics, key=None, rows=None) -> tuple[Any, dict]:
        if numerics.num_data is None:
            return super().prepare(values, numerics, key, rows)
        copies = {name: fan_out(v, 3) for name, v in values.items()}
        for_gram, for_rest, for_kl = ({name: c[i] for name, c in copies.items()} for i in range(3))
        places, layers, shape = self.places(), [], (self.groups, -1)
        for i, layer in enumerate(self.model.layers):
            p, M = parameters.scope(for_rest, f"layer{i}"), layer.num_inducing
            kernel = layer.kernel.prepare(parameters.scope(p, "kernel"), p["Z"])
            K = layer.gram(parameters.scope(for_gram, f"layer{i}"), numerics.jitter)
            part = {name: p[name] for name in ("q_mu", "q_sqrt", "W", "P") if name in p}
            if i < self.last:
                R = tf.reshape(for_rest["hidden/q_root"][:, places[i]], (*shape, M, self.group_size))
            else:
                R = tf.reshape(p["q_cross"], (-1, M, self.groups, self.group_size))
                R = tf.transpose(R, (2, 0, 1, 3))
            layers.append(part | {"kernel": kernel, "L": tf.linalg.cholesky(K), "R": R})
        likelihood = parameters.scope(for_rest, "likelihood")
        return {"likelihood": likelihood, "chain": tuple(layers), "kl": self.divergences(for_kl)}, {}

    def terms(self, prepared, X, Y, noise, start) -> tf.Tensor:
        model, C, T = self.model, X.shape[1] * self.samples, self.groups
        H, Ys = tf.tile(X, (1, self.samples)), tf.tile(Y, (1, self.samples))
        # of the GPs below, V V^T their covariance: V^-1 a^T R and V^-1 (f - mean)
        basis = tf.zeros((T, C, 0, self.group_size), H.dtype)
        eps = tf.zeros((T, C, 0, 1), H.dtype)
        for i, (layer, p) in enumerate(zip(model.layers, prepared["chain"], strict=True)):
            H, for_diagonal, for_mean = fan_out(H, 3)
            A = gp_layer.whiten(p["L"], layer.kernel.cross(p["kernel"], H))  # M, C
            A, A_for_S, A_for_r, A_for_own = fan_out(A, 4)
            mean = tf.matmul(p["q_mu"], A)  # P, C
            r = layer.kernel.diagonal(p["kernel"], for_diagonal) - tf.reduce_sum(tf.square(A_for_r), 0)
            r = tf.maximum(r, SMALLEST)  # 1, C
            G, G_for_S, G_for_basis = fan_out(_through(p["R"], A_for_S), 3)  # T, C, GPs of a group, K
            basis, for_new = fan_out(basis, 2)
            W = fan_out(tf.matmul(G, basis, transpose_b=True), 3)  # T, C, GPs of a group, those below
            shift = tf.matmul(W[0], eps)[..., 0]  # T, C, GPs of a group
            if i == self.last:
                mean += tf.transpose(tf.reduce_sum(shift, 0))
                own = tf.einsum("pmk,mc->pkc", p["q_sqrt"], A_for_own)
                known = _squares(G_for_S) - _squares(W[1])
                var = r + tf.transpose(tf.reduce_sum(known, 0)) + tf.reduce_sum(tf.square(own), 1)
                break
            S = tf.matmul(G_for_S, G_for_S, transpose_b=True) - tf.matmul(W[1], W[1], transpose_b=True)
            V = tf.linalg.cholesky(tf.linalg.set_diag(S, tf.linalg.diag_part(S) + tf.transpose(r)))
            V, V_for_basis = fan_out(V, 2)
            e = tf.reshape(noise[model.noise_rows(i)], (T, -1, C))
            e = tf.transpose(e, (0, 2, 1))[..., None]  # T, C, GPs of a group, 1
            shift += tf.matmul(V, e)[..., 0]
            F = mean + tf.reshape(tf.transpose(shift, (0, 2, 1)), mean.shape)
            new = tf.linalg.triangular_solve(V_for_basis, G_for_basis - tf.matmul(W[2], for_new))
            basis, eps = tf.concat([basis, new], 2), tf.concat([eps, e], 2)
            H = layer.with_mean(p, tf.matmul(p["P"], F) if layer.mixed else F, for_mean)
        own_noise = noise[model.likelihood_rows]
        return model.likelihood.variational_expectations(prepared["likelihood"], mean, var, Ys, own_noise)


def _through(R: tf.Tensor, A: tf.Tensor) -> tf.Tensor:
    """A^T R (T, C, P, K) for R (T, P, M, K) and A (M, C), as one product."""
    T, P, M, K = R.shape
    wide = tf.reshape(tf.transpose(R, (2, 0, 1, 3)), (M, T * P * K))
    out = tf.reshape(tf.matmul(A, wide, transpose_a=True), (-1, T, P, K))
    return tf.transpose(out, (1, 0, 2, 3))


def _squares(A: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.square(A), -1)


class JointGaussian(DrawnMethod):
    fields = {"estimator": Field(str, choices=("sampled", "analytic")), **ADAM_FIELDS}

    def refuses(self, model: Mapping[str, Any], likelihood: str) -> str | None:
        one_layer = len(model.get("layers", ())) < 2
        if (reason := super().refuses(model, likelihood)) or one_layer or not self.analytic:
            return reason
        if self.cfg["precision"] != "float64":
            return (
                f"inference={self.settings['name']} factorises small covariances for each point; use "
                "precision=float64, or inference.estimator=sampled"
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
