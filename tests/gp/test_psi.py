"""Psi statistics against quadrature and GPflow, and a layer's moments against quadrature."""

from itertools import product

import gpflow
import numpy as np
import pytest
import tensorflow as tf

from dgpbench.gp import psi
from dgpbench.gp.kernels import parse
from dgpbench.gp.kernels.in_gpflow import to_gpflow
from dgpbench.gp.layer import GPLayer
from dgpbench.gp.propagation import Preparation, Whitened

KERNELS = ("rbf", "linear", "rbf+linear", "rbf+rbf+linear+white")
M, B = 4, 3


def _case(text, D=2, ard=True, seed=0):
    """Kernel, its values, Z and Gaussian inputs, one of them almost certain."""
    rng = np.random.RandomState(seed)
    kernel = parse(text, D, ard)
    values = {n: v * rng.uniform(0.5, 1.5, v.shape) for n, v in kernel.initial(1.3, 0.8, 0.2).items()}
    mean, var = rng.randn(D, B), rng.uniform(0.1, 0.7, (D, B))
    var[:, -1] = 1e-9
    return kernel, values, rng.randn(M, D), mean, var


def _statistics(kernel, values, Z, mean, var):
    prepared = kernel.prepare({n: tf.constant(v) for n, v in values.items()}, tf.constant(Z))
    h = psi.Inputs(tf.constant(mean), tf.constant(var))
    flat = psi.psi2(kernel, prepared, h).numpy()
    full, (i, j) = np.zeros((B, M, M)), psi.pairs(M)
    full[:, i, j] = full[:, j, i] = flat.T
    zero = np.broadcast_to(psi.psi0(kernel, prepared, h), (1, B))[0]
    return prepared, zero, psi.psi1(kernel, prepared, h).numpy().T, full


def _nodes(mean, var, count=40):
    """Points (K, D) and weights (K,) of a product rule for one column."""
    x, w = np.polynomial.hermite_e.hermegauss(count)
    points = np.array(list(product(x, repeat=len(mean)))) * np.sqrt(var) + mean
    return points, np.prod(list(product(w / w.sum(), repeat=len(mean))), axis=1)


@pytest.mark.parametrize("text, ard", [*((text, True) for text in KERNELS), ("rbf+linear", False)])
def test_against_quadrature(text, ard):
    kernel, values, Z, mean, var = _case(text, ard=ard)
    prepared, zero, one, two = _statistics(kernel, values, Z, mean, var)
    for b in range(B):
        points, weights = _nodes(mean[:, b], var[:, b])
        H = tf.constant(points.T)
        k = kernel.cross(prepared, H).numpy()  # M, K
        diagonal = np.broadcast_to(kernel.diagonal(prepared, H), (1, len(weights)))[0]
        assert zero[b] == pytest.approx(weights @ diagonal, rel=1e-9)
        np.testing.assert_allclose(one[b], k @ weights, rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(two[b], (k * weights) @ k.T, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("text", ["rbf", "linear", "rbf+linear"])
def test_against_gpflow(text):
    kernel, values, Z, mean, var = _case(text)
    _, zero, one, two = _statistics(kernel, values, Z, mean, var)
    theirs = to_gpflow(kernel, values)
    p = gpflow.probability_distributions.DiagonalGaussian(mean.T, var.T)
    at = gpflow.inducing_variables.InducingPoints(Z)
    expectation = gpflow.expectations.expectation
    np.testing.assert_allclose(zero, expectation(p, theirs), rtol=1e-9)
    np.testing.assert_allclose(one, expectation(p, (theirs, at)), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(two, expectation(p, (theirs, at), (theirs, at)), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("text, mean_function", [("rbf+linear+white", "identity"), ("rbf", "linear")])
def test_a_layers_moments_against_quadrature(text, mean_function):
    """Two outputs: E f and Var f over both h and q(u), the mean function's share and its covariance in."""
    kernel, values, Z, mean, var = _case(text)
    rng, layer = np.random.RandomState(1), GPLayer(kernel, M, 2, mean_function)
    p = {f"kernel/{n}": tf.constant(v) for n, v in values.items()}
    p |= {"Z": tf.constant(Z), "W": tf.constant(rng.randn(2, 2))}
    root = 0.4 * np.eye(M) + 0.2 * np.tril(rng.randn(2, M, M))
    q = Whitened(tf.constant(rng.randn(2, M)), tf.constant(root))
    batch, _ = layer.prepare(p, Preparation(1e-6, "quad", q=q))
    found = psi.projected(layer, batch, psi.Inputs(tf.constant(mean), tf.constant(var)))
    for b in range(B):
        points, weights = _nodes(mean[:, b], var[:, b])
        m, v = (a.numpy() for a in layer.conditional(batch, tf.constant(points.T)))  # P, K
        centre = m @ weights
        np.testing.assert_allclose(found.mean[:, b], centre, rtol=1e-7)
        spread = v @ weights + (m - centre[:, None]) ** 2 @ weights
        np.testing.assert_allclose(found.var[:, b], spread, rtol=1e-6)
