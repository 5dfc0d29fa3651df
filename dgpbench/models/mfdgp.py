"""Multi-fidelity deep GPs: one layer for each level, which sees x and the function of the level below.

    f_0 ~ GP(0, k(x, x')),   f_t ~ GP(0, k_rho(x, x') [s (f - c)(f' - c) + k_f(f, f')] + k_delta(x, x'))
with f = f_{t-1}(x); the linear case, co-kriging, has s (f - c)(f' - c) + k_delta. The last row of X is the
level of a column, at which its y was observed, with a noise variance for each level. The bound is
    sum_t sum_i E log N(y_i^t; f_t(x_i), s_t) - sum_t KL(q(u_t) || p(u_t))
with a sample of f_{t-1} as input of f_t.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dgpbench.engine.platform import tf
from dgpbench.errors import UserError
from dgpbench.gp import initialisation, kernels
from dgpbench.gp.deep_gp import DeepGP
from dgpbench.gp.layer import VARIANCE_FLOOR, GPLayer
from dgpbench.gp.likelihoods import Gaussian
from dgpbench.gp.parameters import scope
from dgpbench.inference.base import Bound
from dgpbench.models.gp import GPModel

JITTER = 1e-6  # of the first values


@dataclass(frozen=True)
class FidelityGP(DeepGP):
    """Layer t is the function of level t, with inputs x and, above the first, f_{t-1}."""

    @property
    def input_dim(self) -> int:
        """x and the level."""
        return self.layers[0].input_dim + 1

    def walk(self, prepared: dict, X: tf.Tensor, noise: tf.Tensor) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
        """Mean and variance (1, C) of each level's function, given a sample of the level below."""
        x, f = X[:-1], None
        for t, layer in enumerate(self.layers):
            H = x if f is None else tf.concat([x, f], 0)
            mean, var = layer.conditional(prepared[f"layer{t}"], H)
            yield mean, var
            if t < len(self.layers) - 1:
                f = mean + tf.sqrt(tf.maximum(var, VARIANCE_FLOOR[var.dtype])) * noise[t : t + 1]

    def describe(self) -> str:
        return f"{self.layers[0].input_dim} inputs, {len(self.layers)} levels"


def kernel_text(kernel: str, level: int, linear: bool) -> str:
    """The kernel of a level's layer, of the same family in x and in f."""
    if level == 0:
        return kernel
    own = f"/{kernel}/"
    return f"affine@-1+{own}@:-1" if linear else f"{own}@:-1*/affine@-1+{own}@-1/+{own}@:-1"


def fidelity_structure(settings: dict, values: dict[str, np.ndarray]) -> FidelityGP:
    """The structure that the model's settings and the shapes of its parameters imply."""
    layers, levels = [], len(values["likelihood/variance"])
    for t in range(levels):
        M, dim = values[f"layer{t}/Z"].shape
        text = kernel_text(settings["kernel"], t, settings["linear"])
        layers.append(GPLayer(kernels.parse(text, dim, settings["ard"]), M, 1, "zero"))
    return FidelityGP(tuple(layers), Gaussian(settings["likelihood_variance"]))


def fidelity_start(
    settings: dict, X: np.ndarray, Y: np.ndarray, levels: int, seed: int
) -> tuple[FidelityGP, dict[str, np.ndarray], set[str]]:
    """Structure, first values and names that are not trained; the last column of X (N, D + 1) is the level.

    Inducing inputs are centres of a level's rows, with the nearest y of the level below as f; q(u) starts at
    the posterior mean given the nearest y of its own level.
    """
    rng, fixed = np.random.RandomState(seed), set()
    values: dict[str, np.ndarray] = {}
    x, below = [X[X[:, -1] == t, :-1] for t in range(levels)], [Y[X[:, -1] == t, 0] for t in range(levels)]
    scale = np.sqrt(X.shape[1] - 1) if settings["lengthscale"] == "sqrt_dim" else settings["lengthscale"]
    for t in range(levels):
        M = min(initialisation.count_inducing(settings["num_inducing"], len(x[t])), len(x[t]))
        Z = initialisation.kmeans(x[t], M, rng)
        seen = _nearest(Z, x[t], below[t])
        if t:
            Z = np.hstack([Z, _nearest(Z, x[t - 1], below[t - 1])[:, None]])
        kernel = kernels.parse(
            kernel_text(settings["kernel"], t, settings["linear"]), Z.shape[1], settings["ard"]
        )
        own = kernel.initial(settings["kernel_variance"], scale, 0.0)
        values |= {f"layer{t}/kernel/{name}": v for name, v in own.items()}
        values |= {f"layer{t}/Z": Z, f"layer{t}/q_sqrt": 0.1 * np.eye(M)[None]}
        tensors = {n: tf.constant(v) for n, v in scope(values, f"layer{t}").items()}
        gram = GPLayer(kernel, M, 1, "zero").gram(tensors, JITTER).numpy()
        fit = np.linalg.solve(gram + settings["likelihood_variance"] * np.eye(M), seen)
        values[f"layer{t}/q_mu"] = (np.linalg.cholesky(gram).T @ fit)[None]
        if t and not settings["linear"]:
            fixed.add(f"layer{t}/kernel/{kernel.names[0]}/variance")  # of k_rho: s and k_f have their own
    values["likelihood/variance"] = np.full(levels, float(settings["likelihood_variance"]))
    return fidelity_structure(settings, values), values, fixed & values.keys()


def _nearest(Z: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The y of the row of X nearest to each row of Z."""
    from scipy.spatial import cKDTree

    return y[cKDTree(X).query(Z)[1]]


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


# noqa: F401  isort: skip  (before anything else starts TensorFlow)


class MultiFidelity(GPModel):
    """A GP for each level on top of the one below; predictions are at the level of each row."""

    latent = False
    tasks = ("regression",)

    def build(self, split, X: np.ndarray, Y: np.ndarray, seed: int, likelihood) -> tuple:
        if not split.levels:
            raise UserError(
                f"model=mfdgp needs a level for each row, dataset {split.dataset} has none; use "
                "dataset=mf_sine or another mf_ set, or name the column of your file with dataset.level"
            )
        if likelihood.name != "gaussian" or Y.shape[1] > 1:
            raise UserError("model=mfdgp is for one target with Gaussian noise; leave likelihood=auto")
        if missing := set(range(split.levels)) - set(X[:, -1].astype(int)):
            raise UserError(
                f"model=mfdgp: no training row has level {min(missing)}; set dataset.train_levels=all"
            )
        model, values, fixed = fidelity_start(self.cfg["model"], X, Y, split.levels, seed)
        if self.cfg["inference"]["hyperparameters"] == "fixed":
            fixed |= {name for name in values if not model.is_variational(name)}
        return model, values, fixed, []

    def structure(self, values: dict[str, np.ndarray]) -> DeepGP:
        return fidelity_structure(self.cfg["model"], values)

    def make_bound(self, model: DeepGP) -> Bound:
        return FidelityBound(model, self.cfg["inference"]["samples"])

    def predict(self, X: np.ndarray, samples: int, seed: int):
        level = X[:, -1]
        highest = len(self.model.layers) - 1
        if not np.isin(level, np.arange(highest + 1)).all():
            bad = level[~np.isin(level, np.arange(highest + 1))][0]
            raise UserError(f"level {bad:g} of a row to predict is none of 0 to {highest}; give one of these")
        return super().predict(X, samples, seed)
