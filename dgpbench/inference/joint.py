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
The chain's conditional moments come from a block Cholesky factor of that covariance, for any width and depth.
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

MOST_HIDDEN = 4000  # hidden inducing outputs: their covariance has this many squared entries
SMALLEST = 1e-12  # variance of a GP given its inducing outputs


@dataclass(frozen=True)
class Joint(Drawn):
    """By sampling u. hidden/q_root (D, D) is R, q_cross (P, M, D) of the last layer is C."""

    @property
    def hidden(self) -> int:
        """D, inducing outputs of all hidden GPs."""
        return sum(layer.output_dim * layer.num_inducing for layer in self.model.layers[:-1])

    @property
    def last(self) -> int:
        return len(self.model.layers) - 1

    def initial(self, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Those of a mean-field q(u): no covariance between GPs."""
        if not self.hidden:
            return values
        inner = [f"layer{i}/q_sqrt" for i in range(self.last)]
        out = {name: v for name, v in values.items() if name not in inner}
        root, start = np.zeros((self.hidden, self.hidden)), 0
        for block in (block for name in inner for block in values[name]):
            end = start + len(block)
            root[start:end, start:end] = block
            start = end
        P, M = values[f"layer{self.last}/q_mu"].shape
        return out | {"hidden/q_root": root, f"layer{self.last}/q_cross": np.zeros((P, M, self.hidden))}

    def constraints(self) -> dict[str, Constraint]:
        return self.model.constraints() | {"hidden/q_root": parameters.LOWER}

    def draw(self, values, numerics: Numerics, key) -> tuple[dict[str, Any], dict[int, tf.Tensor]]:
        mean, root = (values[name] for name in self.model.parameter_names(self.last))
        q, start = {}, 0
        if self.hidden:
            e = normals(key, (self.hidden,), mean.dtype)
            shift = tf.linalg.matvec(values["hidden/q_root"], e)
            mean = mean + tf.linalg.matvec(values[f"layer{self.last}/q_cross"], e)
        for i in range(self.last):
            m = values[f"layer{i}/q_mu"]
            end = start + m.shape[0] * m.shape[1]
            q[i] = preparation.Whitened(m + tf.reshape(shift[start:end], m.shape))
            start = end
        q[self.last] = preparation.Whitened(mean, root)
        dtype = numerics.batch_dtype or mean.dtype
        layers, _ = deep_gp.prepare(self.model, values, numerics.jitter, numerics.forms, dtype, q=q)
        del layers["likelihood"]
        return layers, self.divergences(values)

    def divergences(self, values) -> dict[int, tf.Tensor]:
        """KL of the hidden layers together, below 0, and of the last given them."""
        mean, root = (values[name] for name in self.model.parameter_names(self.last))
        kl = gp_layer.kl_divergence(mean, root)
        if not self.hidden:
            return {0: kl}
        means = [tf.reshape(values[f"layer{i}/q_mu"], (1, -1)) for i in range(self.last)]
        below = gp_layer.kl_divergence(tf.concat(means, 1), values["hidden/q_root"][None])
        cross = tf.reduce_sum(tf.square(values[f"layer{self.last}/q_cross"]))
        return {0: below, self.last: kl + 0.5 * cross}


@dataclass(frozen=True)
class Marginalised(Joint):
    """By integrating over u; predictions draw it."""

    @property
    def tallest(self) -> int:
        return max(layer.output_dim for layer in self.model.layers) * max(self.hidden, super().tallest)

    @property
    def compiles(self) -> bool:
        return False  # small Cholesky factors for each point

    def prepare(self, values, numerics: Numerics, key=None, rows=None) -> tuple[Any, dict]:
        if numerics.num_data is None:
            return super().prepare(values, numerics, key, rows)
        copies = {name: fan_out(v, 3) for name, v in values.items()}
        for_kernel, for_rest, for_kl = ({name: c[i] for name, c in copies.items()} for i in range(3))
        layers, start = [], 0
        for i, layer in enumerate(self.model.layers):
            p, rest = (parameters.scope(v, f"layer{i}") for v in (for_kernel, for_rest))
            kernel = layer.kernel.prepare(parameters.scope(rest, "kernel"), rest["Z"])
            part = {"kernel": kernel, "L": tf.linalg.cholesky(layer.gram(p, numerics.jitter))}
            part |= {name: rest[name] for name in ("q_mu", "q_sqrt", "q_cross", "W", "P") if name in rest}
            if i < self.last:
                end = start + layer.output_dim * layer.num_inducing
                shape = (layer.output_dim, layer.num_inducing, self.hidden)
                part["q_cross"] = tf.reshape(for_rest["hidden/q_root"][start:end], shape)
                start = end
            layers.append(part)
        likelihood = parameters.scope(for_rest, "likelihood")
        return {"likelihood": likelihood, "chain": tuple(layers), "kl": self.divergences(for_kl)}, {}

    def terms(self, prepared, X, Y, noise, start) -> tf.Tensor:
        model, C = self.model, X.shape[1] * self.samples
        H, Ys = tf.tile(X, (1, self.samples)), tf.tile(Y, (1, self.samples))
        basis = tf.zeros(
            (C, 0, self.hidden), H.dtype
        )  # (V^-1 a^T R) of the GPs below, V V^T their covariance
        eps = tf.zeros((C, 0, 1), H.dtype)
        for i, (layer, p) in enumerate(zip(model.layers, prepared["chain"], strict=True)):
            H, for_diagonal, for_mean = fan_out(H, 3)
            A = gp_layer.whiten(p["L"], layer.kernel.cross(p["kernel"], H))  # M, C
            A, A_for_S, A_for_r, A_for_own = fan_out(A, 4)
            mean = tf.matmul(p["q_mu"], A)  # P, C
            r = layer.kernel.diagonal(p["kernel"], for_diagonal) - tf.reduce_sum(tf.square(A_for_r), 0)
            r = tf.maximum(r, SMALLEST)  # 1, C
            G, G_for_S, G_for_basis = fan_out(tf.einsum("pmd,mc->cpd", p["q_cross"], A_for_S), 3)
            basis, for_new = fan_out(basis, 2)
            W = fan_out(tf.matmul(G, basis, transpose_b=True), 3)  # C, P, GPs below
            mean += tf.transpose(tf.matmul(W[0], eps)[..., 0])
            if i == self.last:
                own = tf.einsum("pmk,mc->pkc", p["q_sqrt"], A_for_own)
                known = tf.reduce_sum(tf.square(G_for_S), 2) - tf.reduce_sum(tf.square(W[1]), 2)
                var = r + tf.transpose(known) + tf.reduce_sum(tf.square(own), 1)
                break
            S = tf.matmul(G_for_S, G_for_S, transpose_b=True) - tf.matmul(W[1], W[1], transpose_b=True)
            V = tf.linalg.cholesky(tf.linalg.set_diag(S, tf.linalg.diag_part(S) + tf.transpose(r)))
            V, V_for_basis = fan_out(V, 2)
            e = tf.transpose(noise[model.noise_rows(i)])[..., None]  # C, P, 1
            F = mean + tf.transpose(tf.matmul(V, e)[..., 0])
            new = tf.linalg.triangular_solve(V_for_basis, G_for_basis - tf.matmul(W[2], for_new))
            basis, eps = tf.concat([basis, new], 1), tf.concat([eps, e], 1)
            H = layer.with_mean(p, tf.matmul(p["P"], F) if layer.mixed else F, for_mean)
        own_noise = noise[model.likelihood_rows]
        return model.likelihood.variational_expectations(prepared["likelihood"], mean, var, Ys, own_noise)


class JointGaussian(DrawnMethod):
    fields = {"estimator": Field(str, choices=("sampled", "analytic")), **ADAM_FIELDS}

    def refuses(self, model: Mapping[str, Any], likelihood: str) -> str | None:
        if (reason := super().refuses(model, likelihood)) or self.settings["estimator"] == "sampled":
            return reason
        if self.cfg["precision"] != "float64":
            return (
                "inference.estimator=analytic factorises small covariances for each point; use "
                "precision=float64, or inference.estimator=sampled"
            )
        return _correlated(likelihood)

    def bound(self, model: DeepGP) -> Joint:
        kind = Joint if self.settings["estimator"] == "sampled" or len(model.layers) == 1 else Marginalised
        bound = kind(model, self.settings["samples"])
        if kind is Marginalised and (reason := _correlated(model.likelihood.name)):  # chosen by the data
            raise UserError(reason)
        if bound.hidden > MOST_HIDDEN:
            raise UserError(
                f"inference=joint has a covariance of all {bound.hidden:,} hidden inducing outputs, at most "
                f"{MOST_HIDDEN:,} fit; set a smaller model.num_inducing or model.width"
            )
        return bound


def _correlated(likelihood: str) -> str | None:
    """Why the analytic estimator refuses a likelihood; None where it does not."""
    if likelihood not in ("softmax", "robustmax"):
        return None
    return (
        f"likelihood={likelihood} compares outputs, which inference.estimator=analytic leaves correlated; use "
        "inference.estimator=sampled"
    )
