"""The conditional VAE against numpy, quadrature and the linear-Gaussian model it contains."""

import numpy as np
import pytest
from baseline_tools import (
    context,
    gradient_errors,
    least_squares,
    linear_data,
    make,
    numpy_network,
    random_values,
    terms,
)
from scipy import stats

from dgpbench.models.baselines.cvae import ConditionalVAE


def data(network, N=7, seed=1):
    rng = np.random.RandomState(seed)
    return rng.randn(N, network.dim), rng.randn(N, network.outputs), rng.randn(N, network.noise_dim)


def posterior(network, values, X, Y):
    out = numpy_network(values, "encoder", np.concatenate([X, Y], 1))
    L = network.latent_dim
    return out[:, :L], np.log1p(np.exp(out[:, L:]))


def decoder_loglik(values, w, X, Y):
    F = numpy_network(values, "decoder", np.concatenate([w, X], 1))
    return stats.norm(F, np.sqrt(values["likelihood/variance"])).logpdf(Y).sum(1)


@pytest.mark.parametrize("hidden", [(), (4,), (4, 3)])
@pytest.mark.parametrize("P, L", [(1, 1), (2, 3)])
def test_bound_at_fixed_noise_equals_numpy(hidden, P, L):
    network = ConditionalVAE(dim=2, outputs=P, latent_dim=L, hidden=hidden)
    values = random_values(network)
    X, Y, noise = data(network)
    mean, scale = posterior(network, values, X, Y)
    kl = 0.5 * (scale**2 + mean**2 - 1 - 2 * np.log(scale)).sum(1)
    expected = decoder_loglik(values, mean + scale * noise, X, Y) - kl
    np.testing.assert_allclose(terms(network, values, X, Y, noise), expected, rtol=1e-12)


@pytest.mark.slow
def test_expected_bound_equals_quadrature_and_stays_below_the_log_marginal():
    network = ConditionalVAE(dim=2, hidden=(4,), variance=0.2)
    values = random_values(network)
    X, Y, _ = data(network)
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    mean, scale = posterior(network, values, X, Y)
    inner = np.stack([decoder_loglik(values, mean + scale * z, X, Y) for z in nodes])  # nodes, N
    kl = 0.5 * (scale**2 + mean**2 - 1 - 2 * np.log(scale))[:, 0]
    exact = weights @ inner - kl
    S = 40_000
    noise = np.random.RandomState(2).randn(S, len(X), 1)
    tile = [np.tile(A, (S, 1)) for A in (X, Y)]
    each = terms(network, values, *tile, noise.reshape(-1, 1)).reshape(S, -1)
    error = each.std(0) / np.sqrt(S)
    assert np.all(np.abs(each.mean(0) - exact) < 4 * error) and error.max() < 0.03
    grid = np.linspace(-9, 9, 4001)
    prior = [np.exp(decoder_loglik(values, np.full((len(X), 1), w), X, Y)) * stats.norm.pdf(w) for w in grid]
    log_marginal = np.log(np.sum(prior, 0) * (grid[1] - grid[0]))
    assert np.all(exact < log_marginal)


def test_gradient_equals_finite_differences():
    network = ConditionalVAE(dim=2, outputs=2, hidden=(3,))
    assert max(gradient_errors(network, random_values(network), *data(network))) < 1e-7


@pytest.mark.parametrize("P", [1, 2])
def test_predictive_of_the_linear_model_is_its_exact_marginal(P):
    """y = a w + B x + c + noise is Gaussian with covariance a a^T + variance I."""
    model = make("model=cvae_linear")
    values = random_values(ConditionalVAE(dim=2, outputs=P, variance=0.3), seed=3)
    model.load_parameters(values)
    X, Y, _ = data(ConditionalVAE(dim=2, outputs=P))
    S = 40_000
    predictive = model.predict(X, S, seed=5)
    W, c = values["decoder/W0"], values["decoder/b0"][:, 0]
    cov = np.outer(W[:, 0], W[:, 0]) + 0.3 * np.eye(P)
    for n in range(len(X)):
        exact = stats.multivariate_normal(X[n] @ W[:, 1:].T + c, cov).logpdf(Y[n])
        each = stats.norm(predictive.mean[:, n], np.sqrt(0.3)).pdf(Y[n]).prod(-1)
        error = each.std() / each.mean() / np.sqrt(S)
        assert abs(predictive.log_density(Y)[n] - exact) < 4 * error < 0.1


def test_the_linear_model_learns_least_squares(tmp_path):
    """Its encoder can be the exact posterior, so the bound's maximum is the largest Gaussian likelihood."""
    split = linear_data()
    model = make("model=cvae_linear", "inference.adam.learning_rate=0.01", "inference.adam.decay=0.5")
    result = model.fit(split, context(tmp_path, steps=5000))
    weights, best = least_squares(split)
    a, *b = model.values["decoder/W0"][0]
    np.testing.assert_allclose([*b, model.values["decoder/b0"][0, 0]], weights[:, 0], atol=0.01)
    var = a**2 + model.values["likelihood/variance"]
    mean = split.X_train @ np.array(b)[:, None] + model.values["decoder/b0"][0, 0]
    loglik = stats.norm(mean, np.sqrt(var)).logpdf(split.Y_train).mean()
    assert best - 0.002 < loglik <= best + 1e-12
    assert result.bound / split.n_train == pytest.approx(best, abs=0.02)


def test_predictions_use_the_prior_and_independent_draws_for_each_point():
    """A decoder that returns w: the components are the draws themselves."""
    model = make("model=cvae_linear", "model.latent_dim=2")
    values = ConditionalVAE(dim=1, outputs=2, latent_dim=2).initial(np.random.RandomState(0))
    values["decoder/W0"] = np.eye(2, 3)
    model.load_parameters(values)
    w = model.predict(np.zeros((6, 1)), 5000, 1).mean.transpose(1, 2, 0).reshape(12, -1)
    assert all(stats.kstest(row, "norm").pvalue > 1e-3 for row in w)
    assert np.abs(np.corrcoef(w) - np.eye(12)).max() < 0.07
