"""Natural gradients in six parameterisations against SGPR, finite differences and each other."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from gp_tools import columns, fast, raw_tensors, sgp

from dgpbench.inference import natgrad
from dgpbench.inference.bounds import VI
from dgpbench.inference.gradients import lower_bound
from dgpbench.inference.variational import PARAMETERISATIONS

ALL = PARAMETERISATIONS
N, M = 40, 6


def _problem(seed=0):
    """A conjugate problem, with the optimal q(u) and bound from gpflow's SGPR."""
    rng = np.random.RandomState(seed)
    X = rng.randn(N, 2)
    Y = np.sin(2 * X[:, :1]) + 0.1 * rng.randn(N, 1)
    model, values = sgp(rng, dim=2, M=M, P=1)
    kernel = gpflow.kernels.SquaredExponential(
        variance=1.7, lengthscales=values["layer0/kernel/rbf/lengthscales"]
    )
    reference = gpflow.models.SGPR((X, Y), kernel, values["layer0/Z"].copy(), noise_variance=0.1)
    L = np.linalg.cholesky(kernel.K(values["layer0/Z"]).numpy() + 1e-6 * np.eye(M))
    mean, cov = (a.numpy() for a in reference.compute_qu())
    Linv = np.linalg.inv(L)
    m, S = Linv @ mean[:, 0], Linv @ cov @ Linv.T
    return X, Y, model, values, (m, S, float(reference.elbo()))


def _gradients(X, Y, model, values):
    chunk = (*columns(X, Y), tf.zeros((0, N), tf.float64), tf.constant(0))
    return fast(VI(model), raw_tensors(values, model), [chunk], "quad", natural=(0,))[2][0]


def _q(values):
    return tf.constant(values["layer0/q_mu"]), tf.constant(values["layer0/q_sqrt"])


def _bound(X, Y, model, values):
    raw, noise = raw_tensors(values, model), tf.zeros((0, N), tf.float64)
    return float(lower_bound(VI(model), raw, *columns(X, Y), noise, num_data=N))


def _with(values, m, L):
    return values | {"layer0/q_mu": np.asarray(m), "layer0/q_sqrt": np.asarray(L)}


def test_one_natural_step_of_size_one_lands_on_sgpr():
    X, Y, model, values, (m, S, bound) = _problem()
    g = _gradients(X, Y, model, values)
    for new in (
        natgrad.natural_step(*_q(values), *g, tf.constant(1.0, tf.float64)),
        natgrad.step("natural", *_q(values), *g, tf.constant(1.0, tf.float64))[:2],
    ):
        np.testing.assert_allclose(new[0][0], m, atol=1e-6)
        np.testing.assert_allclose(new[1][0] @ tf.transpose(new[1][0]), S, atol=1e-6)
        assert _bound(X, Y, model, _with(values, *new)) == pytest.approx(bound, abs=1e-6)


@pytest.mark.parametrize("name", ALL)
def test_direction_is_the_jacobian_vector_product(name):
    """(3.10): xi(theta + h d) by finite differences, with theta moved by the natural step itself."""
    X, Y, model, values, _ = _problem()
    m, L = _q(values)
    d1, d2 = natgrad.direction(m, L, *_gradients(X, Y, model, values))
    v1, v2 = natgrad.xi_direction(name, m, L, d1, d2)
    theta1, theta2 = natgrad.xi("natural", m, L)

    def moved(h):
        A = -2.0 * (theta2 + h * d2)[0].numpy()
        S = np.linalg.inv(A)
        mean = S @ (theta1 + h * d1)[0].numpy()
        return natgrad.xi(name, tf.constant(mean[None]), tf.constant(np.linalg.cholesky(S)[None]))

    h = 1e-7
    plus, minus = moved(h), moved(-h)
    for v, a, b in ((v1, plus[0], minus[0]), (v2, plus[1], minus[1])):
        slope = ((a - b) / (2 * h)).numpy()
        np.testing.assert_allclose(v, slope, atol=2e-5 * max(1.0, np.abs(slope).max()))


def test_direction_is_the_gradient_in_the_expectation_parameters():
    """dL/d eta by finite differences of the whole bound, KL included."""
    X, Y, model, values, _ = _problem()
    m, L = _q(values)
    d1, d2 = (d.numpy()[0] for d in natgrad.direction(m, L, *_gradients(X, Y, model, values)))
    m0, S0 = m.numpy()[0], (L.numpy()[0] @ L.numpy()[0].T)

    def bound(eta1, eta2):
        q = np.linalg.cholesky(eta2 - np.outer(eta1, eta1))
        return _bound(X, Y, model, _with(values, eta1[None], q[None]))

    eta1, eta2, h = m0, S0 + np.outer(m0, m0), 1e-6
    for i in range(M):
        e = np.eye(M)[i] * h
        assert d1[i] == pytest.approx(
            (bound(eta1 + e, eta2) - bound(eta1 - e, eta2)) / (2 * h), rel=1e-4, abs=1e-3
        )
        E = np.diag(e)
        assert d2[i, i] == pytest.approx(
            (bound(eta1, eta2 + E) - bound(eta1, eta2 - E)) / (2 * h), rel=1e-4, abs=1e-3
        )


@pytest.mark.parametrize("name", ALL)
def test_the_sgpr_optimum_is_a_fixed_point(name):
    X, Y, model, values, (m, S, _) = _problem()
    best = _with(values, m[None], np.linalg.cholesky(S)[None])
    new_m, new_L, halvings = natgrad.step(
        name, *_q(best), *_gradients(X, Y, model, best), tf.constant(0.5, tf.float64)
    )
    assert int(halvings) == 0
    np.testing.assert_allclose(new_m[0], m, atol=1e-6)
    np.testing.assert_allclose(new_L[0] @ tf.transpose(new_L[0]), S, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_small_steps_reach_the_sgpr_optimum(name):
    X, Y, model, values, (m, _, bound) = _problem()
    gap = bound - _bound(X, Y, model, values)
    fixed = raw_tensors(values, model)
    chunk = (*columns(X, Y), tf.zeros((0, N), tf.float64), tf.constant(0))

    @tf.function
    def update(m, L):
        raw = fixed | {"layer0/q_mu": m, "layer0/q_sqrt": L}
        _, _, natural = fast(VI(model), raw, [chunk], "quad", natural=(0,))
        return natgrad.step(name, m, L, *natural[0], tf.constant(0.1, tf.float64))[:2]

    q = _q(values)
    for _ in range(600):
        q = update(*q)
    assert bound - _bound(X, Y, model, _with(values, *q)) < 1e-6 * gap
    np.testing.assert_allclose(q[0][0], m, atol=1e-3)


@pytest.mark.parametrize("name", ["natural", "meanvar", "meanvar_sqrt", "natural_sqrt"])
def test_a_step_out_of_the_cone_is_refused_and_gamma_halved(name):
    rng = np.random.RandomState(3)
    m, L = tf.constant(rng.randn(1, 4)), tf.constant(np.eye(4)[None] * 0.5)
    sign = -1.0 if name.startswith("meanvar") else 1.0  # towards zero covariance, or towards zero precision
    g_S = tf.constant(sign * 50.0 * np.eye(4)[None])
    new_m, new_L, halvings = natgrad.step(
        name, m, L, tf.zeros((1, 4), tf.float64), g_S, tf.constant(1.0, tf.float64)
    )
    assert int(halvings) > 0
    assert np.isfinite(new_m).all()
    assert np.linalg.eigvalsh(new_L[0] @ tf.transpose(new_L[0])).min() > 0
    d = natgrad.direction(m, L, tf.zeros((1, 4), tf.float64), g_S)
    x = natgrad.xi(name, m, L)[1] + 0.5 ** (int(halvings) - 1) * natgrad.xi_direction(name, m, L, *d)[1]
    value = (
        np.diag(x[0]).min()
        if name.endswith("sqrt")
        else np.linalg.eigvalsh((-1 if name == "natural" else 1) * x[0]).min()
    )
    assert value <= 0  # one halving less would not have done


def test_sqrt_of_inverse():
    rng = np.random.RandomState(5)
    A = rng.randn(2, 5, 5)
    A = A @ A.transpose(0, 2, 1) + np.eye(5)
    L = natgrad.sqrt_of_inverse(tf.constant(A)).numpy()
    assert np.allclose(L, np.tril(L))
    np.testing.assert_allclose(L @ L.transpose(0, 2, 1), np.linalg.inv(A), atol=1e-12)
