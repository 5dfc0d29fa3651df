"""The form of a point q(u) on grids: against NumPy over the whole grid, and the jitter's share in it."""

import numpy as np
import pytest
import tensorflow as tf

from dgpbench.gp.fast import point

AXES = (np.array([-1.0, 0.2, 0.9]), np.array([-0.5, 0.6]), np.array([0.0, 0.7, 1.1, 1.5]))
ROWS = (np.array([-0.8, 0.1, 0.4, 1.0]), np.array([-0.4, 0.0, 0.3]), np.array([0.2, 0.5]))
LENGTHSCALES, VARIANCE, JITTER = np.array([0.8, 1.3, 0.6]), 1.7, 1e-3


def points(axes):
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))


def rbf(A, B, lengthscales, variance):
    gap = (A[:, None] - B[None]) / lengthscales
    return variance * np.exp(-0.5 * (gap**2).sum(-1))


def factors(D, jitter):
    each = zip(AXES[:D], LENGTHSCALES, strict=False)
    return [
        rbf(z[:, None], z[:, None], scale, 1.0) + jitter / (D * VARIANCE) * np.eye(len(z))
        for z, scale in each
    ]


def whole(D, X, v, jitter=JITTER):
    """Mean and variance by the matrix of the whole grid, jitter on each factor."""
    K = np.array([[VARIANCE]])
    for R in factors(D, jitter):
        K = np.kron(K, R)
    A = np.linalg.solve(np.linalg.cholesky(K), rbf(points(AXES[:D]), X, LENGTHSCALES[:D], VARIANCE))
    return v @ A, np.tile(VARIANCE - (A**2).sum(0), (len(v), 1))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("D", [1, 2, 3])
def test_moments_are_those_of_the_whole_grid(D, compiled):
    """Rows in any order, some cells empty, two outputs."""
    rng = np.random.RandomState(0)
    X = rng.permutation(points(ROWS[:D]))[: -1 if D > 1 else None]
    places = point.find_grid(points(AXES[:D]), X)
    v = rng.randn(2, len(points(AXES[:D])))

    def found(v, scales, variance):
        return point.grid_moments(places, point.make_on_grid(places, v, scales, variance, JITTER, compiled))

    run = tf.function(found, jit_compile=compiled, autograph=False)
    for ours, exact in zip(run(v, LENGTHSCALES[:D], np.array(VARIANCE)), whole(D, X, v), strict=True):
        np.testing.assert_allclose(ours, exact, rtol=1e-9, atol=1e-10)


def test_gram_of_a_layer_is_the_product_of_its_factors():
    Z = points(AXES)
    axes = point.along(tf.constant(Z), (3, 2, 4))
    K = point.grid_gram(axes, LENGTHSCALES, tf.constant(VARIANCE, tf.float64), JITTER)
    R = factors(3, JITTER)
    np.testing.assert_allclose(K, VARIANCE * np.kron(np.kron(R[0], R[1]), R[2]), rtol=1e-12)
    np.testing.assert_allclose(np.diag(K), VARIANCE + JITTER, rtol=1e-6)  # to first order in the jitter


@pytest.mark.parametrize("shared", [True, False])  # one lengthscale, and one for each input
def test_gradients_are_those_of_finite_differences(shared):
    rng = np.random.RandomState(1)
    X = rng.permutation(points(ROWS))
    places, v = point.find_grid(points(AXES), X), rng.randn(1, 24)
    weights = [tf.constant(rng.randn(1, len(X))) for _ in range(2)]

    def value(parts):
        both = point.grid_moments(places, point.make_on_grid(places, *parts, JITTER, False))
        return sum(tf.reduce_sum(w * part) for w, part in zip(weights, both, strict=True))

    at = [tf.constant(a) for a in (v, np.array([0.8]) if shared else LENGTHSCALES, np.array(VARIANCE))]
    with tf.GradientTape() as tape:
        tape.watch(at)
        total = value(at)
    for i, slopes in enumerate(s.numpy() for s in tape.gradient(total, at)):
        for place in np.ndindex(slopes.shape):
            step = np.zeros(slopes.shape)
            step[place] = 1e-5
            ends = [float(value([*at[:i], at[i] + sign * step, *at[i + 1 :]])) for sign in (1, -1)]
            assert float(slopes[place]) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6, abs=1e-7)


def test_what_is_a_grid():
    Z, X = points(AXES[:2]), points(ROWS[:2])
    assert point.find_grid(Z, X).cells is None and point.find_grid(Z, X[::-1]).cells == tuple(
        range(11, -1, -1)
    )
    assert point.find_grid(Z[:, :1], X[:5, :1]).X == ((-0.8, -0.8, -0.8, 0.1, 0.1),)  # one input: anything is
    assert point.find_grid(Z[:-1], X) is None and point.find_grid(Z[::-1], X) is None
    assert point.find_grid(Z, np.concatenate([X, X[:1]])) is None  # two rows in one place
    assert point.find_grid(Z, np.random.RandomState(0).randn(12, 2)) is None  # 144 cells for 12 rows


@pytest.mark.parametrize("lengthscale", [1.0, 1.5, 3.0])
def test_jitter_on_factors_moves_the_prior_of_rows_as_little_as_jitter_on_the_diagonal(lengthscale):
    """The 15 x 15 inducing points and 32 x 32 bins of the pines: the covariance that inducing outputs give
    the function at bins, beside jitter on the diagonal, and beside a hundredth of it."""
    z, x, jitter = np.linspace(-4.84, 4.84, 15), np.linspace(-4.84, 4.84, 32), 1e-6
    R, C = (rbf(z[:, None], b[:, None], lengthscale, 1.0) for b in (z, x))
    A = np.linalg.solve(np.linalg.cholesky(R + 0.5 * jitter * np.eye(15)), C)
    split = np.kron(A.T @ A, A.T @ A)
    cross = np.kron(C, C)

    def plain(jitter):
        A = np.linalg.solve(np.linalg.cholesky(np.kron(R, R) + jitter * np.eye(225)), cross)
        return A.T @ A

    assert np.abs(split - plain(jitter)).max() < 5 * jitter
    assert np.abs(plain(jitter / 100) - plain(jitter)).max() < 20 * jitter  # 7 at most, with rounding
