"""Densities of many outputs by importance sampling: closed forms, quadrature over w, Monte Carlo error."""

import numpy as np
import pytest
import tensorflow as tf
from latent_tools import data, model
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

from dgpbench.evaluate.mixture import log_mean_exp, loglik_influence, loglik_mc_se
from dgpbench.inference.base import Numerics
from dgpbench.inference.bounds import VI
from dgpbench.models import importance

KEY = tf.constant([3, 1])


def _terms(log_p, dim, rows, samples):
    return importance.adapted_terms(lambda u, stream: log_p(u), dim, rows, samples, KEY, tf.float64).numpy()


def _close(terms, exact):
    """Within four standard errors of each row's mean, and in no row further than a tenth of a nat."""
    found = log_mean_exp(terms)
    spread = np.exp(terms - found).std(0, ddof=1) / np.sqrt(len(terms))
    assert np.all(np.abs(found - exact) < 4 * spread + 1e-9)
    assert np.abs(found - exact).max() < 0.1


def test_mixed_outputs_by_woodburys_identity():
    rng, C = np.random.RandomState(0), importance.PIECE + 2
    P, m, v, y, s2 = rng.randn(7, 3), rng.randn(3, C), rng.rand(3, C), rng.randn(7, C), 0.3
    given = (tf.constant(a) for a in (m, v, P.T @ P, P.T @ y, (y**2).sum(0)))
    found = importance.log_mixed(*given, 7, tf.constant(s2, tf.float64))
    exact = [
        multivariate_normal.logpdf(y[:, i], P @ m[:, i], P @ np.diag(v[:, i]) @ P.T + s2 * np.eye(7))
        for i in range(C)
    ]
    np.testing.assert_allclose(found, exact, rtol=1e-10)


@pytest.mark.parametrize("dim", [1, 2, 6])
def test_a_linear_model_of_many_outputs_in_closed_form(dim):
    """y = B u + noise, 200 outputs: p(y) is Gaussian, the posterior of u 45 times narrower than its prior."""
    rng = np.random.RandomState(dim)
    B, s2, rows = rng.randn(200, dim), 0.1, 5
    Y = B @ rng.randn(dim, rows) + np.sqrt(s2) * rng.randn(200, rows)
    exact = multivariate_normal.logpdf(Y.T, np.zeros(200), B @ B.T + s2 * np.eye(200))

    def log_p(u):
        error = Y[:, None, :] - tf.einsum("pd,dkr->pkr", B, u)
        return -0.5 * tf.reduce_sum(np.log(2 * np.pi * s2) + tf.square(error) / s2, 0)

    _close(_terms(log_p, dim, rows, 400), exact)


def test_of_two_modes_one_at_least_is_found():
    """y = u^2 + noise: the posterior of u has two equal peaks. A density never comes out too high, and at
    most by a factor of two too low."""
    Y, s = np.array([0.5, 1.0, 2.0, 6.0]), 0.2
    u = np.linspace(-8, 8, 4001)
    exact = logsumexp(norm.logpdf(Y[:, None], u**2, s) + norm.logpdf(u), 1) + np.log(u[1] - u[0])

    def log_p(u):
        return -0.5 * tf.square((Y - tf.square(u[0])) / s) - np.log(s) - 0.5 * np.log(2 * np.pi)

    gap = log_mean_exp(_terms(log_p, 1, 4, 2000)) - exact
    assert np.all(gap < 0.1) and np.all(gap > -np.log(2) - 0.1)
    assert abs(gap[0]) < 0.1  # peaks near each other: both are found


def _fitted(*words, outputs=20, noise=0.05):
    rng = np.random.RandomState(4)
    X, Y = data(rng, 12, D=2, P=outputs)
    structure, values, _ = model(rng, X, Y, *words, M=6, noise=noise)
    if any(word.startswith("model.output_gps") for word in words):
        last = f"layer{len(structure.layers) - 1}"
        values[f"{last}/P"] = rng.randn(outputs, structure.layers[-1].output_dim)
    tensors = {name: tf.constant(v) for name, v in values.items()}
    bound = VI(structure)
    forms = ("quad",) * len(structure.layers)
    prepared, _ = bound.prepare(tensors, Numerics(tf.constant(1e-6, tf.float64), forms))
    return bound, prepared, X, Y


def _on_a_grid(bound, prepared, X, Y):
    """log p(y | x) (N,) of a model with one latent variable, by the trapezoid rule."""
    w, noise = np.linspace(-8, 8, 6001), float(prepared["likelihood"]["variance"])
    out = []
    for x, y in zip(X, Y, strict=True):
        columns = tf.constant(np.tile(x[:, None], (1, len(w))))
        m, v = (a.numpy() for a in bound.moments(prepared, columns, tf.constant(w[None]), [w[None, None]]))
        each = norm.logpdf(y[:, None], m, np.sqrt(v + noise)).sum(0)
        out.append(logsumexp(each + norm.logpdf(w)) + np.log(w[1] - w[0]))
    return np.array(out)


def test_a_gp_of_one_latent_against_quadrature():
    bound, prepared, X, Y = _fitted("model=cde")
    terms = importance.log_density(bound, prepared, X, Y, 400, 0)
    found, exact = log_mean_exp(terms), _on_a_grid(bound, prepared, X, Y)
    error = np.exp(terms - found).std(0, ddof=1) / np.sqrt(len(terms))
    assert np.all(np.abs(found - exact) < 4 * error)
    assert np.median(np.abs(found - exact)) < 0.03


def _brute_force(bound, prepared, X, Y, draws):
    """Draws from the prior of every normal in front of the last layer."""
    rng, model_ = np.random.RandomState(0), bound.model
    P = prepared[f"layer{len(model_.layers) - 1}"].mixing["P"].numpy()
    s2, out = float(prepared["likelihood"]["variance"]), []
    for x, y in zip(X, Y, strict=True):
        noise = tf.constant(rng.randn(model_.noise_dim, draws))
        w = [tf.reshape(noise[model_.noise_rows(i)], (model_.layers[i].dim, 1, -1)) for i in model_.latent]
        m, v = (
            a.numpy() for a in bound.moments(prepared, tf.constant(np.tile(x[:, None], (1, draws))), noise, w)
        )
        cov = P @ (v.T[:, :, None] * P.T) + s2 * np.eye(len(y))  # draws, P, P
        error = y - m.T @ P.T
        quad = np.einsum("ip,ip->i", error, np.linalg.solve(cov, error[:, :, None])[:, :, 0])
        out.append(-0.5 * (quad + np.linalg.slogdet(cov)[1] + len(y) * np.log(2 * np.pi)))
    return np.array(out).T


def test_a_projection_two_latents_and_mixed_outputs_against_brute_force():
    words = ["model=cde", "model.layers=[linear,lv,gp]", "model.projection_dim=2", "model.latent_dim=2"]
    bound, prepared, X, Y = _fitted(*words, "model.output_gps=2", outputs=3, noise=0.3)
    X, Y = X[:4], Y[:4]
    assert importance.searched(bound.model) == 4
    brute = _brute_force(bound, prepared, X, Y, 20_000)
    terms = importance.log_density(bound, prepared, X, Y, 2000, 0)
    error = [np.exp(t - log_mean_exp(t)).std(0, ddof=1) / np.sqrt(len(t)) for t in (brute, terms)]
    gap = log_mean_exp(brute) - log_mean_exp(terms)
    assert np.all(np.abs(gap) < 4 * np.hypot(*error))
    assert error[1].max() < 0.1


def test_the_monte_carlo_error_is_that_of_repeated_estimates():
    """Standard deviation of the mean log density over seeds, beside the error that one of them states."""
    bound, prepared, X, Y = _fitted("model=cde")
    found, stated = [], []
    for seed in range(12):
        terms = importance.log_density(bound, prepared, X, Y, 60, seed)
        found.append(log_mean_exp(terms).mean())
        stated.append(loglik_mc_se(loglik_influence(terms), len(X)))
    assert 0.5 < np.std(found, ddof=1) / np.mean(stated) < 2.0


def test_few_samples_and_blocks():
    bound, prepared, X, Y = _fitted("model=cde")
    assert importance.log_density(bound, prepared, X[:2], Y[:2], 2, 0).shape == (2, 2)
    assert importance._shared(1) == [1, 0, 0] and importance._shared(200) == [160, 30, 10]
    assert importance.block_rows(784, 200, 10_000) == 63 and importance.block_rows(10**9, 5, 7) == 1
