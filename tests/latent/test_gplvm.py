"""GP-LVM and the Bayesian projection against gpflow's SGPR and BayesianGPLVM and plain linear maps."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from latent_tools import data, fast, model, raw, value
from scipy.stats import norm

from dgpbench.gp import latent
from dgpbench.gp.deep_gp import penalties
from dgpbench.inference.bounds import VI, Optimal
from dgpbench.inference.natgrad import natural_step

N, P, M, NOISE = 12, 3, 7, 0.2


def _problem(samples):
    """A GP-LVM with free q(w), and q(u) after one natural step of size 1 on fixed draws of w."""
    rng = np.random.RandomState(0)
    X, Y = data(rng, N, D=2, P=P)
    structure, values, fixed = model(rng, X, Y, "model=gplvm", "inference.latent_q=free", M=M, noise=NOISE)
    X = X[:, :0]
    u = (np.arange(samples) + 0.5) / samples
    noise = np.tile(norm.ppf(u)[None, :, None], (1, 1, N))  # equally probable nodes, the same for every point
    kind = VI(structure, samples)
    _, _, pairs = fast(kind, values, fixed, X, Y, noise, [N], N, natural=(1,), rows=tf.range(N))
    q = tf.constant(values["layer1/q_mu"]), tf.constant(values["layer1/q_sqrt"])
    m, L = natural_step(*q, *pairs[1], tf.constant(1.0, tf.float64))
    values |= {"layer1/q_mu": m.numpy(), "layer1/q_sqrt": L.numpy()}
    bound = value(kind, values, X, Y, noise, rows=tf.range(N))
    kernel = gpflow.kernels.SquaredExponential(
        values["layer1/kernel/rbf/variance"], values["layer1/kernel/rbf/lengthscales"]
    )
    return values, Y, noise[0, :, 0], kernel, bound


def test_one_natural_step_on_fixed_draws_is_sgpr_on_the_stacked_points():
    S = 6
    values, Y, eps, kernel, _ = _problem(S)
    w = values["layer0/local/mean"] + values["layer0/local/scale"] * eps  # N, S
    stacked, targets = w.T.reshape(-1, 1), np.tile(Y, (S, 1))
    sgpr = gpflow.models.SGPR((stacked, targets), kernel, values["layer1/Z"].copy(), noise_variance=S * NOISE)
    mean, cov = (a.numpy() for a in sgpr.compute_qu())
    L = np.linalg.cholesky(kernel.K(values["layer1/Z"]).numpy() + 1e-6 * np.eye(M))
    np.testing.assert_allclose(L @ values["layer1/q_mu"].T, mean, atol=1e-5)
    S_u = L @ values["layer1/q_sqrt"][0] @ values["layer1/q_sqrt"][0].T @ L.T
    np.testing.assert_allclose(S_u, cov, atol=1e-5)


def test_dense_quadrature_gives_the_bound_of_the_bayesian_gplvm():
    values, Y, _, kernel, bound = _problem(600)
    theirs = gpflow.models.BayesianGPLVM(
        Y,
        X_data_mean=values["layer0/local/mean"],
        X_data_var=values["layer0/local/scale"] ** 2,
        kernel=kernel,
        inducing_variable=values["layer1/Z"].copy(),
        X_prior_mean=np.zeros((N, 1)),
        X_prior_var=np.ones((N, 1)),
    )
    theirs.likelihood.variance.assign(NOISE)
    assert bound == pytest.approx(float(theirs.elbo()), abs=2e-2)
    coarse = _problem(60)[-1]
    assert abs(bound - float(theirs.elbo())) < abs(coarse - float(theirs.elbo()))  # it tends there


PROJECTED = ["model=cde", "model.layers=[linear,lv,gp]", "model.projection_dim=2"]


def test_a_projection_without_variance_is_a_linear_map():
    rng = np.random.RandomState(1)
    X, Y = data(rng, 8, D=4)
    structure, values, _ = model(rng, X, Y, *PROJECTED)
    values["layer0/projection/scale"] = np.full((2, 4), 1e-12)
    A = values["layer0/projection/mean"] = rng.randn(2, 4)
    plain, _, _ = model(np.random.RandomState(1), X @ A.T, Y, "model=cde")
    renamed = {}
    for name, v in values.items():
        index = name.split("/")[0]
        new = {"layer1": "layer0", "layer2": "layer1"}.get(index, index)
        if index != "layer0":
            renamed[name.replace(index, new, 1)] = v
    renamed["layer0/encoder/W0"] = values["layer1/encoder/W0"][:, :3]
    noise = rng.randn(3, 1, 8)
    # the optimal bound: no encoder in the way, which sees x in one and A x in the other
    ours = value(Optimal(structure, nodes=64), values, X, Y, noise)
    theirs = value(Optimal(plain, nodes=64), renamed, X @ A.T, Y, noise[2:])
    kl = float(penalties(structure, {n: tf.constant(v) for n, v in values.items()})[0])
    assert ours + kl == pytest.approx(theirs, rel=1e-8)


def test_kl_of_the_projection_is_that_of_normals():
    from tensorflow_probability import distributions as tfd

    rng = np.random.RandomState(2)
    X, Y = data(rng, 8, D=4)
    structure, values, _ = model(rng, X, Y, *PROJECTED)
    scale = values["layer0/projection/scale"] = 0.2 + rng.rand(2, 4)
    mean = values["layer0/projection/mean"]
    ours = penalties(structure, {n: tf.constant(v) for n, v in values.items()})[0]
    theirs = tf.reduce_sum(tfd.kl_divergence(tfd.Normal(mean, scale), tfd.Normal(tf.zeros_like(mean), 1.0)))
    assert float(ours) == pytest.approx(float(theirs), rel=1e-12)


def test_projection_samples_have_the_moments_of_A_x():
    rng = np.random.RandomState(3)
    prepared = {"mean": tf.constant(rng.randn(2, 3)), "variance": tf.constant(rng.rand(2, 3))}
    x = rng.randn(3, 1)
    A = prepared["mean"].numpy() + np.sqrt(prepared["variance"].numpy()) * rng.randn(200_000, 2, 3)
    brute = A @ x
    ours = [
        latent.sample_projection(prepared, tf.constant(x), tf.constant(np.full((2, 1), e))).numpy()
        for e in (0.0, 1.0)
    ]
    np.testing.assert_allclose(ours[0], brute.mean(0), atol=4 * brute.std() / np.sqrt(2e5))
    np.testing.assert_allclose(ours[1] - ours[0], brute.std(0), rtol=0.01)


def test_raw_and_constrained_latent_parameters_agree():
    rng = np.random.RandomState(4)
    X, Y = data(rng, 5)
    structure, values, _ = model(rng, X, Y, "model=lv_gp", "inference.latent_q=free")
    from latent_tools import constrained

    back = constrained(raw(values, structure), structure)
    for name in ("layer0/local/scale", "layer0/local/mean", "layer0/scale"):
        np.testing.assert_allclose(back[name], values[name], atol=1e-12)
