"""The likelihoods. Each class declares its tasks, link, fields and targets.

docs/add-kernel-likelihood-metric-dataset.md explains how to write one.

A parameter is used at most twice in each, so that no more than two gradients are added (gp/kernels). Classes
0 .. C - 1 of `MultiClass` have one function each, and Y (1, B) holds them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dgpbench.config.schema import POSITIVE, SWITCH, Field
from dgpbench.errors import UserError
from dgpbench.gp.lazy import lazy
from dgpbench.gp.likelihoods.base import (
    LOG_2PI,
    NODES,
    Likelihood,
    Targets,
    above_floor,
    deviation,
    gpflow_likelihoods,
    hermite_mean,
    hermite_points,
    likelihood,
    log_phi,
    phi,
)

if TYPE_CHECKING:
    import tensorflow as tf
else:
    tf = lazy("tensorflow")

SQUASH = 1e-6  # keeps products of distribution functions off 0 and 1, as in GPflow
LABELS = Targets("0 or 1", lambda y: (y == 0) | (y == 1), "code the classes 0, 1")


@likelihood("gaussian")
@dataclass(frozen=True)
class Gaussian(Likelihood):
    """p(y | f) = N(y; f, sigma^2), one sigma^2 for all outputs. Expectation in closed form."""

    variance: float = 0.01  # first value
    tasks = ("regression",)
    link = "identity"
    positive = ("variance",)
    exact_density = True

    def initial(self) -> dict[str, np.ndarray]:
        return {"variance": np.asarray(float(self.variance))}

    def variational_expectations(self, p, mean, var, Y, noise=None) -> tf.Tensor:
        v = p["variance"]
        each = -0.5 * (LOG_2PI + tf.math.log(v) + (tf.square(Y - mean) + var) / v)
        return tf.reduce_sum(each, 0)

    def log_density(self, p, mean, var, Y, nodes=None) -> tf.Tensor:
        v = var + p["variance"]
        return -0.5 * tf.reduce_sum(LOG_2PI + tf.math.log(v) + tf.square(Y - mean) / v, 0)

    def log_power(self, p, mean, var, Y, alpha: float, noise=None) -> tf.Tensor:
        """In closed form: N(y; f, s2)^alpha is N(y; f, s2 / alpha) times a constant."""
        s2 = p["variance"]
        v = var + s2 / alpha
        each = -0.5 * (LOG_2PI + tf.math.log(v) + tf.square(Y - mean) / v)
        constant = 0.5 * (1.0 - alpha) * (LOG_2PI + tf.math.log(tf.identity(s2))) - 0.5 * math.log(alpha)
        return tf.reduce_sum(each + constant, 0)

    def to_gpflow(self, values: Mapping[str, np.ndarray]) -> Any:
        return gpflow_likelihoods().Gaussian(**above_floor(self, values))


@likelihood("bernoulli")
@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """p(y = 1 | f) = epsilon + (1 - 2 epsilon) Phi(f), labels 0 and 1: the probit link.

    A share of wrong labels epsilon bounds what one row can cost; GPflow has 1e-3, 0 is the plain probit.
    """

    epsilon: float = 1e-3
    tasks = ("binary",)
    link = "probit"
    fields = {"epsilon": Field(float, low=0, below=0.5)}
    needs = LABELS
    discrete = True

    @property
    def log_concave(self) -> bool:  # type: ignore[override]  # depends on epsilon here
        return self.epsilon == 0

    def log_prob(self, p, F, Y) -> tf.Tensor:
        z = (2.0 * Y - 1.0) * F
        if self.epsilon == 0:
            return log_phi(z)
        return tf.math.log(self.epsilon + (1.0 - 2.0 * self.epsilon) * phi(z))

    def probs(self, p, mean, var, noise=None) -> tf.Tensor:
        """Probabilities of the classes 0 and 1 (2, B), in closed form."""
        z = mean / tf.sqrt(1.0 + tf.maximum(var, 0.0))
        return self.epsilon + (1.0 - 2.0 * self.epsilon) * phi(tf.concat([-z, z], 0))

    def to_gpflow(self, values: Mapping[str, np.ndarray]) -> Any:
        e, theirs = self.epsilon, gpflow_likelihoods()
        return theirs.Bernoulli() if e == 1e-3 else theirs.Bernoulli(lambda f: e + (1.0 - 2.0 * e) * phi(f))


@likelihood("bernoulli_logit")
@dataclass(frozen=True)
class BernoulliLogit(Likelihood):
    """p(y = 1 | f) = 1 / (1 + exp(-f)), labels 0 and 1."""

    tasks = ("binary",)
    link = "logit"
    needs = LABELS
    discrete = True

    def log_prob(self, p, F, Y) -> tf.Tensor:
        return -tf.math.softplus((1.0 - 2.0 * Y) * F)

    def probs(self, p, mean, var, noise=None) -> tf.Tensor:
        """Probabilities of the classes 0 and 1 (2, B), by quadrature."""
        both = tf.concat([-mean, mean], 0)
        each = hermite_mean(tf.sigmoid, both, tf.concat([var, var], 0), 4 * NODES)
        return each / tf.reduce_sum(each, 0)

    def to_gpflow(self, values: Mapping[str, np.ndarray]) -> Any:
        return gpflow_likelihoods().Bernoulli(tf.sigmoid)


@dataclass(frozen=True)
class MultiClass(Likelihood):
    """What the two share: one column of labels, C functions."""

    classes: int = 2
    tasks = ("binary", "multiclass")
    discrete = True

    def gps(self, targets: int) -> int:
        return self.classes

    def targets(self, gps: int) -> int:
        return 1

    def encode(self, Y) -> tf.Tensor:
        return self.one_hot(Y, Y.dtype)

    def one_hot(self, Y: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        """Labels (1, B) as (C, B) zeros and ones."""
        return tf.one_hot(tf.cast(tf.round(Y[0]), tf.int32), self.classes, axis=0, dtype=dtype)


@likelihood("robustmax")
@dataclass(frozen=True)
class RobustMax(MultiClass):
    """p(y | f) = 1 - epsilon where f_y is the largest of f, epsilon / (C - 1) where it is not.

    Its expectation needs only the probability that f_y is the largest, a one-dimensional integral.
    """

    epsilon: float = 1e-3
    link = "largest of the functions"
    fields = {"epsilon": Field(float, above=0, below=0.5)}
    log_concave = False

    def variational_expectations(self, p, mean, var, Y, noise=None) -> tf.Tensor:
        largest = self.prob_is_largest(mean, var, self.one_hot(Y, mean.dtype))
        hit, miss = math.log(1.0 - self.epsilon), math.log(self.epsilon / (self.classes - 1))
        return miss + (hit - miss) * largest

    def log_power(self, p, mean, var, Y, alpha: float, noise=None) -> tf.Tensor:
        """In closed form: p(y | f)^alpha takes two values."""
        largest = self.prob_is_largest(mean, var, self.one_hot(Y, mean.dtype))
        hit, miss = (1.0 - self.epsilon) ** alpha, (self.epsilon / (self.classes - 1)) ** alpha
        return tf.math.log(miss + (hit - miss) * largest)

    def prob_is_largest(self, mean, var, chosen, nodes: int = NODES) -> tf.Tensor:
        """P(f_y > f_c for all c != y) (B,) for independent f (C, B) and y one-hot (C, B)."""
        own_mean, own_var = tf.reduce_sum(chosen * mean, 0), tf.reduce_sum(chosen * var, 0)
        F, weight = hermite_points(own_mean, own_var, nodes)  # K, B
        z = (F[:, None] - mean) / deviation(var)  # K, C, B
        below = phi(z) * (1.0 - 2.0 * SQUASH) + SQUASH
        below = below * (1.0 - chosen) + chosen
        return tf.reduce_sum(weight * tf.reduce_prod(below, 1), 0)

    def probs(self, p, mean, var, noise=None) -> tf.Tensor:
        """Class probabilities (C, B); what the quadrature misses of a sum of one is shared out."""
        eye = tf.eye(self.classes, dtype=mean.dtype)
        each = [
            self.prob_is_largest(mean, var, eye[:, c : c + 1] * tf.ones_like(mean))
            for c in range(self.classes)
        ]
        largest = tf.stack(each)
        largest = largest / tf.reduce_sum(largest, 0)
        miss = self.epsilon / (self.classes - 1)
        return miss + (1.0 - self.epsilon - miss) * largest

    def to_gpflow(self, values: Mapping[str, np.ndarray]) -> Any:
        theirs = gpflow_likelihoods()
        return theirs.MultiClass(self.classes, theirs.RobustMax(self.classes, self.epsilon))


@likelihood("softmax")
@dataclass(frozen=True)
class Softmax(MultiClass):
    """p(y | f) = exp(f_y) / sum_c exp(f_c).

    E f_y is exact, E log sum exp is sampled at a pair f = mean +- sd eps of our own noise. The gradients are
    averages of derivatives in f over the pair, dE/dm = E softmax and dE/dv = E p (1 - p) / 2, unbiased as
    those of the samples are, with less noise, and of the sign that keeps natural-gradient steps valid.
    """

    link = "softmax"

    def noise_rows(self, gps: int) -> int:
        return gps

    def variational_expectations(self, p, mean, var, Y, noise=None) -> tf.Tensor:
        own = tf.reduce_sum(self.one_hot(Y, mean.dtype) * mean, 0)
        return own - tf.custom_gradient(_expected_log_sum_exp)(tf.identity(mean), var, noise)

    def log_power(self, p, mean, var, Y, alpha: float, noise=None) -> tf.Tensor:
        """At one sample of f: an unbiased estimate before the logarithm, to be averaged over many samples."""
        F = mean + deviation(var) * noise
        return alpha * tf.reduce_sum(self.one_hot(Y, mean.dtype) * tf.nn.log_softmax(F, 0), 0)

    def probs(self, p, mean, var, noise=None) -> tf.Tensor:
        """Class probabilities (C, B) at a pair of samples of f."""
        step = deviation(var) * noise
        return 0.5 * (tf.nn.softmax(mean + step, 0) + tf.nn.softmax(mean - step, 0))


def _expected_log_sum_exp(mean, var, noise) -> tf.Tensor:
    """An unbiased estimate of E log sum exp f (B,) under independent N(f; mean, var), all (C, B)."""
    step = deviation(var) * noise
    pair = tf.stack([mean + step, mean - step])  # 2, C, B
    value = 0.5 * tf.reduce_sum(tf.reduce_logsumexp(pair, 1), 0)

    def gradient(g):
        share = tf.nn.softmax(pair, 1)
        d_mean, d_var = tf.reduce_mean(share, 0), 0.5 * tf.reduce_mean(share * (1.0 - share), 0)
        return g * d_mean, g * d_var, None

    return value, gradient


@likelihood("student_t")
@dataclass(frozen=True)
class StudentT(Likelihood):
    """y = f + scale t, with t of Student's distribution with `df` degrees of freedom."""

    df: float = 3.0
    scale: float = 1.0  # first value
    tasks = ("regression",)
    link = "identity"
    fields = {"df": POSITIVE, "scale": POSITIVE}
    positive = ("scale",)
    log_concave = False

    def initial(self) -> dict[str, np.ndarray]:
        return {"scale": np.asarray(float(self.scale))}

    def log_prob(self, p, F, Y) -> tf.Tensor:
        df, scale = self.df, p["scale"]
        constant = math.lgamma(0.5 * (df + 1.0)) - math.lgamma(0.5 * df) - 0.5 * math.log(df * math.pi)
        tail = 0.5 * (df + 1.0) * tf.math.log1p(tf.square((Y - F) / scale) / df)
        return constant - tf.math.log(scale) - tail

    def draw(self, p, F, rng) -> np.ndarray:
        return F + p["scale"] * rng.standard_t(self.df, F.shape)

    def to_gpflow(self, values: Mapping[str, np.ndarray]) -> Any:
        return gpflow_likelihoods().StudentT(above_floor(self, values)["scale"], self.df)


@likelihood("beta")
@dataclass(frozen=True)
class Beta(Likelihood):
    """y in (0, 1) of a Beta distribution of mean m = 1 / (1 + exp(-f)): alpha = s m, beta = s (1 - m)."""

    scale: float = 1.0  # first value of s
    tasks = ("regression",)
    link = "logit"
    fields = {"scale": POSITIVE, "rescale": SWITCH}
    needs = Targets(
        "in (0, 1)", lambda y: (y > 0) & (y < 1), "likelihood.rescale=true maps their range there"
    )
    positive = ("scale",)
    log_concave = False

    def initial(self) -> dict[str, np.ndarray]:
        return {"scale": np.asarray(float(self.scale))}

    def log_prob(self, p, F, Y) -> tf.Tensor:
        s = p["scale"]
        both = tf.stack([F, -F])
        log_m = -tf.math.softplus(-both)  # log m, log(1 - m)
        concentration = s * tf.exp(log_m)  # alpha, beta
        log_y = tf.reshape(
            tf.stack([tf.math.log(Y), tf.math.log1p(-Y)]), (2, *[1] * (F.shape.rank - Y.shape.rank), *Y.shape)
        )
        # -lgamma(a) = log a - lgamma(1 + a), which stays finite where m rounds to 0 or 1
        each = log_m - tf.math.lgamma(1.0 + concentration) + (concentration - 1.0) * log_y
        once = tf.identity(s)
        return tf.reduce_sum(each, 0) + tf.math.lgamma(once) + 2.0 * tf.math.log(once)

    def draw(self, p, F, rng) -> np.ndarray:
        tiny = np.finfo(float).tiny  # the smallest parameter that numpy takes
        m = np.exp(-np.logaddexp(0.0, -F)), np.exp(-np.logaddexp(0.0, F))
        return rng.beta(*(np.maximum(p["scale"] * part, tiny) for part in m))

    @classmethod
    def target_scaling(cls, settings: Mapping[str, Any]) -> str:
        return "range" if settings["rescale"] else "none"

    def to_gpflow(self, values: Mapping[str, np.ndarray]) -> Any:
        return gpflow_likelihoods().Beta(tf.sigmoid, above_floor(self, values)["scale"])


@likelihood("ordinal")
@dataclass(frozen=True)
class Ordinal(Likelihood):
    """Levels 0 .. levels - 1: p(y <= k | f) = Phi((a_k - f) / sigma), edges a_k evenly from low to high.

    A probit model of ordered classes (Chu and Ghahramani 2005) with edges that are not trained.
    """

    levels: int = 2
    low: float = -2.0
    high: float = 2.0
    sigma: float = 1.0  # first value
    tasks = ("regression",)
    link = "probit"
    fields = {"sigma": POSITIVE, "low": Field(float), "high": Field(float)}
    scaling = "levels"
    positive = ("sigma",)
    fixed = ("edges",)
    discrete = True
    exact_density = True

    def initial(self) -> dict[str, np.ndarray]:
        edges = np.linspace(self.low, self.high, self.levels - 1)
        return {"sigma": np.asarray(float(self.sigma)), "edges": edges}

    def encode(self, Y) -> tf.Tensor:
        return 4.0 * Y / (self.levels - 1) - 2.0

    def _bin(self, p, mean, Y, sd) -> tf.Tensor:
        """log of Phi((a_y - mean) / sd) - Phi((a_{y-1} - mean) / sd)."""
        level = tf.cast(tf.round(Y), tf.int32)
        edges = tf.stop_gradient(p["edges"])
        padded = tf.concat([edges[:1] - 1.0, edges, edges[-1:] + 1.0], 0)  # the ends are not used
        below, above = tf.gather(padded, level), tf.gather(padded, level + 1)
        low, high = (below - mean) / sd, (above - mean) / sd  # of the bin
        flip = low > 0.0  # by symmetry no difference of two numbers near 1
        log_high, log_low = log_phi(tf.where(flip, -low, high)), log_phi(tf.where(flip, -high, low))
        gap = tf.minimum(log_low - log_high, -1e-30)  # a bin that rounds to nothing
        inside = log_high + tf.math.log(-tf.math.expm1(gap))
        ends = tf.where(level == 0, high, -low)
        return tf.where((level == 0) | (level == self.levels - 1), log_phi(ends), inside)

    def log_prob(self, p, F, Y) -> tf.Tensor:
        return self._bin(p, F, Y, p["sigma"])

    def log_density(self, p, mean, var, Y, nodes=None) -> tf.Tensor:
        sd = tf.sqrt(tf.square(p["sigma"]) + tf.maximum(var, 0.0))
        return tf.reduce_sum(self._bin(p, mean, Y, sd), 0)

    def draw(self, p, F, rng) -> np.ndarray:
        noisy = F + p["sigma"] * rng.standard_normal(F.shape)
        return np.searchsorted(p["edges"], noisy).astype(np.float64)

    @classmethod
    def check(cls, settings: Mapping[str, Any]) -> None:
        if settings["low"] >= settings["high"]:
            raise UserError("likelihood.low must be below likelihood.high, e.g. -2 and 2")


@likelihood("poisson")
@dataclass(frozen=True)
class Poisson(Likelihood):
    """Counts y of rate b exp(f), b the size of a bin. Expectation in closed form."""

    bin_size: float = 1.0
    tasks = ("regression", "counts")
    link = "log"
    fields = {"bin_size": Field(float, null=True, above=0)}
    scaling = "none"
    needs = Targets(
        "whole numbers from 0", lambda y: (y >= 0) & (y == np.round(y)), "use likelihood=gaussian"
    )
    fixed = ("bin_size",)
    discrete = True

    def initial(self) -> dict[str, np.ndarray]:
        return {"bin_size": np.asarray(float(self.bin_size))}

    def encode(self, Y) -> tf.Tensor:
        return tf.math.log1p(Y)

    def log_prob(self, p, F, Y) -> tf.Tensor:
        F = F + math.log(self.bin_size)
        return Y * F - tf.exp(F) - tf.math.lgamma(Y + 1.0)

    def variational_expectations(self, p, mean, var, Y, noise=None) -> tf.Tensor:
        mean = mean + math.log(self.bin_size)
        return tf.reduce_sum(Y * mean - tf.exp(mean + 0.5 * var) - tf.math.lgamma(Y + 1.0), 0)

    def draw(self, p, F, rng) -> np.ndarray:
        return rng.poisson(np.minimum(self.bin_size * np.exp(F), 2.0**62)).astype(np.float64)

    def to_gpflow(self, values: Mapping[str, np.ndarray]) -> Any:
        return gpflow_likelihoods().Poisson(binsize=self.bin_size)


@likelihood("gamma")
@dataclass(frozen=True)
class Gamma(Likelihood):
    """y of a Gamma distribution with a shape that is trained and scale exp(f). Expectation in closed form."""

    shape: float = 1.0  # first value
    tasks = ("regression",)
    link = "log"
    fields = {"shape": POSITIVE}
    scaling = "mean"
    needs = Targets("positive", lambda y: y > 0, "use likelihood=gaussian or student_t")
    positive = ("shape",)

    def initial(self) -> dict[str, np.ndarray]:
        return {"shape": np.asarray(float(self.shape))}

    def log_prob(self, p, F, Y) -> tf.Tensor:
        return self._log_prob(p, F, tf.exp(-F), Y)

    def variational_expectations(self, p, mean, var, Y, noise=None) -> tf.Tensor:
        once = tf.identity(mean)
        return tf.reduce_sum(self._log_prob(p, mean, tf.exp(0.5 * var - once), Y), 0)

    def _log_prob(self, p, F, inverse_scale, Y) -> tf.Tensor:
        log_y = tf.math.log(Y)
        return p["shape"] * (log_y - F) - tf.math.lgamma(p["shape"]) - log_y - Y * inverse_scale

    def draw(self, p, F, rng) -> np.ndarray:
        return rng.gamma(p["shape"], np.exp(F))

    def to_gpflow(self, values: Mapping[str, np.ndarray]) -> Any:
        return gpflow_likelihoods().Gamma(**above_floor(self, values))
