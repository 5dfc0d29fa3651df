"""The DSVI bound against GPflow's SVGP, exact GP regression, quadrature and its own fast version."""

import math

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from gp_tools import columns, dgp, fast, gpflow_svgp, raw_tensors, sgp

from dgpbench.gp.deep_gp import DeepGP, penalties, prepare, propagate
from dgpbench.gp.fast.forms import half_form, quadratic_form, whitened
from dgpbench.gp.fast.whitening import folding, folding_root, whitening
from dgpbench.gp.kernels import parse
from dgpbench.gp.layer import GPLayer, kl_divergence
from dgpbench.inference.bounds import VI
from dgpbench.inference.gradients import lower_bound


def _data(rng, N=50, D=3, P=2):
    return rng.randn(N, D), rng.randn(N, P)


def _no_noise(N):
    return tf.zeros((0, N), tf.float64)


def test_sgp_bound_equals_gpflow_svgp():
    rng = np.random.RandomState(1)
    X, Y = _data(rng)
    model, values = sgp(rng)
    ours = lower_bound(VI(model), raw_tensors(values, model), *columns(X, Y), _no_noise(50), num_data=200)
    theirs = gpflow_svgp(values, 200).elbo((X, Y))
    assert float(ours) == pytest.approx(float(theirs), rel=1e-8)


def test_predictions_with_all_inducing_points_equal_exact_gp_regression():
    """M = N and the optimal q(u): mean and variance of gpflow's GPR."""
    rng = np.random.RandomState(2)
    X, Xs = rng.randn(30, 2), rng.randn(20, 2)
    Y = np.sin(X[:, :1]) + 0.1 * rng.randn(30, 1)
    kernel = gpflow.kernels.SquaredExponential(variance=1.3, lengthscales=[0.8, 1.2])
    noise, jitter = 0.05, 1e-10
    K = kernel.K(X).numpy() + jitter * np.eye(30)
    L = np.linalg.cholesky(K)
    S = np.linalg.inv(np.eye(30) + L.T @ L / noise)  # posterior of the whitened u
    m = S @ L.T @ Y[:, 0] / noise
    values = {
        "layer0/kernel/rbf/variance": np.asarray(1.3),
        "layer0/kernel/rbf/lengthscales": np.array([0.8, 1.2]),
        "layer0/Z": X,
        "layer0/q_mu": m[None],
        "layer0/q_sqrt": np.linalg.cholesky(S)[None],
        "likelihood/variance": np.asarray(noise),
    }
    model = DeepGP((GPLayer(parse("rbf", 2), 30, 1, "zero"),))
    prepared, _ = prepare(model, {n: tf.constant(v) for n, v in values.items()}, jitter)
    mean, var = propagate(model, prepared, tf.constant(Xs.T), _no_noise(20))
    exact_mean, exact_var = gpflow.models.GPR((X, Y), kernel, noise_variance=noise).predict_f(Xs)
    np.testing.assert_allclose(mean.numpy().T, exact_mean, atol=1e-5)
    np.testing.assert_allclose(var.numpy().T, exact_var, atol=1e-5)


def test_dgp_with_vanishing_inner_variance_is_the_sgp():
    rng = np.random.RandomState(3)
    X, Y = _data(rng, P=1)
    deep, values = dgp(rng, depth=3)
    for i in (0, 1):
        values[f"layer{i}/kernel/rbf/variance"] = np.asarray(1e-12)
        values[f"layer{i}/q_mu"] = np.zeros_like(values[f"layer{i}/q_mu"])
        values[f"layer{i}/q_sqrt"] = np.tile(np.eye(10), (3, 1, 1))  # KL 0
    noise = tf.constant(rng.randn(6, 50))
    ours = lower_bound(VI(deep), raw_tensors(values, deep), *columns(X, Y), noise, num_data=50)
    theirs = gpflow_svgp(values, 50, layer=2).elbo((X, Y))
    assert float(ours) == pytest.approx(float(theirs), rel=1e-5)


@pytest.mark.slow
def test_dsvi_bound_is_unbiased():
    """A 1-D two-layer model: the mean over samples lies within 3 standard errors of quadrature."""
    rng = np.random.RandomState(4)
    X, Y = rng.randn(6, 1), rng.randn(6, 1)
    model, values = dgp(rng, dim=1, M=5)
    raw = raw_tensors(values, model)
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    weights = weights / math.sqrt(2.0 * math.pi)
    Xc, Yc = columns(X, Y)
    at_nodes = [
        float(lower_bound(VI(model), raw, Xc, Yc, tf.fill((1, 6), tf.constant(z, tf.float64)), num_data=6))
        for z in nodes
    ]  # the same node for every point: the bound is a sum over points
    exact = np.dot(weights, at_nodes)
    S, repeats = 500, 40
    estimates = [
        float(lower_bound(VI(model, S), raw, Xc, Yc, tf.constant(rng.randn(1, S * 6)), num_data=6))
        for _ in range(repeats)
    ]
    se = np.std(estimates, ddof=1) / math.sqrt(repeats)
    assert abs(np.mean(estimates) - exact) < 3 * se
    assert se < 0.01 * abs(exact)  # the test can see a bias of a few per cent


@pytest.mark.parametrize("form", ["quad", "white"])
@pytest.mark.parametrize("samples", [1, 3])
def test_fast_bound_and_gradient_equal_the_definition(form, samples):
    rng = np.random.RandomState(5)
    X, Y = _data(rng, N=20, P=2)
    model, values = dgp(rng, depth=2, P=2)
    raw = raw_tensors(values, model)
    noise, kind = rng.randn(3, samples, 20), VI(model, samples)
    with tf.GradientTape() as tape:
        tape.watch(raw)
        flat = tf.constant(noise.reshape(3, -1))
        bound = lower_bound(kind, raw, *columns(X, Y), flat, num_data=70)
    expected = tape.gradient(bound, raw)
    chunks = []
    for part in (slice(0, 8), slice(8, 20)):
        chunks.append(
            (*columns(X[part], Y[part]), tf.constant(noise[:, :, part].reshape(3, -1)), tf.constant(0))
        )
    again, gradients, natural = fast(kind, raw, chunks, form, 70 / (20 * samples), trainable=raw)
    assert float(again) == pytest.approx(float(bound), rel=1e-10)
    assert natural == {}
    for name in raw:
        scale = np.abs(expected[name]).max()
        np.testing.assert_allclose(gradients[name], expected[name], atol=1e-8 * scale, err_msg=name)


@pytest.mark.parametrize("P", [1, 2])
@pytest.mark.parametrize("form", ["quad", "half", "white"])
def test_natural_pair_is_the_data_gradient_in_m_and_S(form, P):
    """dD/dm and dD/dS of the last output by finite differences of the bound plus its KL."""
    rng = np.random.RandomState(6)
    X, Y = _data(rng, N=15, P=P)
    model, values = sgp(rng, P=P, M=4)
    chunk = (*columns(X, Y), _no_noise(15), tf.constant(0))
    _, _, natural = fast(VI(model), raw_tensors(values, model), [chunk], form, natural=(0,))
    g_m, g_S = (g.numpy()[-1] for g in natural[0])
    m, L = values["layer0/q_mu"], values["layer0/q_sqrt"]

    def data(m_last, S_last):
        q_mu, q_sqrt = m.copy(), L.copy()
        q_mu[-1], q_sqrt[-1] = m_last, np.linalg.cholesky(S_last)
        changed = values | {"layer0/q_mu": q_mu, "layer0/q_sqrt": q_sqrt}
        raw = raw_tensors(changed, model)
        bound = lower_bound(VI(model), raw, *columns(X, Y), _no_noise(15), num_data=15)
        return float(bound) + float(kl_divergence(tf.constant(q_mu), tf.constant(q_sqrt)))

    m_last, S, h = m[-1], L[-1] @ L[-1].T, 1e-5
    for i in range(4):
        e = np.eye(4)[i] * h
        slope = (data(m_last + e, S) - data(m_last - e, S)) / (2 * h)
        assert g_m[i] == pytest.approx(slope, rel=1e-5, abs=1e-5)
        for j in range(i + 1):
            E = np.zeros((4, 4))
            E[i, j] = E[j, i] = h
            slope = (data(m_last, S + E) - data(m_last, S - E)) / (2 * h)
            assert (1 if i == j else 2) * g_S[i, j] == pytest.approx(slope, rel=1e-5, abs=1e-5)


def test_kl_equals_gpflow():
    rng = np.random.RandomState(7)
    model, values = sgp(rng, P=3, M=6)
    ours = penalties(model, {n: tf.constant(v) for n, v in values.items()})[0]
    q_mu, q_sqrt = values["layer0/q_mu"].T, values["layer0/q_sqrt"]
    assert float(ours) == pytest.approx(float(gpflow.kullback_leiblers.gauss_kl(q_mu, q_sqrt)), rel=1e-12)


@pytest.mark.parametrize("from_root", [False, True])
def test_gradient_of_folding_equals_autodiff(from_root):
    rng = np.random.RandomState(8)
    root, C = tf.constant(rng.randn(6, 6)), rng.randn(2, 6, 6)
    alpha, C = tf.constant(rng.randn(2, 6)), C + (0 if from_root else C.transpose(0, 2, 1))
    G, C = rng.randn(2, 6, 6), tf.constant(C)
    gradients = [tf.constant(rng.randn(2, 6)), tf.constant(G + G.transpose(0, 2, 1))]
    sources = [root, alpha, C]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(sources)
        K = root @ tf.transpose(root) + tf.eye(6, dtype=tf.float64)  # symmetric whatever the root
        ours = (folding_root if from_root else folding)(K, alpha, C)[1:]
        if from_root:
            C = tf.matmul(C, C, transpose_b=True) - tf.eye(6, dtype=tf.float64)
        Linv = tf.linalg.triangular_solve(tf.linalg.cholesky(K), tf.eye(6, dtype=tf.float64))
        plain = (alpha @ Linv, tf.einsum("mi,pmn,nj->pij", Linv, C, Linv))
    for x, y in zip(ours, plain, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-12)
    mine = tape.gradient(ours, sources, output_gradients=gradients)
    theirs = tape.gradient(plain, sources, output_gradients=gradients)
    for x, y in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-10)


def test_gradient_of_the_kl_equals_autodiff():
    rng = np.random.RandomState(10)
    m, L = tf.constant(rng.randn(2, 5)), tf.constant(np.tril(rng.randn(2, 5, 5)) + 2 * np.eye(5))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([m, L])
        ours = kl_divergence(m, L)
        theirs = gpflow.kullback_leiblers.gauss_kl(tf.transpose(m), L)
    for x, y in zip(tape.gradient(ours, [m, L]), tape.gradient(theirs, [m, L]), strict=True):
        np.testing.assert_allclose(tf.linalg.band_part(x, -1, 0) if x.shape.rank == 3 else x, y, atol=1e-12)


@pytest.mark.parametrize("form", ["white", "half"])
def test_gradient_of_whitening_equals_autodiff_through_the_batch(form):
    """alpha A and A^T C A with A = L^-1 k: the gradient in K without a pass over the columns of k."""
    rng = np.random.RandomState(9)
    root, C, k = tf.constant(rng.randn(6, 6)), rng.randn(2, 6, 6), tf.constant(rng.randn(6, 20))
    alpha, C = tf.constant(rng.randn(2, 6)), tf.constant(C + C.transpose(0, 2, 1))
    gm, gq = tf.constant(rng.randn(2, 20)), tf.constant(rng.randn(2, 20))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([root, k, alpha, C])
        K = root @ tf.transpose(root) + tf.eye(6, dtype=tf.float64)
        Linv, a, c = whitening(K, alpha, C)
        if form == "white":
            ours = quadratic_form(whitened(Linv, k), a, c)
        else:
            ours = half_form(k, Linv, a, c, tf.matmul(Linv, c, transpose_a=True))
        A = tf.linalg.triangular_solve(tf.linalg.cholesky(K), k)
        plain = (alpha @ A, tf.einsum("mb,pmn,nb->pb", A, C, A))
    for x, y in zip(ours, plain, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-10)
    sources = [root, k, alpha, C]
    mine = tape.gradient(ours, sources, output_gradients=[gm, gq])
    theirs = tape.gradient(plain, sources, output_gradients=[gm, gq])
    for x, y in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-9)
