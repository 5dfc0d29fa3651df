"""Independent answers: log densities from scipy and expectations by a dense rule in NumPy."""

import numpy as np
import tensorflow as tf
from scipy import special, stats

from dgpbench.gp.likelihoods import LIKELIHOODS

MEANS = (-30.0, -6.0, -2.0, -0.3, 0.0, 0.7, 3.0, 30.0)
VARIANCES = (1e-10, 1e-4, 0.05, 1.0, 10.0)
TARGETS = {
    "gaussian": (-1.3, 0.4),
    "bernoulli": (0.0, 1.0),
    "bernoulli_plain": (0.0, 1.0),
    "bernoulli_logit": (0.0, 1.0),
    "student_t": (-1.3, 0.4, 8.0),
    "beta": (1e-6, 0.02, 0.4, 1.0 - 1e-6),
    "ordinal": (0.0, 1.0, 4.0, 9.0),
    "poisson": (0.0, 1.0, 7.0),
    "gamma": (0.01, 0.8, 5.0),
}
SCALE = 0.6  # of whatever parameter a likelihood has
EDGES = np.linspace(-2.0, 2.0, 9)


def make(name):
    """A likelihood and its parameters, at values other than the defaults."""
    if name == "bernoulli_plain":
        return LIKELIHOODS["bernoulli"](epsilon=0.0), {}
    kind = LIKELIHOODS[name]
    likelihood = kind(levels=10) if name == "ordinal" else kind()
    p = {key: value * SCALE if value.ndim == 0 else value for key, value in likelihood.initial().items()}
    if name == "gaussian":
        p["variance"] = np.asarray(SCALE)
    return likelihood, p


def tensors(p, dtype=tf.float64):
    return {name: tf.constant(value, dtype) for name, value in p.items()}


def _ordinal(f, y):
    k = int(y)
    upper = stats.norm.logcdf((EDGES[k] - f) / SCALE) if k < 9 else np.zeros_like(f)
    lower = stats.norm.logcdf((EDGES[k - 1] - f) / SCALE) if k > 0 else np.full_like(f, -np.inf)
    mirror_upper = stats.norm.logsf((EDGES[k - 1] - f) / SCALE) if k > 0 else np.zeros_like(f)
    mirror_lower = stats.norm.logsf((EDGES[k] - f) / SCALE) if k < 9 else np.full_like(f, -np.inf)
    with np.errstate(divide="ignore"):  # on the side that is not used
        left = upper + np.log1p(-np.exp(lower - upper))
        right = mirror_upper + np.log1p(-np.exp(mirror_lower - mirror_upper))
    return np.where(f > EDGES.mean(), left, right)


def _beta(f, y):
    a, b = SCALE * special.expit(f), SCALE * special.expit(-f)
    a, b = np.maximum(a, 1e-300), np.maximum(b, 1e-300)
    return (a - 1) * np.log(y) + (b - 1) * np.log1p(-y) - special.betaln(a, b)


LOG_PROB = {
    "gaussian": lambda f, y: stats.norm.logpdf(y, f, np.sqrt(SCALE)),
    "bernoulli": lambda f, y: np.log(1e-3 + (1 - 2e-3) * stats.norm.cdf((2 * y - 1) * f)),
    "bernoulli_plain": lambda f, y: stats.norm.logcdf((2 * y - 1) * f),
    "bernoulli_logit": lambda f, y: special.log_expit((2 * y - 1) * f),
    "student_t": lambda f, y: stats.t.logpdf((y - f) / SCALE, 3) - np.log(SCALE),
    "beta": _beta,
    "ordinal": _ordinal,
    "poisson": lambda f, y: y * f - np.exp(f) - special.gammaln(y + 1),
    "gamma": lambda f, y: stats.gamma.logpdf(y, SCALE, scale=np.exp(f)),
}


def dense(mean, var, points=20001, width=24.0):
    """Points of f and weights that sum to one, by the trapezoidal rule over 24 standard deviations."""
    z = np.linspace(-width, width, points)
    weight = np.exp(-0.5 * z * z)
    return mean + np.sqrt(var) * z, weight / weight.sum()


def expectation(name, mean, var, y):
    f, weight = dense(mean, var)
    return float(weight @ LOG_PROB[name](f, y))


def log_density(name, mean, var, y):
    f, weight = dense(mean, var)
    return float(special.logsumexp(LOG_PROB[name](f, y), b=weight))


def cases(name):
    """Columns (1, B) of means, variances and targets: every combination."""
    grid = np.meshgrid(MEANS, VARIANCES, TARGETS[name], indexing="ij")
    return [a.reshape(1, -1) for a in grid]
