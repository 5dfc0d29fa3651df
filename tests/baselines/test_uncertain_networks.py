"""Deep ensemble and Monte Carlo dropout: densities by numpy, gradients by differences, what they learn."""

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
from scipy.special import ndtri
from scipy.stats import norm

from dgpbench.errors import UserError
from dgpbench.gp.parameters import NOISE
from dgpbench.models.baselines.neural import DropoutNetwork, Ensemble


def data(network, N=5, seed=1):
    rng = np.random.RandomState(seed)
    return rng.randn(N, network.dim), rng.randn(N, network.outputs), rng.randn(N, network.noise_dim)


ENSEMBLE = Ensemble(dim=2, outputs=2, members=2, hidden=(3,))
DROPOUT = DropoutNetwork(dim=2, outputs=2, hidden=(4, 3), rate=0.3, decay=0.01)


def test_the_bound_of_an_ensemble_is_the_mean_of_its_members():
    values = random_values(ENSEMBLE)
    X, Y, noise = data(ENSEMBLE)
    expected = 0.0
    for i in range(2):
        out = numpy_network(values, f"member{i}/network", X)
        mean, sd = out[:, 1:3], np.sqrt(np.log1p(np.exp(out[:, 3:])) + NOISE.floor)
        expected = expected + norm.logpdf(Y, mean, sd).sum(1) / 2
    np.testing.assert_allclose(terms(ENSEMBLE, values, X, Y, noise), expected, rtol=1e-9)


def test_masks_drop_units_and_scale_the_others():
    values = random_values(DROPOUT)
    X, Y, noise = data(DROPOUT, N=40)
    H, first = X, 0
    for i, width in enumerate((4, 3)):
        H = np.tanh(H @ values[f"network/W{i}"].T + values[f"network/b{i}"][:, 0])
        kept = noise[:, first : first + width] > ndtri(0.3)
        H, first = H * kept / 0.7, first + width
    mean = H @ values["network/W2"].T + values["network/b2"][:, 0]
    squares = sum(np.sum(values[f"network/W{i}"] ** 2) for i in range(3))
    expected = norm.logpdf(Y, mean, np.sqrt(0.05)).sum(1) - 0.005 * squares
    np.testing.assert_allclose(terms(DROPOUT, values, X, Y, noise), expected, rtol=1e-9)
    assert abs(np.mean(np.random.RandomState(0).randn(100_000) > ndtri(0.3)) - 0.7) < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("network", [ENSEMBLE, DROPOUT])
def test_gradients(network):
    assert max(gradient_errors(network, random_values(network), *data(network))) < 1e-7


@pytest.mark.parametrize(
    "words", [("model=deep_ensemble", "model.members=2"), ("model=mc_dropout", "model.rate=0.05")]
)
def test_they_learn_a_plane_about_as_well_as_least_squares(words, tmp_path):
    split = linear_data()
    model = make(*words, "model.hidden=[20]", "inference.adam.learning_rate=0.01", "precision=float64")
    model.fit(split, context(tmp_path, steps=1500))
    found = model.predict(split.X_train, 50, 0)
    assert found.problem() is None
    weights, best = least_squares(split)
    plane = np.concatenate([split.X_train, np.ones((400, 1))], 1) @ weights
    assert np.sqrt(np.mean((found.mixture_mean() - plane) ** 2)) < 0.2
    assert best - 0.1 < found.log_density(split.Y_train).mean() < best + 0.2
    again = make(*words, "model.hidden=[20]")
    again.load_parameters(model.parameters())
    np.testing.assert_array_equal(again.predict(split.X_train, 50, 0).mean, found.mean)


def test_members_differ_and_dropout_needs_units(tmp_path):
    model = make("model=deep_ensemble", "model.members=4", "model.hidden=[5]")
    model.fit(linear_data(), context(tmp_path, steps=5))
    mean = model.predict(np.zeros((3, 2)) + 1.0, 1, 0).mean
    assert mean.shape == (4, 3, 1) and np.std(mean[:, 0, 0]) > 0.01
    with pytest.raises(UserError, match="leaves nothing to drop"):
        make("model=mc_dropout", "model.hidden=[]")
