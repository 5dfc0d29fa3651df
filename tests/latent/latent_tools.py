"""Small latent-variable models with random parameters, and brute-force answers for them."""

import numpy as np
import tensorflow as tf

from dgpbench.config import compose
from dgpbench.gp.parameters import constrain, unconstrain
from dgpbench.gp.start import build
from dgpbench.inference.base import Numerics
from dgpbench.inference.gradients import batch_term, lower_bound, value_and_gradients


def data(rng, N=5, D=1, P=1):
    return rng.randn(N, D), rng.randn(N, P)


def model(rng, X, Y, *overrides, M=6, noise=0.3, q_scale=0.5):
    """A built model whose q(u), kernels and encoder are moved away from their initial values."""
    cfg = compose([*overrides, f"model.num_inducing={M}"])
    free = cfg["inference"]["latent_q"] == "free"  # as many parameters as rows
    structure, values, fixed, _ = build(cfg, X, Y, 0, num_data=len(X) if free else max(len(X), M))
    for name, v in values.items():
        leaf = name.rsplit("/", 1)[-1]
        if leaf == "q_mu":
            values[name] = rng.randn(*v.shape)
        elif leaf == "q_sqrt":
            values[name] = np.tril(0.2 * rng.randn(*v.shape)) + q_scale * np.eye(v.shape[1])
        elif leaf == "lengthscales":
            values[name] = 0.8 + 0.4 * rng.rand(*v.shape)
        elif leaf == "Z":
            values[name] = rng.randn(*v.shape)
        elif "local" in name or leaf.startswith("b"):
            values[name] = v + 0.3 * rng.rand(*v.shape)
    last = f"encoder/b{len(cfg['inference']['encoder'])}"
    for name in [name for name in values if name.endswith(last)]:  # q(w) about as wide as its prior
        half = len(values[name]) // 2
        values[name] = np.concatenate([np.zeros((half, 1)), np.full((half, 1), 3.5)])
    values["likelihood/variance"] = np.asarray(noise)
    return structure, values, fixed


def raw(values, structure):
    found = unconstrain(values, structure.constraints())
    return {name: tf.constant(v, tf.float64) for name, v in found.items()}


def columns(*arrays):
    return [tf.constant(np.ascontiguousarray(a.T)) for a in arrays]


def noise_for(rng, bound, N):
    return rng.randn(bound.noise_dim, bound.noise_columns, N)


def value(bound, values, X, Y, noise, num_data=None, **kwargs):
    """The bound by its definition; noise is (noise_dim, draws, N)."""
    flat = tf.constant(noise.reshape(bound.noise_dim, -1))
    tensors = raw(values, bound.model)
    return float(lower_bound(bound, tensors, *columns(X, Y), flat, num_data=num_data or len(X), **kwargs))


def estimate(bound, values, X, Y, rng, repeats=30, jitter=1e-8):
    """Mean of the bound over draws of its noise, with its standard error."""
    found = [value(bound, values, X, Y, noise_for(rng, bound, len(X)), jitter=jitter) for _ in range(repeats)]
    return np.mean(found), np.std(found, ddof=1) / np.sqrt(repeats)


def fast(bound, values, fixed, X, Y, noise, parts, num_data, natural=(), rows=None, form="white"):
    """The bound and its gradients as the engine computes them, in column chunks of these sizes."""
    chunks, a = [], 0
    for size in parts:
        block = slice(a, a + size)
        piece = tf.reshape(noise[:, :, block], (bound.noise_dim, -1))
        chunks.append((*columns(X[block], Y[block]), piece, tf.constant(a)))
        a += size
    tensors, forms = raw(values, bound.model), (form,) * len(bound.model.layers)
    return value_and_gradients(
        bound,
        tensors,
        chunks,
        tf.constant(num_data / (len(X) * bound.samples), tf.float64),
        batch_term(bound),
        Numerics(tf.constant(1e-6, tf.float64), forms, tf.float64, natural),
        trainable=[name for name in tensors if name not in fixed],
        rows=rows,
    )


def constrained(tensors, structure):
    return {name: v.numpy() for name, v in constrain(tensors, structure.constraints()).items()}


def rbf(values, index, A, B):
    """k(A, B) of a layer for rows A, B in NumPy."""
    scale = values[f"layer{index}/kernel/rbf/lengthscales"]
    gap = (A[:, None] - B[None]) / scale
    return values[f"layer{index}/kernel/rbf/variance"] * np.exp(-0.5 * (gap**2).sum(-1))


def conditional(values, index, H, p, jitter):
    """Mean and full covariance of GP p of a layer at the rows of H, without its mean function."""
    Z = values[f"layer{index}/Z"]
    L = np.linalg.cholesky(rbf(values, index, Z, Z) + jitter * np.eye(len(Z)))
    A = np.linalg.solve(L, rbf(values, index, Z, H))
    m, Lq = values[f"layer{index}/q_mu"][p], values[f"layer{index}/q_sqrt"][p]
    S = Lq @ Lq.T
    return A.T @ m, rbf(values, index, H, H) + A.T @ (S - np.eye(len(Z))) @ A


def marginals(values, index, H, jitter):
    """Mean and variance of the first GP of a layer at the rows of H."""
    Z = values[f"layer{index}/Z"]
    L = np.linalg.cholesky(rbf(values, index, Z, Z) + jitter * np.eye(len(Z)))
    A = np.linalg.solve(L, rbf(values, index, Z, H))
    m, Lq = values[f"layer{index}/q_mu"][0], values[f"layer{index}/q_sqrt"][0]
    prior = float(values[f"layer{index}/kernel/rbf/variance"])
    return A.T @ m, prior + ((Lq.T @ A) ** 2).sum(0) - (A**2).sum(0)


def kl(values, index):
    """KL(q(u) || N(0, I)) of a layer, by the determinant."""
    total = 0.0
    for m, L in zip(values[f"layer{index}/q_mu"], values[f"layer{index}/q_sqrt"], strict=True):
        S = L @ L.T
        total += 0.5 * (np.trace(S) + m @ m - len(m) - np.linalg.slogdet(S)[1])
    return total


def expected_log_density(values, y, mean, var):
    """E log N(y; f, noise) under f ~ N(mean, var)."""
    v = float(values["likelihood/variance"])
    return -0.5 * (np.log(2 * np.pi * v) + ((y - mean) ** 2 + var) / v)


def grid(count=4001, width=9.0):
    """Points, spacing and log N(w; 0, 1) for a trapezoid rule that is as good as exact."""
    w = np.linspace(-width, width, count)
    return w, w[1] - w[0], -0.5 * w**2 - 0.5 * np.log(2 * np.pi)


def log_integral(log_values, step):
    top = log_values.max(-1, keepdims=True)
    return top[..., 0] + np.log(np.exp(log_values - top).sum(-1) * step)
