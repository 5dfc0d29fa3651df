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

from dgpbench.engine.platform import tf
from dgpbench.errors import UserError
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


# ---- dropout, held noise, images ------------------------------------------------------------------------


def _masked(values, part, inputs, masks):
    """The network with factors on its hidden units, in numpy; points are rows."""
    H = inputs
    for i, mask in enumerate(masks):
        H = np.tanh(H @ values[f"{part}/W{i}"].T + values[f"{part}/b{i}"].T) * mask
    last = len(masks)
    return H @ values[f"{part}/W{last}"].T + values[f"{part}/b{last}"].T


def test_dropout_at_fixed_noise_equals_numpy():
    network = ConditionalVAE(dim=2, outputs=3, latent_dim=2, hidden=(5, 4), dropout=0.25)
    values, (X, Y, noise) = random_values(network), data(network, N=9)
    assert network.noise_dim == 2 + 2 * 9
    kept = (noise[:, 2:] > stats.norm.ppf(0.25)) / 0.75
    encoding, decoding = ([kept[:, a:b], kept[:, b:c]] for a, b, c in ((0, 5, 9), (9, 14, 18)))
    out = _masked(values, "encoder", np.concatenate([X, Y], 1), encoding)
    mean, scale = out[:, :2], np.log1p(np.exp(out[:, 2:]))
    kl = 0.5 * (scale**2 + mean**2 - 1 - 2 * np.log(scale)).sum(1)
    F = _masked(values, "decoder", np.concatenate([mean + scale * noise[:, :2], X], 1), decoding)
    loglik = stats.norm(F, np.sqrt(values["likelihood/variance"])).logpdf(Y).sum(1)
    np.testing.assert_allclose(terms(network, values, X, Y, noise), loglik - kl, rtol=1e-12)


def test_a_share_of_units_is_dropped_and_their_mean_is_kept():
    network = ConditionalVAE(dim=1, outputs=1, hidden=(50,), dropout=0.3)
    noise = np.random.RandomState(0).randn(network.noise_dim, 2000)
    first, second = (masks[0].numpy() for masks in network.masks(tf.constant(noise)))
    for mask in (first, second):
        assert set(np.unique(mask)) == {0.0, 1.0 / 0.7}
        assert mask.mean() == pytest.approx(1.0, abs=0.01) and (mask == 0).mean() == pytest.approx(
            0.3, abs=0.01
        )
    assert not np.array_equal(first, second)


def test_nothing_is_dropped_in_predictions(tmp_path):
    split = linear_data(N=60)
    model = make("model=cvae_50", "model.hidden=[6]", "model.dropout=0.5", "dataset=boston")
    model.fit(split, context(tmp_path, steps=3))
    plain = make("model=cvae_50", "model.hidden=[6]", "dataset=boston")
    plain.load_parameters(model.parameters())
    ours, theirs = (m.predict(split.X_train[:4], 5, 0) for m in (model, plain))
    np.testing.assert_array_equal(ours.mean, theirs.mean)


def test_noise_may_be_held(tmp_path):
    words = ["model=cvae_50", "model.hidden=[6]", "model.likelihood_variance=0.3", "dataset=boston"]
    for held in (True, False):
        model = make(*words, f"model.likelihood_variance_trainable={str(not held).lower()}")
        model.fit(linear_data(N=60), context(tmp_path / str(held), steps=5))
        assert (abs(float(model.parameters()["likelihood/variance"]) - 0.3) < 1e-12) == held


def test_density_of_images_against_quadrature_over_two_latents(tmp_path):
    """Importance sampling beside a product rule over w, for a small decoder and an image of 2 x 3 pixels."""
    model = make("model=cvae_images", "model.hidden=[4]", "dataset=strokes_images")
    network = model.network(2, 6)
    values = random_values(network)
    model.load_parameters(values | {"likelihood/variance": np.asarray(0.2)})
    rng = np.random.RandomState(5)
    X, Y = rng.randn(5, 2), rng.randn(5, 6)
    at = np.linspace(-6, 6, 241)
    w = np.stack(np.meshgrid(at, at), -1).reshape(-1, 2)
    log_prior = stats.norm.logpdf(w).sum(1)
    exact = []
    for x, y in zip(X, Y, strict=True):
        F = numpy_network(model.parameters(), "decoder", np.hstack([w, np.tile(x, (len(w), 1))]))
        each = stats.norm.logpdf(y, F, np.sqrt(0.2)).sum(1) + log_prior
        exact.append(np.log(np.exp(each - each.max()).sum()) + each.max() + 2 * np.log(at[1] - at[0]))
    found = model.log_density(X, Y, 500, 0)
    ours = np.log(np.exp(found - found.max(0)).mean(0)) + found.max(0)
    error = np.exp(found - ours).std(0, ddof=1) / np.sqrt(len(found))
    assert np.all(np.abs(ours - exact) < 4 * error + 1e-6) and error.max() < 0.1


@pytest.mark.parametrize(
    "words, says",
    [
        (["model.dropout=1"], "model.dropout must be a number at least 0 and below 1"),
        (["model.dropout=0.1", "model.hidden=[]"], "needs hidden units to drop"),
        (["model.likelihood_variance_trainable=2"], "must be true or false"),
    ],
)
def test_bad_options(words, says):
    with pytest.raises(UserError, match=says):
        make("model=cvae_50", *words)
