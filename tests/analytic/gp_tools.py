"""Small models with random parameters, shared by the analytic tests."""

import numpy as np
import tensorflow as tf

from dgpbench.gp.deep_gp import DeepGP
from dgpbench.gp.kernels import parse
from dgpbench.gp.layer import GPLayer
from dgpbench.gp.parameters import unconstrain
from dgpbench.inference.base import Numerics
from dgpbench.inference.gradients import batch_term, value_and_gradients


def layer_values(rng, index, dim, M, P, variance=1.7, part="rbf", scale=0.2):
    """Random q(u), random Z and three different lengthscales for one layer."""
    q_sqrt = np.tril(rng.randn(P, M, M)) * scale + np.eye(M) * 0.6
    return {
        f"layer{index}/kernel/{part}/variance": np.asarray(variance),
        f"layer{index}/kernel/{part}/lengthscales": np.linspace(0.7, 1.6, dim),
        f"layer{index}/Z": rng.randn(M, dim),
        f"layer{index}/q_mu": rng.randn(P, M),
        f"layer{index}/q_sqrt": q_sqrt,
    }


def sgp(rng, dim=3, M=12, P=2, noise=0.1, **kwargs):
    """A single-layer model and its constrained values."""
    values = layer_values(rng, 0, dim, M, P, **kwargs) | {"likelihood/variance": np.asarray(noise)}
    return DeepGP((GPLayer(parse(kwargs.get("part", "rbf"), dim), M, P, "zero"),)), values


def dgp(rng, dim=3, M=10, depth=2, P=1, noise=0.1, variance=0.5):
    """A deep model with identity inner means and its constrained values."""
    values, layers = {"likelihood/variance": np.asarray(noise)}, []
    for i in range(depth):
        last = i == depth - 1
        out = P if last else dim
        values |= layer_values(rng, i, dim, M, out, variance=1.7 if last else variance)
        layers.append(GPLayer(parse("rbf", dim), M, out, "zero" if last else "identity"))
    return DeepGP(tuple(layers)), values


def raw_tensors(values, model):
    raw = unconstrain(values, model.constraints())
    return {name: tf.constant(v, tf.float64) for name, v in raw.items()}


def fast(bound, raw, chunks, form, weight=1.0, trainable=(), natural=()):
    """The bound and its gradients as the engine computes them, all layers in one form."""
    forms, jitter = (form,) * len(bound.model.layers), tf.constant(1e-6, tf.float64)
    numerics = Numerics(jitter, forms, tf.float64, natural)
    weight = tf.constant(weight, tf.float64)
    return value_and_gradients(
        bound, raw, chunks, weight, batch_term(bound), numerics, trainable=list(trainable)
    )


def columns(*arrays, dtype=tf.float64):
    """(N, D) arrays as (D, N) tensors."""
    return [tf.constant(a.T, dtype) for a in arrays]


def gpflow_svgp(values, num_data, layer=0):
    import gpflow

    prefix = f"layer{layer}/"
    kernel = gpflow.kernels.SquaredExponential(
        variance=values[prefix + "kernel/rbf/variance"],
        lengthscales=values[prefix + "kernel/rbf/lengthscales"],
    )
    return gpflow.models.SVGP(
        kernel,
        gpflow.likelihoods.Gaussian(float(values["likelihood/variance"])),
        values[prefix + "Z"].copy(),
        num_latent_gps=len(values[prefix + "q_mu"]),
        q_mu=values[prefix + "q_mu"].T.copy(),
        q_sqrt=values[prefix + "q_sqrt"].copy(),
        whiten=True,
        num_data=num_data,
    )
