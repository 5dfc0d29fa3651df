"""Global inducing points: exact GP regression, a reference in NumPy, the evidence, gradients, checkpoints."""

import numpy as np
import pytest
import tensorflow as tf
from inference_tools import (
    JITTER,
    columns,
    data,
    evidence,
    gradient_gap,
    mean_of_draws,
    model_of,
    rbf,
    reference,
    resumes_bitwise,
    tensors,
)
from scipy import stats

from dgpbench.config import compose
from dgpbench.errors import UserError
from dgpbench.gp.likelihoods.distributions import Bernoulli
from dgpbench.inference.base import Numerics
from dgpbench.inference.global_inducing import GlobalInducing
from dgpbench.inference.gradients import lower_bound


def _layer(M, N=12, P=1):
    X, Y = np.linspace(-2, 2, N)[:, None], data(N, P=P)[1]
    cfg = compose(["inference=fast", "model=sgp", f"model.num_inducing={M}", "model.lengthscale=0.4"])
    model, values, _ = model_of(cfg, X, Y)
    bound = GlobalInducing(model)
    return bound, bound.initial(values), X, Y


def _exact(values, X, Y):
    noise = float(values["likelihood/variance"])
    K = rbf(values, X, X) + noise * np.eye(len(X))
    return sum(stats.multivariate_normal(np.zeros(len(X)), K).logpdf(y) for y in Y.T), K


@pytest.mark.parametrize("P", [1, 2])
def test_one_layer_with_the_data_as_pseudo_data_is_exact_gp_regression(P):
    """Z = X, v = y, R = s I: bound = evidence, prediction = posterior, to 1e-6."""
    bound, values, X, Y = _layer(12, P=P)
    values |= {"layer0/Z": X, "layer0/q_mu": Y.T, "layer0/q_noise": np.sqrt(0.1) * np.eye(12)}
    zero = tf.zeros((1, 12), tf.float64)
    found = lower_bound(bound, tensors(bound, values), *columns(X, Y), zero, num_data=12, jitter=1e-12)
    exact, K = _exact(values, X, Y)
    assert float(found) == pytest.approx(exact, abs=1e-6)
    held = {name: tf.constant(v) for name, v in values.items()}
    prepared, _ = bound.prepare(held, Numerics(tf.constant(1e-12, tf.float64)))
    new = np.linspace(-2.5, 2.5, 7)[:, None]
    mean, var = bound.moments(prepared, *columns(new), zero)
    k = rbf(values, X, new)
    np.testing.assert_allclose(mean, (k.T @ np.linalg.solve(K, Y)).T, atol=1e-6)
    expected = np.diag(rbf(values, new, new) - k.T @ np.linalg.solve(K, k))
    np.testing.assert_allclose(var, np.tile(expected, (P, 1)), atol=1e-6)


def test_fewer_or_other_pseudo_data_are_below_the_evidence():
    for M, seed in ((3, 0), (5, 1), (12, 2)):
        bound, values, X, Y = _layer(M)
        rng = np.random.RandomState(seed)
        values |= {
            "layer0/q_mu": rng.randn(1, M),
            "layer0/q_noise": 0.5 * np.eye(M) + 0.1 * np.tril(rng.randn(M, M)),
        }
        zero = tf.zeros((1, 12), tf.float64)
        found = lower_bound(bound, tensors(bound, values), *columns(X, Y), zero, num_data=12)
        assert float(found) < _exact(values, X, Y)[0]


def _two_layers(N=5, M=3):
    X, Y = data(N)
    cfg = compose(["inference=fast", "model=dgp2", f"model.num_inducing={M}", "model.lengthscale=1.0"])
    model, values, _ = model_of(cfg, X, Y, noise=0.3)
    bound = GlobalInducing(model)
    return bound, bound.initial(values), X, Y


def _posterior(values, layer, K):
    """q(u) of a layer from its precision K^-1 + N^-1."""
    v, R = values[f"layer{layer}/q_mu"][0], values[f"layer{layer}/q_noise"]
    Ninv = np.linalg.inv(R @ R.T)
    S = np.linalg.inv(np.linalg.inv(K) + Ninv)
    return S @ Ninv @ v, S


@pytest.mark.slow
def test_two_layers_against_numpy_and_below_the_evidence():
    bound, values, X, Y = _two_layers()
    found, error = mean_of_draws(bound, values, X, Y, 600)
    expected, own = reference(values, X, Y, lambda i, K, mean: _posterior(values, i, K))
    print(found, error, expected, own, evidence(values, X, Y))
    assert abs(found - expected) < 3 * np.hypot(error, own)
    assert found + 4 * error < evidence(values, X, Y)


def test_draws_of_a_layer_have_the_moments_of_its_posterior():
    bound, values, *_ = _two_layers()
    held = {name: tf.constant(v) for name, v in values.items()}
    layer, p = bound.model.layers[0], {n[7:]: v for n, v in held.items() if n.startswith("layer0/")}
    K = layer.gram(p, JITTER)
    one = tf.function(lambda key: bound.given(layer, p, K, tf.transpose(p["Z"]), key).outputs)
    u = np.array([one(tf.constant([0, i])).numpy()[0] for i in range(2000)]) - values["layer0/Z"][:, 0]
    mean, S = _posterior(values, 0, K.numpy())
    assert np.all(np.abs(u.mean(0) - mean) < 4 * np.sqrt(np.diag(S) / 2000))
    np.testing.assert_allclose(np.cov(u.T), S, atol=0.12 * np.diag(S).max())


def test_a_zero_mean_function_starts_where_the_next_inducing_inputs_stand():
    X, Y = data(9, D=2)
    cfg = compose(["inference=fast", "model=dgp2", "model.num_inducing=3", "model.mean=zero"])
    model, values, _ = model_of(cfg, X, Y)
    np.testing.assert_array_equal(GlobalInducing(model).initial(values)["layer0/q_mu"].T, values["layer1/Z"])


@pytest.mark.slow
@pytest.mark.parametrize("mixed", [False, True])
def test_gradient_against_finite_differences(mixed):
    """On one key; with and without GPs that are mixed."""
    X, Y = data(6, D=2)
    words = ["model=dgp2", "model.num_inducing=3", *(["model.inner_gps=1"] if mixed else [])]
    model, values, _ = model_of(compose(["inference=fast", *words]), X, Y)
    bound = GlobalInducing(model, 2)
    values = bound.initial(values)
    names = [n for n in values if "/q_" in n or n.endswith(("lengthscales", "variance", "layer0/Z"))]
    assert gradient_gap(bound, values, X, Y, names) < 1e-5


def test_other_likelihoods_have_finite_terms_and_right_gradients():
    X, Y = data(6)
    model, values, _ = model_of(compose(["inference=fast", "model=dgp2", "model.num_inducing=3"]), X, Y)
    model = type(model)(model.layers, Bernoulli())
    bound = GlobalInducing(model)
    values = bound.initial({n: v for n, v in values.items() if not n.startswith("likelihood/")})
    assert gradient_gap(bound, values, X, (Y > 0) * 1.0, ["layer0/q_noise", "layer1/q_mu", "layer0/Z"]) < 1e-5


def test_minibatches_checkpoints_and_blocks_end_in_the_same_bits():
    X, Y = data(20, D=2)
    words = ["inference=global_inducing", "model=dgp2", "model.num_inducing=4", "precision=mixed"]
    assert resumes_bitwise(words, X, Y)


@pytest.mark.parametrize(
    "words, says",
    [
        (["model=lv_gp"], "latent variables"),
        (["model=dgp2", "precision=float32"], "precision=mixed or float64"),
        (["model=sgp", "model.output_gps=1"], "output_gps"),
        (["model=dgp2", "model.layer_overrides={1:{num_inducing:7}}"], "100, 7: set model.num_inducing"),
    ],
)
def test_a_config_that_does_not_fit_is_refused_in_one_line(words, says):
    with pytest.raises(UserError, match=says) as error:
        compose(["inference=global_inducing", *words])
    assert "\n" not in str(error.value)
