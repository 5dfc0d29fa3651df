"""What a likelihood offers, how one is declared, quadrature over f, and a stable log Phi.

All work on columns: mean and var of f and Y are (P, ...), points in the last axis; results are summed over
the P outputs. Written here, not taken from GPflow, because they run in three precisions, under XLA and
with stateless noise; the tests hold each one against GPflow's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from dgpbench.config.schema import Field
from dgpbench.errors import UserError, import_gpflow
from dgpbench.gp import quadrature
from dgpbench.gp.lazy import lazy
from dgpbench.gp.parameters import NOISE, Constraint

if TYPE_CHECKING:
    import tensorflow as tf
else:
    tf = lazy("tensorflow")

POWER_NODES = 48  # the same where the integral is trained on
NODES = 20  # Gauss-Hermite nodes of an expectation, as in GPflow
DENSITY_NODES = 128  # adaptive nodes of a density: p(y | f) can be far narrower in f than its log is curved
STRETCH = 3.0  # they reach to 24 standard deviations of f: an outlier's mass lies far from the mean
VARIANCE_FLOOR = {"float64": 1e-12, "float32": 1e-8}  # before the square root, as for samples (layer.py)
LOG_2PI = math.log(2.0 * math.pi)
LEAST = NOISE.floor * (1.0 + 1e-9)  # GPflow has the same floor, and takes what lies above it
SCALINGS = ("standard", "none", "mean", "range", "levels")  # of targets: data/scaling.py
Kind = TypeVar("Kind", bound="type[Likelihood]")


class Targets(NamedTuple):
    """Targets that a likelihood can generate: in words, as a test by entry, and what to do about others."""

    text: str
    holds: Callable[[np.ndarray], np.ndarray]
    remedy: str


def likelihood(name: str) -> Callable[[Kind], Kind]:
    """Declare a likelihood: `likelihood=name` then means the class."""

    def declare(kind: Kind) -> Kind:
        if not (isinstance(kind, type) and issubclass(kind, Likelihood)):
            raise UserError(f"likelihood {name}: {kind.__name__} must be a subclass of Likelihood")
        if not kind.tasks or kind.scaling not in SCALINGS:
            raise UserError(f"likelihood {name}: set tasks, and scaling to one of {', '.join(SCALINGS)}")
        kind.name = name
        return kind

    return declare


@dataclass(frozen=True)
class Likelihood:
    """Base class of likelihoods: a frozen dataclass whose fields are settings, or facts of the data.

    Facts are `classes`, `levels`, `bin_size` and `variance`. Trained numbers are in `p`, the entries below
    `likelihood/`. A subclass needs `tasks`, `log_prob`, and `draw` or `probs`.
    """

    name: ClassVar[str]
    tasks: ClassVar[tuple[str, ...]] = ()  # of TASKS in config/schema.py
    link: ClassVar[str] = "identity"  # from f to the mean of y
    fields: ClassVar[Mapping[str, Field]] = {}  # settings, whose defaults are in conf/likelihood/NAME.yaml
    scaling: ClassVar[str] = "standard"  # of targets, one of SCALINGS
    needs: ClassVar[Targets | None] = None
    log_concave: ClassVar[bool] = True  # natural-gradient steps then stay positive definite
    fixed: ClassVar[tuple[str, ...]] = ()  # parameters that are not trained
    positive: ClassVar[tuple[str, ...]] = ()  # parameters that are scales, above a small floor
    exact_density: ClassVar[bool] = False  # log_density is in closed form
    discrete: ClassVar[bool] = False  # y takes separate values: densities are probabilities

    @classmethod
    def check(cls, settings: Mapping[str, Any]) -> None:
        """Raise UserError for settings that are valid one by one and do not go together."""

    @classmethod
    def target_scaling(cls, settings: Mapping[str, Any]) -> str:
        """Return how targets are scaled."""
        return cls.scaling

    def gps(self, targets: int) -> int:
        """Outputs of the last layer for so many columns of Y."""
        return targets

    def targets(self, gps: int) -> int:
        """Columns of Y for so many outputs of the last layer."""
        return gps

    def noise_rows(self, gps: int) -> int:
        """Standard normals for each point that an expectation or a prediction needs."""
        return 0

    def initial(self) -> dict[str, np.ndarray]:
        """First values of the parameters."""
        return {}

    def constraints(self) -> dict[str, Constraint]:
        """Of the parameters that are not free."""
        return dict.fromkeys(self.positive, NOISE)

    def encode(self, Y: tf.Tensor) -> tf.Tensor:
        """What an encoder of latent variables sees of Y."""
        return Y

    def log_prob(self, p, F: tf.Tensor, Y: tf.Tensor) -> tf.Tensor:
        """log p(y | f) for each output."""
        raise NotImplementedError

    def variational_expectations(self, p, mean, var, Y, noise=None) -> tf.Tensor:
        """E log p(y | f) under N(f; mean, var), summed over outputs."""
        return tf.reduce_sum(hermite_mean(lambda F: self.log_prob(p, F, Y), mean, var), 0)

    def log_density(self, p, mean, var, Y, nodes: int = DENSITY_NODES) -> tf.Tensor:
        """log of the integral of p(y | f) N(f; mean, var) df, summed over outputs: (B,) for (P, B)."""
        return tf.reduce_sum(log_integral(lambda F, y: self.log_prob(p, F, y), mean, var, Y, nodes), 0)

    def log_power(self, p, mean, var, Y, alpha: float, noise=None) -> tf.Tensor:
        """log of the integral of p(y | f)^alpha N(f; mean, var) df, summed over outputs; for training."""
        each = log_power_integral(lambda F, y: alpha * self.log_prob(p, F, y), mean, var, Y, POWER_NODES)
        return tf.reduce_sum(each, 0)

    def draw(self, p: dict[str, np.ndarray], F: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A draw of y for each entry of F, of any shape."""
        raise NotImplementedError

    def to_gpflow(self, values: Mapping[str, np.ndarray]) -> Any:
        """GPflow's likelihood with these values, named as in `initial`, whose expectations are the same."""
        raise NotImplementedError

    @classmethod
    def in_gpflow(cls) -> bool:
        """Return whether GPflow has this likelihood."""
        return cls.to_gpflow is not Likelihood.to_gpflow


def gpflow_likelihoods() -> Any:
    """Return GPflow's module of likelihoods, imported now."""
    gpflow = import_gpflow()

    return gpflow.likelihoods


def above_floor(own: Likelihood, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the values of scales as GPflow accepts them."""
    return {name: np.maximum(v, LEAST) for name, v in values.items() if name in own.positive}


@lru_cache(maxsize=4)
def _hermite(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    x, weight = np.polynomial.hermite_e.hermegauss(nodes)
    return x, weight / weight.sum()


def deviation(var: tf.Tensor) -> tf.Tensor:
    """sqrt(var), rounding below zero cut off."""
    return tf.sqrt(tf.maximum(var, VARIANCE_FLOOR[var.dtype.name]))


def hermite_points(mean: tf.Tensor, var: tf.Tensor, nodes: int = NODES) -> tuple[tf.Tensor, tf.Tensor]:
    """Values of f (K, ...) and their weights (K, 1, ...) for N(f; mean, var)."""
    shape = (nodes, *[1] * mean.shape.rank)
    x, weight = (tf.constant(a.reshape(shape), mean.dtype) for a in _hermite(nodes))
    return mean + deviation(var) * x, weight


def hermite_mean(function: Callable, mean: tf.Tensor, var: tf.Tensor, nodes: int = NODES) -> tf.Tensor:
    """E function(f) under N(f; mean, var), entry by entry."""
    F, weight = hermite_points(mean, var, nodes)
    return tf.reduce_sum(weight * function(F), 0)


def log_integral(log_function: Callable, mean, var, Y, nodes: int) -> tf.Tensor:
    """log E exp(log_function(f, y)) under N(f; mean, var), entry by entry of (P, B).

    By nodes t put where the integrand has its mass (gp/quadrature.py), with f = mean + 3 sd t.
    """
    shape, K = mean.shape, nodes
    m, s, y = (tf.reshape(a, (1, -1)) for a in (mean, STRETCH * deviation(var), Y))  # 1, C
    grid = tf.constant(quadrature.coarse_grid(K)[:, None], mean.dtype)  # K, 1
    F = tf.reshape(m + s * grid, (1, -1))  # 1, K C: linear in t, so that no interpolation error arises

    def log_joint(f, t):
        return log_function(f, y) - 0.5 * tf.square(STRETCH * t)

    t, log_weight = quadrature.place(F, tf.zeros_like(F), lambda f, _, t: log_joint(f[0], t), K)  # K, C
    total = tf.reduce_logsumexp(log_joint(m + s * t, t) + log_weight, 0)
    return tf.reshape(total + math.log(STRETCH) - 0.5 * LOG_2PI, shape)


def log_power_integral(log_function: Callable, mean, var, Y, nodes: int) -> tf.Tensor:
    """`log_integral` with a gradient: nodes f_k are placed for the moments as they are and then held, so that
    mean and variance are differentiated in log N(f_k; mean, var), and the function in its own parameters."""
    held, sd = tf.stop_gradient(mean), tf.stop_gradient(deviation(var))
    flat = lambda a: tf.reshape(a, (1, -1))  # noqa: E731
    m, s, y = flat(held), STRETCH * flat(sd), flat(Y)  # 1, C
    F = flat(m + s * tf.constant(quadrature.coarse_grid(nodes)[:, None], mean.dtype))  # 1, K C

    def log_joint(f, _, t):
        return log_function(f[0], y) - 0.5 * tf.square(STRETCH * t)

    t, log_weight = quadrature.place(F, tf.zeros_like(F), log_joint, nodes)  # K, C
    f, log_weight = tf.stop_gradient(m + s * t), tf.stop_gradient(log_weight + tf.math.log(s))
    v = tf.square(flat(deviation(var)))
    log_normal = -0.5 * (LOG_2PI + tf.math.log(v) + tf.square(f - flat(mean)) / v)
    return tf.reshape(tf.reduce_logsumexp(log_function(f, y) + log_normal + log_weight, 0), mean.shape)


def log_phi(z: tf.Tensor) -> tf.Tensor:
    """log Phi(z) of the standard normal, also far in the left tail, where its asymptotic series is used."""
    return tf.custom_gradient(_log_phi)(z)


def _log_phi(z: tf.Tensor) -> tuple[tf.Tensor, Callable]:
    far = z < tf.constant(-14.0 if z.dtype == tf.float64 else -8.0, z.dtype)
    one = tf.ones_like(z)
    near = tf.math.log(0.5 * tf.math.erfc(-tf.where(far, one, z) * math.sqrt(0.5)))
    t = tf.where(far, z, -10.0 * one)
    u = 1.0 / tf.square(t)
    series = one
    for k in range(8, 0, -1):  # 1 - u + 3 u^2 - 15 u^3 ...
        series = 1.0 - (2 * k - 1) * u * series
    tail = -0.5 * tf.square(t) - tf.math.log(-t) - 0.5 * LOG_2PI + tf.math.log(series)
    value = tf.where(far, tail, near)
    return value, lambda g: g * tf.exp(-0.5 * tf.square(z) - 0.5 * LOG_2PI - value)


def phi(z: tf.Tensor) -> tf.Tensor:
    """Phi(z) of the standard normal."""
    return 0.5 * tf.math.erfc(-z * math.sqrt(0.5))
