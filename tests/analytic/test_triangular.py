"""Products in blocks against NumPy's, and the M x M part of a large layer against autodiff."""

import numpy as np
import pytest
import tensorflow as tf

from dgpbench.gp.fast.blocks import block_ends, product
from dgpbench.gp.fast.whitening import folding, folding_root, outer_square, whitening

M = 261  # large enough for blocks, and no multiple of their number
SHAPE = {"full": lambda A: A, "lower": np.tril, "upper": np.triu}


@pytest.mark.parametrize("side", [M, 9])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("a", SHAPE)
@pytest.mark.parametrize("b", SHAPE)
def test_product_equals_the_full_one(side, transpose_a, transpose_b, a, b):
    rng = np.random.RandomState(0)
    A, B = SHAPE[a](rng.randn(side, side)), SHAPE[b](rng.randn(2, side, side))
    turned = (A.T if transpose_a else A, B.transpose(0, 2, 1) if transpose_b else B)
    for out in ("full", "lower"):
        ours = product(*map(tf.constant, turned), a, b, out, transpose_a, transpose_b).numpy()
        keep = np.tril if out == "lower" else np.asarray
        np.testing.assert_allclose(keep(ours), keep(A @ B), atol=1e-11)


def test_symmetric_product_whose_second_factor_is_triangular():
    L = np.tril(np.random.RandomState(4).randn(M, M))
    ours = product(tf.constant(L.T), tf.constant(L), b="lower", out="symmetric")
    np.testing.assert_allclose(ours, L.T @ L, atol=1e-11)


@pytest.mark.parametrize("a", SHAPE)
def test_symmetric_product_equals_the_full_one(a):
    A = SHAPE[a](np.random.RandomState(1).randn(3, M, M))
    b = {"full": "full", "lower": "upper", "upper": "lower"}[a]
    ours = product(tf.constant(A), tf.constant(A), a, b, "symmetric", transpose_b=True).numpy()
    np.testing.assert_allclose(ours, A @ A.transpose(0, 2, 1), atol=1e-11)
    np.testing.assert_array_equal(ours[:, :60, 70:], ours[:, 70:, :60].transpose(0, 2, 1))  # a copy


def test_factors_of_many_rows():
    """P matrices one below the other: as the left factor, and summed over as both."""
    rng = np.random.RandomState(2)
    A, B, L = rng.randn(3 * M, M), rng.randn(3 * M, M), np.tril(rng.randn(M, M))
    np.testing.assert_allclose(product(tf.constant(A), tf.constant(L), b="lower"), A @ L, atol=1e-10)
    ours = product(tf.constant(A), tf.constant(B), out="lower", transpose_a=True)
    np.testing.assert_allclose(np.tril(ours), np.tril(A.T @ B), atol=1e-10)


@pytest.mark.parametrize(("form", "P"), [(whitening, 1), (folding, 1), (folding_root, 2)])
def test_large_layer_and_its_gradient_equal_autodiff(form, P):
    """What the batch part reads, and the gradients in K_zz, m and the root of S, of a matrix in blocks."""
    assert len(block_ends(1, M)) > 1
    rng = np.random.RandomState(3)
    X = rng.rand(M, 4)
    K = tf.constant(np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(-1) / 0.2) + 0.1 * np.eye(M))
    alpha = tf.constant(rng.randn(P, M))
    R = tf.constant(np.tril(0.05 * rng.randn(P, M, M)) + np.eye(M))
    g_alpha, g_C = tf.constant(rng.randn(P, M)), rng.randn(P, M, M)
    g_C = tf.constant(g_C + g_C.transpose(0, 2, 1))
    k = tf.constant(rng.randn(M, 5))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([K, alpha, R])
        second = R if form is folding_root else outer_square(R) - tf.eye(M, dtype=K.dtype)
        ours = form(K, alpha, second)
        Linv = tf.linalg.triangular_solve(tf.linalg.cholesky(K), tf.eye(M, dtype=K.dtype))
        C = tf.matmul(R, R, transpose_b=True) - tf.eye(M, dtype=K.dtype)
        plain = (alpha @ Linv, tf.matmul(Linv, C @ Linv, transpose_a=True))
        if form is whitening:  # its gradient in L^-1 is that of alpha L^-1 k and k^T L^-T C L^-1 k
            A = Linv @ k
            mean, quad = alpha @ A, tf.einsum("mb,pmn,nb->pb", A, C, A)
            value = tf.reduce_sum(tf.sin(mean)) + tf.reduce_sum(tf.cos(0.01 * quad))
    if form is whitening:
        g_mean, g_quad = tf.cos(mean), -0.01 * tf.sin(0.01 * quad)
        upstream = [tf.matmul(g_mean, A, transpose_b=True), tf.einsum("mb,pb,nb->pmn", A, g_quad, A)]
        theirs = tape.gradient(value, [K, alpha, R])
    else:
        for x, y in zip(ours[1:], plain, strict=True):
            np.testing.assert_allclose(x, y, atol=1e-9)
        upstream = [g_alpha, g_C]
        theirs = tape.gradient(plain, [K, alpha, R], output_gradients=upstream)
    np.testing.assert_allclose(ours[0], Linv, atol=1e-12)
    mine = tape.gradient(ours[1:], [K, alpha, R], output_gradients=upstream)
    symmetric = lambda G: 0.5 * (G + tf.transpose(G))  # noqa: E731
    np.testing.assert_allclose(symmetric(mine[0]), symmetric(theirs[0]), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(mine[1], theirs[1], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.tril(mine[2]), np.tril(theirs[2]), rtol=1e-7, atol=1e-8)
