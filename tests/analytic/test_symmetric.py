"""Sums of weighted squares in blocks, against the same sums in full."""

import numpy as np
import pytest
import tensorflow as tf

from dgpbench.gp.fast.blocks import BLOCKS, block_ends, weighted_squares
from dgpbench.gp.fast.forms import Blocks, Quad
from dgpbench.gp.fast.joint_samples import TERMS, joint_quadratic_form, pairs


@pytest.mark.parametrize(("P", "M"), [(1, 70), (1, 301), (3, 70), (2, 100), (2, 7)])
def test_weighted_squares_equal_the_full_sum(P, M):
    rng = np.random.RandomState(P + M)
    A, g = rng.randn(M, 30), rng.randn(P, 30)
    ours = weighted_squares(tf.constant(A), tf.constant(g)).numpy()
    np.testing.assert_allclose(ours, np.einsum("mb,pb,nb->pmn", A, g, A), atol=1e-12)
    np.testing.assert_allclose(ours, ours.transpose(0, 2, 1), atol=1e-12)


def test_blocks_cover_all_rows_and_a_small_matrix_alone_has_one():
    assert block_ends(1, 128) == [128] and block_ends(5, 63) == [63]
    assert block_ends(1, 500) == [125, 250, 375, 500]
    assert block_ends(5, 128) == [32, 64, 96, 128]
    ends = block_ends(2, 70)
    assert len(ends) == BLOCKS and ends[-1] == 70 and ends == sorted(set(ends))


@pytest.mark.parametrize(("K", "P"), [(3, 2), (5, 1), (6, 6)])
@pytest.mark.parametrize("half", [False, True])
def test_joint_form_and_its_gradient_equal_autodiff(K, P, half):
    """a_k^T C_p a_j for the K samples of a point, large enough for blocks, few and many terms in its sums."""
    assert (K * P > TERMS) == (K == 6)
    rng = np.random.RandomState(3)
    M, points = 66, 4
    k, C = tf.constant(rng.randn(points * K, M)), rng.randn(P, M, M) / M
    alpha, C = tf.constant(rng.randn(P, M)), tf.constant(C + C.transpose(0, 2, 1))
    Linv = np.linalg.inv(np.linalg.cholesky(np.eye(M) + 0.1 * np.ones((M, M)))) if half else np.eye(M)
    Linv = tf.constant(Linv)
    extra = (Linv, tf.matmul(Linv, C, transpose_a=True)) if half else ()
    g_mean = tf.constant(rng.randn(points * K, P))
    g_form = tf.constant(rng.randn(len(pairs(K)), P, points))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([k, alpha, C])
        ours = joint_quadratic_form(k, alpha, C, K, *extra)
        A = tf.matmul(k, Linv, transpose_b=True)
        rows = tf.reshape(A, (points, K, M))
        full = tf.einsum("ckm,pmn,cjn->kjpc", rows, C, rows)
        plain = (A @ tf.transpose(alpha), tf.stack([full[i, j] for i, j in pairs(K)]))
    for x, y in zip(ours, plain, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-11)
    mine = tape.gradient(ours, [k, alpha, C], output_gradients=[g_mean, g_form])
    theirs = tape.gradient(plain, [k, alpha, C], output_gradients=[g_mean, g_form])
    for x, y in zip(mine, theirs, strict=True):
        y = 0.5 * (y + tf.linalg.matrix_transpose(y)) if y.shape.rank == 3 else y  # C is symmetric
        np.testing.assert_allclose(x, y, atol=1e-10)


@pytest.mark.parametrize(("P", "M"), [(1, 130), (3, 70), (2, 7)])
def test_moments_in_blocks_equal_those_in_full(P, M):
    rng = np.random.RandomState(M)
    K, alpha, C = rng.randn(M, 30), rng.randn(P, M), rng.randn(P, M, M)
    given = tf.constant(alpha), tf.constant(C + C.transpose(0, 2, 1))
    mean, quad = Blocks(*given).moments(tf.constant(K))
    np.testing.assert_allclose(mean, alpha @ K, rtol=1e-12)
    np.testing.assert_allclose(quad, np.einsum("mb,pmn,nb->pb", K, 2 * C, K), atol=1e-9)
    for ours, full in zip((mean, quad), Quad(*given).moments(tf.constant(K)), strict=True):
        np.testing.assert_allclose(ours, full, atol=1e-9)
