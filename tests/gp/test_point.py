"""The form of a point q(u), and L^-1 inside a program of XLA: against NumPy and against the `white` form."""

import numpy as np
import pytest
import tensorflow as tf

from dgpbench.gp.fast import forms, point, whitening
from dgpbench.gp.propagation import Whitened


def gram(M):
    Z = np.linspace(0, 5, M)[:, None]
    return np.exp(-0.5 * (Z - Z.T) ** 2 / 0.3) + 1e-3 * np.eye(M)


@pytest.mark.parametrize("M", [1, 2, 5, 6, 33, 70])  # a leaf, and halves of which one is a single row
def test_elimination_gives_the_inverse_factor(M):
    K = gram(M)
    found = tf.function(whitening.compiled_inverse_cholesky, jit_compile=True, autograph=False)(
        tf.constant(K)
    )
    np.testing.assert_allclose(found, np.linalg.inv(np.linalg.cholesky(K)), atol=1e-10)


def test_a_matrix_that_has_no_factor_gives_nan():
    K = tf.constant(np.diag([1.0, -1.0, 2.0]))
    assert np.isnan(whitening.compiled_inverse_cholesky(K)).any()


@pytest.mark.parametrize("compiled", [False, True])
def test_point_form_is_the_white_form_with_its_gradients(compiled):
    """Two outputs and 150 inducing points, so that triangles are multiplied in blocks."""
    M, B, rng = 150, 7, np.random.RandomState(0)
    K, cross, mean = (tf.constant(A) for A in (gram(M), rng.rand(M, B), rng.randn(2, M)))
    weights = tf.constant(rng.randn(2, B)), tf.constant(rng.randn(1, B))

    def of(make):
        with tf.GradientTape() as tape:
            tape.watch((K, cross, mean))
            form = make()
            moments = form.moments(cross)
            value = sum(tf.reduce_sum(w * part) for w, part in zip(weights, moments, strict=True))
        gradients = tape.gradient(value, (K, cross, mean))
        symmetric = gradients[0] + tf.transpose(gradients[0])  # what counts of a gradient in K
        return *moments, symmetric, *gradients[1:]

    white = of(lambda: forms.make("white", K, Whitened(mean), tf.float64, False)[0])
    ours = of(lambda: point.make(K, mean, compiled))
    for expected, found in zip(white, ours, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7 * np.abs(expected).max())
