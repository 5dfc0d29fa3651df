"""From a fitted deep GP to predictive distributions, over rows in blocks of bounded memory.

The S samples are of the latent variables, from their prior, and of the inner layers (thesis 2.21). Given them
f is Gaussian, and y is predicted as its likelihood asks: Gaussian components, class probabilities averaged
over the samples, or draws. Behind a latent variable at the input the first GP is read from a curve where it
is smooth enough (latent_curve.py).
"""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np
import tensorflow as tf

from dgpbench.evaluate.predictive import Predictive
from dgpbench.gp.deep_gp import mixed_outputs
from dgpbench.gp.likelihoods import Gaussian
from dgpbench.gp.likelihoods.base import DENSITY_NODES
from dgpbench.gp.likelihoods.distributions import Poisson
from dgpbench.inference.base import Bound
from dgpbench.models import latent_curve

COLUMNS = 10_000  # points times samples that pass through the layers at once
DENSITY_COLUMNS = 2000  # the same for densities, each by quadrature
MANY_SAMPLES, FEW_NODES = 500, 32  # where so many terms are averaged, so few nodes for each are enough


def needed_samples(bound: Bound, samples: int) -> int:
    """One where there is nothing to sample."""
    return samples if bound.predictive_noise or bound.model.layers[-1].mixed else 1


def predict(
    bound: Bound,
    prepared: dict,
    X: np.ndarray,
    samples: int,
    seed: int,
    members: int = 1,
    common: bool = False,
) -> Predictive:
    """Return the predictive distribution at the rows of X (N, D), one of `members` that are pooled.

    With `common` noise every row has the same samples, so that the prediction at a row does not depend on the
    other rows or their order.
    """
    model = bound.model
    S = needed_samples(bound, samples)
    compiled = partial(_compiled_predict, common=common)
    out = _in_blocks(compiled, bound, S, prepared, (X,), COLUMNS // S, seed, members > 1, common)
    if hasattr(model.likelihood, "probs"):
        return Predictive(probs=out[0][0])
    mean, var = out
    if isinstance(model.likelihood, Gaussian):
        return Predictive(mean=mean, var=var)
    rng = np.random.default_rng((seed, 1))
    shape = (samples, 1, mean.shape[2]) if common else (samples, *mean.shape[1:])
    F = mean + np.sqrt(np.maximum(var, 0.0)) * rng.standard_normal(shape)
    p = {name: value.numpy() for name, value in prepared["likelihood"].items()}
    rates = np.exp(F) if isinstance(model.likelihood, Poisson) else None
    if common:
        rows = [
            model.likelihood.draw(p, F[:, n : n + 1], np.random.default_rng((seed, 2))) for n in range(len(X))
        ]
        return Predictive(draws=np.concatenate(rows, 1), rates=rates)
    return Predictive(draws=model.likelihood.draw(p, F, rng), rates=rates)


def log_density(bound: Bound, prepared: dict, X, Y, samples: int, seed: int, members: int = 1) -> np.ndarray:
    """log p(y | x) of each sample (S, N): the mean of their exponentials is the predictive density."""
    S = needed_samples(bound, samples)
    many = max(S, members) >= MANY_SAMPLES
    compiled = partial(_compiled_density, each_by=FEW_NODES if many else DENSITY_NODES)
    return _in_blocks(compiled, bound, S, prepared, (X, Y), DENSITY_COLUMNS // S, seed, members > 1)[0]


def _in_blocks(
    compiled,
    bound: Bound,
    S: int,
    prepared: dict,
    arrays,
    rows: int,
    seed: int,
    tight: bool,
    common: bool = False,
) -> list[np.ndarray]:
    """The outputs (S, N, ...) of a compiled function of equally large blocks of rows, of no more than there
    are where `tight` and without noise, which depends on the size."""
    rows, N, parts = max(1, rows), len(arrays[0]), []
    if tight and not bound.model.noise_dim:
        rows = min(rows, N)
    curves = latent_curve.NODES if latent_curve.possible(bound) and S > max(latent_curve.NODES) else ()
    ways = latent_curve.Ways((*curves, 0))
    for block, start in enumerate(range(0, N, rows)):
        padded = [np.concatenate([A[start : start + rows], A[:1].repeat(rows, 0)])[:rows] for A in arrays]
        given = (prepared, *padded, tf.constant([seed, 0 if common else block]))
        out = ways.first_good(lambda nodes, given=given: compiled(bound, S, nodes)(*given))
        parts.append([a.numpy()[:, : N - start] for a in out])
    return [np.concatenate(column, 1) for column in zip(*parts, strict=True)]


def sampled_moments(
    bound: Bound, prepared: dict, X, samples: int, seed, nodes: int = 0, common: bool = False
):
    """Mean and variance of the outputs (P, S N) at rows X (N, D), the noise that they came from, and the
    doubt in them where they came by a curve with so many nodes.

    Mixed outputs are correlated given w, so their GPs are sampled too: given those they are independent.
    """
    model = bound.model
    last, N = model.layers[-1], X.shape[0]
    shape = (model.noise_dim + (last.output_dim if last.mixed else 0), samples * (1 if common else N))
    noise = tf.cast(tf.random.stateless_normal(shape, seed, dtype=tf.float32, alg="philox"), tf.float64)
    noise = tf.repeat(noise, N, axis=1) if common else noise  # columns are samples, and in each the rows
    w = [tf.reshape(noise[model.noise_rows(i)], (model.layers[i].dim, 1, -1)) for i in model.latent]
    doubt = tf.zeros((), tf.float64)
    if nodes:
        curve, places = (
            latent_curve.Curve(bound, prepared, X, noise, nodes),
            tf.reshape(w[0], (1, samples, N)),
        )
        mean, var = curve.outputs(places, *curve.at(places))
        doubt = curve.doubt()
    else:
        mean, var = bound.moments(prepared, tf.transpose(X), noise, w, repeat=samples)
    if last.mixed:
        F = mean + tf.sqrt(tf.maximum(var, 0.0)) * noise[model.noise_dim :]
        mean, _ = mixed_outputs(model, prepared, F, tf.zeros_like(F))
        var = tf.zeros_like(mean)
    return mean, var, noise, doubt


def along_latent(bound: Bound, prepared: dict, places: np.ndarray) -> np.ndarray:
    """Mean outputs (K, P) of a model without inputs at values (K,) of its one-dimensional latent variable."""
    K, noise = len(places), tf.zeros((max(bound.noise_dim, 1), len(places)), tf.float64)
    w = [tf.reshape(tf.constant(places, tf.float64), (1, 1, K))]
    moments = bound.moments(prepared, tf.zeros((0, K), tf.float64), noise, w)
    return mixed_outputs(bound.model, prepared, *moments)[0].numpy().T


@lru_cache(maxsize=8)
def _compiled_predict(bound: Bound, samples: int, nodes: int, common: bool = False):
    """Mean and variance (S, N, P), of y under a Gaussian likelihood and of f under others; or the mean of the
    class probabilities (1, N, C). In float64."""
    model, likelihood = bound.model, bound.model.likelihood

    @tf.function  # one graph for each size: rows are counted in it
    def run(prepared, X, seed):
        N = X.shape[0]
        rows = lambda A: tf.transpose(tf.reshape(A, (-1, samples, N)), (1, 2, 0))  # noqa: E731  S, N, P
        mean, var, noise, doubt = sampled_moments(bound, prepared, X, samples, seed, nodes, common)
        if hasattr(likelihood, "probs"):
            each = likelihood.probs(prepared["likelihood"], mean, var, noise[model.likelihood_rows])
            return (tf.reduce_mean(rows(each), 0, keepdims=True),), doubt
        if isinstance(likelihood, Gaussian):
            var = var + bound.noise_variance(prepared, tf.tile(tf.transpose(X), (1, samples)))
        return (rows(mean), rows(var)), doubt

    return run


@lru_cache(maxsize=8)
def _compiled_density(bound: Bound, samples: int, nodes: int, each_by: int):
    """log p(y | sample) (S, N) for rows X (N, D), Y (N, P), each by so many nodes."""

    @tf.function  # one graph for each size: rows are counted in it
    def run(prepared, X, Y, seed):
        mean, var, _, doubt = sampled_moments(bound, prepared, X, samples, seed, nodes)
        Ys = tf.tile(tf.transpose(Y), (1, samples))
        each = bound.model.likelihood.log_density(prepared["likelihood"], mean, var, Ys, each_by)
        return (tf.reshape(each, (samples, -1)),), doubt

    return run
