"""The mixture density network against scipy mixtures and least squares."""

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

from dgpbench.data.split import Split
from dgpbench.models.baselines.neural import MixtureDensityNetwork


def data(network, N=7, seed=1):
    rng = np.random.RandomState(seed)
    return rng.randn(N, network.dim), rng.randn(N, network.outputs), np.zeros((N, 0))


def brute_force(network, values, X, Y):
    k, P = network.components, network.outputs
    out = numpy_network(values, "network", X)
    density = np.zeros(len(X))
    for n, row in enumerate(out):
        weights = np.exp(row[:k]) / np.exp(row[:k]).sum()
        mean, raw = row[k : k + k * P].reshape(k, P), row[k + k * P :].reshape(k, P)
        for j in range(k):
            cov = np.diag(np.log1p(np.exp(raw[j])) + 1e-6)
            density[n] += weights[j] * stats.multivariate_normal(mean[j], cov).pdf(Y[n])
    return np.log(density)


@pytest.mark.parametrize("hidden", [(), (4, 3)])
@pytest.mark.parametrize("P, k", [(1, 1), (1, 5), (3, 4)])
def test_log_density_equals_scipy_mixtures(hidden, P, k, monkeypatch):
    network = MixtureDensityNetwork(dim=2, outputs=P, components=k, hidden=hidden)
    values = random_values(network)
    X, Y, none = data(network)
    expected = brute_force(network, values, X, Y)
    np.testing.assert_allclose(terms(network, values, X, Y, none), expected, rtol=1e-11)
    words = "[" + ",".join(map(str, hidden)) + "]"
    model = make("model=mdn", f"model.components={k}", f"model.hidden={words}")
    model.load_parameters(values)
    for columns in (100_000, 3 * k):  # all points at once, three at a time
        monkeypatch.setattr("dgpbench.models.baselines.neural.PREDICT_COLUMNS", columns)
        predictive = model.predict(X, 100, 0)
        assert predictive.mean.shape == (k, len(X), P)
        np.testing.assert_allclose(predictive.log_density(Y), expected, rtol=1e-11)


def test_gradient_equals_finite_differences():
    network = MixtureDensityNetwork(dim=2, outputs=2, components=3, hidden=(3,))
    assert max(gradient_errors(network, random_values(network), *data(network))) < 1e-7


def test_one_component_without_hidden_layer_learns_least_squares(tmp_path):
    """Its variance may depend on x, so its likelihood is at least that of least squares, and close to it."""
    split = linear_data(N=2000)
    rates = ("inference.adam.learning_rate=0.02", "inference.adam.decay=0.5")
    model = make("model=mdn_1", "model.hidden=[]", "inference=dsvi", *rates)  # all rows
    result = model.fit(split, context(tmp_path, steps=4000))
    weights, best = least_squares(split)
    W, b = model.values["network/W0"][1], model.values["network/b0"][1, 0]
    np.testing.assert_allclose([*W, b], weights[:, 0], atol=0.01)
    assert best <= result.bound / split.n_train < best + 0.003
    loglik = model.predict(split.X_train, 1, 0).log_density(split.Y_train).mean()
    assert loglik == pytest.approx(result.bound / split.n_train, abs=1e-6)


def test_several_components_find_two_branches(tmp_path):
    """y = x or y = -x with equal chance: two components reach the entropy of that, one cannot."""
    rng = np.random.RandomState(0)
    X = rng.uniform(1, 3, (1000, 1))
    Y = X * rng.choice([-1, 1], (1000, 1)) + 0.2 * rng.randn(1000, 1)
    rates = ("inference.adam.learning_rate=0.02", "inference.adam.decay=0.5")
    model = make("model=mdn", "model.components=2", "model.hidden=[]", *rates)
    model.fit(Split.from_arrays(X, Y), context(tmp_path, steps=3000))
    truth = np.log(0.5 * stats.norm(X, 0.2).pdf(Y) + 0.5 * stats.norm(-X, 0.2).pdf(Y)).mean()
    fitted = model.predict(X, 1, 0)
    assert fitted.log_density(Y).mean() == pytest.approx(truth, abs=0.01)
    np.testing.assert_allclose(np.sort(fitted.mean[:, :, 0], 0), np.sort([-X[:, 0], X[:, 0]], 0), atol=0.06)
