"""Conditional variational autoencoder: y = f(w, x) + noise, w ~ N(0, I), f and q(w | x, y) networks.

The baseline of thesis table 5.2; without hidden layers it is that table's "Linear".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from dgpbench.config.keys import later_defaults
from dgpbench.config.schema import COUNT, POSITIVE, SWITCH, Field
from dgpbench.config.sections import hidden_sizes, option
from dgpbench.engine.platform import tf
from dgpbench.evaluate.predictive import Predictive
from dgpbench.gp import networks
from dgpbench.gp.parameters import NOISE, Constraint, scope
from dgpbench.models import importance, latent_density
from dgpbench.models.baselines.neural import PREDICT_COLUMNS, Network, NeuralModel

LOG_2PI = math.log(2.0 * math.pi)
Masks = list[tf.Tensor] | None  # (width, B) for each hidden layer


@dataclass(frozen=True)
class ConditionalVAE(Network):
    """Encoder [x, y] -> mean and scale of q(w), decoder [w, x] -> mean of y, one noise variance."""

    latent_dim: int = 1
    hidden: tuple[int, ...] = ()
    variance: float = 0.05  # of the noise, to start from
    dropout: float = 0.0  # share of the hidden units that are dropped in training

    @property
    def noise_dim(self) -> int:
        """Normals of w, then of the masks of the encoder's and the decoder's hidden units."""
        return self.latent_dim + (2 * sum(self.hidden) if self.dropout else 0)

    def describe(self) -> str:
        inner = " -> ".join(map(str, self.hidden)) or "no hidden layer"
        return f"{self.latent_dim} latent, {self.dim} -> {self.outputs}, encoder and decoder with {inner}"

    def initial(self, rng: np.random.RandomState) -> dict[str, np.ndarray]:
        D, P, L = self.dim, self.outputs, self.latent_dim
        sizes = {"encoder": (D + P, *self.hidden, 2 * L), "decoder": (L + D, *self.hidden, P)}
        values = {"likelihood/variance": np.asarray(self.variance)}
        for part, widths in sizes.items():
            values |= {f"{part}/{name}": value for name, value in networks.initial(widths, rng).items()}
        return values

    def constraints(self) -> dict[str, Constraint]:
        return {"likelihood/variance": NOISE}

    def encode(
        self, p: dict[str, tf.Tensor], X: tf.Tensor, Y: tf.Tensor, masks: Masks = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and standard deviation (softplus of the network's output) of q(w | x, y), each (L, B)."""
        out = networks.forward(scope(p, "encoder"), tf.concat([X, Y], 0), masks=masks)
        return out[: self.latent_dim], tf.math.softplus(out[self.latent_dim :])

    def decode(self, p: dict[str, tf.Tensor], w: tf.Tensor, X: tf.Tensor, masks: Masks = None) -> tf.Tensor:
        """The mean of y (P, B)."""
        return networks.forward(scope(p, "decoder"), tf.concat([w, X], 0), masks=masks)

    def masks(self, noise: tf.Tensor) -> tuple[Masks, Masks]:
        """Factors on the hidden units of encoder and decoder: 0 with probability `dropout`, else what keeps
        their mean; None without dropout."""
        if not self.dropout:
            return None, None
        kept = tf.cast(noise[self.latent_dim :] > ndtri(self.dropout), noise.dtype) / (1.0 - self.dropout)
        each = tf.split(kept, [*self.hidden, *self.hidden])
        return each[: len(self.hidden)], each[len(self.hidden) :]

    def terms(self, p: dict[str, tf.Tensor], X, Y, noise) -> tf.Tensor:
        """log p(y | w, x) - KL(q(w) || N(0, I)) at w = mean + scale noise, one sample per column (B,)."""
        encoding, decoding = self.masks(noise)
        mean, scale = self.encode(p, X, Y, encoding)
        F = self.decode(p, mean + scale * noise[: self.latent_dim], X, decoding)
        loglik = self.log_likelihood(p, F, Y)
        kl = tf.reduce_sum(0.5 * (mean**2 + scale**2 - 1.0) - tf.math.log(scale), 0)
        return loglik - kl

    def log_likelihood(self, p: dict[str, tf.Tensor], F: tf.Tensor, Y: tf.Tensor) -> tf.Tensor:
        """log p(y | w, x) (B,) at means F (P, B)."""
        variance = p["likelihood/variance"]
        return -0.5 * tf.reduce_sum(LOG_2PI + tf.math.log(variance) + (Y - F) ** 2 / variance, 0)


class CVAE(NeuralModel):
    """Trained on the evidence lower bound with analytic KL; at test time w comes from its prior."""

    latent = True  # predictions average over latent variables: protocol.latent_samples of them

    def __init__(self, cfg: dict):
        self.latent_dim = option(cfg, "latent_dim", COUNT)
        self.hidden = hidden_sizes(cfg)
        self.variance = option(cfg, "likelihood_variance", POSITIVE)
        later = {"model": later_defaults("model") | cfg["model"]}  # an older config has none of these
        self.dropout = option(later, "dropout", Field(float, low=0, below=1))
        self.fixed = (
            () if option(later, "likelihood_variance_trainable", SWITCH) else ("likelihood/variance",)
        )
        super().__init__(cfg)

    def network(self, dim: int, outputs: int) -> ConditionalVAE:
        sizes = {"latent_dim": self.latent_dim, "hidden": self.hidden}
        noise = {"variance": self.variance, "dropout": self.dropout}
        return ConditionalVAE(dim=dim, outputs=outputs, **sizes, **noise)

    def predict(self, X: np.ndarray, samples: int, seed: int) -> Predictive:
        p = self.tensors()
        network = self.network(X.shape[1], p[f"decoder/W{len(self.hidden)}"].shape[0])
        rows = max(1, PREDICT_COLUMNS // samples)
        return self.mixture_of_draws(
            X, samples, seed, rows, self.latent_dim, lambda x, w: network.decode(p, w, x)
        )

    def log_density(self, X: np.ndarray, Y: np.ndarray, samples: int, seed: int) -> np.ndarray | None:
        """log p(y | x) by quadrature over a one-dimensional w (latent_density.py) (1, N), of images with more
        by importance sampling (importance.py) (S, N), else None."""
        if self.latent_dim > 1:
            return self._importance(X, Y, samples, seed) if self.cfg["dataset"].get("image") else None
        p = self.tensors()
        network = self.network(X.shape[1], Y.shape[1])
        rows = max(1, latent_density.COLUMNS // latent_density.SAMPLES)
        out = []
        for start in range(0, len(X), rows):
            x, y = (tf.constant(A[start : start + rows].T) for A in (X, Y))

            def moments(w, x=x):
                F = network.decode(p, tf.reshape(w, (1, -1)), tf.tile(x, (1, w.shape[1])))
                return F, tf.ones_like(F) * p["likelihood/variance"]

            out.append(latent_density.integrate(moments, y).numpy())
        return np.concatenate(out)[None]

    def _importance(self, X: np.ndarray, Y: np.ndarray, samples: int, seed: int) -> np.ndarray:
        p, network = self.tensors(), self.network(X.shape[1], Y.shape[1])

        @tf.function
        def terms(x, y, key):
            Xt, Yt = tf.transpose(x), tf.transpose(y)

            def log_p(w, stream):  # L, K, R
                K, R = w.shape[1:]
                F = network.decode(p, tf.reshape(w, (-1, K * R)), tf.tile(Xt, (1, K)))
                return tf.reshape(network.log_likelihood(p, F, tf.tile(Yt, (1, K))), (K, R))

            return importance.adapted_terms(log_p, self.latent_dim, x.shape[0], samples, key, Xt.dtype)

        rows = importance.block_rows(max(Y.shape[1], *self.hidden, 1), samples, len(X))
        return importance.in_blocks(terms, X, Y, rows, seed)
