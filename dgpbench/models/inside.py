"""The inside of a fitted deep GP: its bound from many draws, draws and variances of each layer's function.

A layer's function is taken at the layer's own inputs. Draws of one number belong together: where layers
depend on each other under q, so do they.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from dgpbench.evaluate.metrics import ELBO, ELBO_SE
from dgpbench.gp.deep_gp import walk
from dgpbench.gp.propagation import Flow
from dgpbench.inference.base import Bound, Numerics

if TYPE_CHECKING:
    from dgpbench.models.gp import GPModel

BOUND_DRAWS = 500  # of its noise, over which the bound is averaged
FUNCTION_DRAWS = 400  # of q, for variances
SAMPLE_DRAWS = 50  # of q, among which samples of layers are shared out
MOST_ROWS = 10_000  # training rows that the bound is estimated from


def metrics(model: GPModel, split, seed: int) -> dict[str, float]:
    """The bound and its Monte Carlo error; where all layers have width 1, var_f1_at_0, var_f2_at_0, ..."""
    if model.latent:
        return {}
    X, Y = split.take_train(np.arange(min(split.n_train, MOST_ROWS)))
    mean, error = bound_of_draws(model, X, Y, split.n_train, seed)
    found = {ELBO: mean, ELBO_SE: error}
    if all(layer.input_dim == 1 == layer.width for layer in model.model.layers):
        variances = variances_at_zero(model, seed)
        found |= {f"var_f{i + 1}_at_0": value for i, value in enumerate(variances)}
    return found


def bound_of_draws(model: GPModel, X, Y, num_data: int, seed: int, count: int = BOUND_DRAWS):
    """Mean and standard error of the bound over draws of its noise, in float64, from scaled rows X, Y."""
    one, columns = _compiled_bound(model.bound), [tf.constant(np.ascontiguousarray(A.T)) for A in (X, Y)]
    size = tf.constant(float(num_data), tf.float64)
    found = [float(one(*model.point(), *columns, size, tf.constant([seed, i]))) for i in range(count)]
    return float(np.mean(found)), float(np.std(found) / np.sqrt(count))


@lru_cache(maxsize=4)
def _compiled_bound(bound: Bound):
    """The bound from one draw of its noise."""

    @tf.function(reduce_retracing=True)
    def one(values, jitter, X, Y, num_data, key):
        shape = (max(bound.noise_dim, 1), bound.noise_columns * X.shape[1])
        noise = tf.random.stateless_normal(shape, key, dtype=tf.float64, alg="philox")
        numerics = Numerics(jitter, num_data=num_data)
        prepared, _ = bound.prepare(values, numerics, key=key)
        terms = tf.reduce_sum(bound.terms(prepared, X, Y, noise, tf.constant(0)))
        weight = num_data / (X.shape[1] * bound.repeats)
        return weight * terms - sum(bound.penalty(values, prepared, numerics).values())

    return one


def variances_at_zero(model: GPModel, seed: int, count: int = FUNCTION_DRAWS) -> list[float]:
    """Variance of each layer's function at input 0 of that layer, over q."""
    if model.bound.draws > 1 and not any(name.startswith("draws/") for name in model.values):
        one, point = _compiled_at_zero(model.bound), model.point()
        found = [one(*point, tf.constant([seed, i])).numpy() for i in range(count)]
    else:
        found = [_at_zero(model.bound, parts).numpy() for parts in model.posterior_parts(count, seed)]
    mean, var = np.moveaxis(np.array(found), 2, 0)  # draws, layers
    return (var.mean(0) + mean.var(0)).tolist()


def _at_zero(bound: Bound, parts) -> tf.Tensor:
    """Mean and variance (L, 2) of each layer's function at 0 given its prepared part."""
    zero, layers = tf.zeros((1, 1), tf.float64), enumerate(bound.model.layers)
    each = [layer.conditional(parts[f"layer{i}"], zero) for i, layer in layers]
    return tf.stack([tf.stack([mean[0, 0], var[0, 0]]) for mean, var in each])


@lru_cache(maxsize=4)
def _compiled_at_zero(bound: Bound):
    """The same of one draw of q."""

    @tf.function(reduce_retracing=True)
    def one(values, jitter, key):
        numerics = Numerics(jitter, ("quad",) * len(bound.model.layers))
        return _at_zero(bound, bound.layers(bound.prepare(values, numerics, key=key)[0]))

    return one


def function_moments(layer, part, H: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean (P, K) and covariance (P, K, K) of a layer's GPs at inputs H (D, K), given its prepared part; the
    mean function included unless they are mixed."""
    D, K = H.shape
    points, same = tf.constant(H), tf.constant(np.eye(K, dtype=bool).reshape(-1, 1))
    left, right = H[:, :, None].repeat(K, 2), H[:, None, :].repeat(K, 1)
    pairs = (tf.constant(A.reshape(D, K * K, 1)) for A in (left, right))
    prior = tf.reshape(layer.kernel.between(part.kernel, *pairs, same), (-1, K, K))  # 1 or P kernels
    cross = layer.kernel.cross(part.kernel, points)  # M, K or P, M, K
    cross = cross if cross.shape.rank == 3 else cross[None]
    mean, _ = layer.conditional(part, points)
    covariance = prior + tf.matmul(cross, tf.matmul(part.form.C, cross), transpose_a=True)
    return mean.numpy(), np.broadcast_to(covariance.numpy(), (len(mean), K, K))


def draw(mean: np.ndarray, covariance: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """N(mean, covariance) (K,); a covariance that rounding made indefinite counts as the nearest."""
    values, vectors = np.linalg.eigh(covariance)
    return mean + vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal(len(mean)))


def function_draws(
    model: GPModel, x: np.ndarray, count: int, seed: int, points: int = 60
) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Draws of the functions of layers of width 1: inputs (points,) of each layer, its outputs there (count,
    points), and the whole model's outputs (count, len(x)) at scaled inputs x; a draw is one set of functions.

    Inputs of a layer reach as far as what the draws below give at x.
    """
    parts, rng = list(model.posterior_parts(count, seed)), np.random.default_rng(seed)
    inputs: list[np.ndarray] = []
    outputs: list[np.ndarray] = []
    H = np.tile(x, (count, 1))
    for i, layer in enumerate(model.model.layers):
        grid = np.linspace(*np.quantile(H, [0.01, 0.99]), points)
        drawn = np.empty((count, points + len(x)))
        for s, part in enumerate(parts):
            at = np.concatenate([grid, H[s]])[None]
            mean, covariance = function_moments(layer, part[f"layer{i}"], at)
            drawn[s] = draw(mean[0], covariance[0], rng)
        inputs.append(grid)
        outputs.append(drawn[:, :points])
        H = drawn[:, points:]
    return inputs, outputs, H


def layer_samples(model: GPModel, X: np.ndarray, samples: int, seed: int) -> list[np.ndarray]:
    """Samples (S, G, width) of the output of each layer of a fitted GPModel at scaled inputs X (G, D).

    A sample takes the same noise at all points: the bands are those of the marginals, and smooth in x. Where
    q is drawn from, the samples are shared out among its draws.
    """
    drawn = {id(parts): parts for parts in model.posterior_parts(SAMPLE_DRAWS, seed)}
    each, rng = -(-samples // len(drawn)), np.random.default_rng(seed)
    found = [_through(model.model, parts, X, each, rng) for parts in drawn.values()]
    return [np.concatenate(layer)[:samples] for layer in zip(*found, strict=True)]


def _through(gp, parts, X: np.ndarray, samples: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Samples of the outputs of each layer, given its prepared parts."""
    G = len(X)
    noise = tf.constant(rng.standard_normal((gp.noise_dim, samples)).repeat(G, axis=1))
    w = [tf.reshape(noise[gp.noise_rows(i)], (gp.layers[i].dim, 1, -1)) for i in gp.latent]
    columns = tf.constant(np.tile(X.T, (1, samples)))
    steps = list(walk(gp, parts, columns, Flow(noise, w, jitter=parts.get("jitter"))))
    layer, batch, H = steps[-1]
    mean, var = layer.conditional(batch, H)
    last = mean + tf.sqrt(tf.maximum(var, 0.0)) * rng.standard_normal((mean.shape[0], samples)).repeat(
        G, axis=1
    )
    outputs = [H for _, _, H in steps[1:]] + [last]
    return [out.numpy().reshape(-1, samples, G).transpose(1, 2, 0) for out in outputs]
