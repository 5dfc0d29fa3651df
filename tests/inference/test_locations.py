"""Inducing points as inducing locations: SVGP in one layer, a reference in NumPy, the evidence, gradients."""

import gpflow
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
    reference,
    resumes_bitwise,
    tensors,
)

from dgpbench.config import compose
from dgpbench.errors import UserError
from dgpbench.gp.likelihoods.distributions import Bernoulli
from dgpbench.inference.base import Numerics
from dgpbench.inference.global_inducing import LocationsBound
from dgpbench.inference.gradients import lower_bound


def _random(values, seed=0):
    """Values with an S of the size of the prior's."""
    rng = np.random.RandomState(seed)
    for name in [n for n in values if n.endswith("q_sqrt")]:
        values[name] = 0.4 * np.eye(values[name].shape[-1]) + 0.1 * np.tril(rng.randn(*values[name].shape))
    return values


@pytest.mark.parametrize("bernoulli", [False, True])
def test_one_layer_is_svgp_without_whitening(bernoulli):
    """Bound and prediction of GPflow, two outputs, a minibatch of 7 of 20."""
    X, Y = data(20, P=2)
    cfg = compose(["inference=fast", "model=sgp", "model.num_inducing=4", "model.lengthscale=0.6"])
    model, values, _ = model_of(cfg, X, Y)
    likelihood = gpflow.likelihoods.Gaussian(0.1)
    if bernoulli:
        model, Y, likelihood = (
            type(model)(model.layers, Bernoulli()),
            (Y > 0) * 1.0,
            gpflow.likelihoods.Bernoulli(),
        )
        del values["likelihood/variance"]
    bound = LocationsBound(model)
    values = _random(bound.initial(values))
    kernel = gpflow.kernels.RBF(
        values["layer0/kernel/rbf/variance"], values["layer0/kernel/rbf/lengthscales"]
    )
    q = {"q_mu": values["layer0/q_mu"].T, "q_sqrt": values["layer0/q_sqrt"], "whiten": False, "num_data": 20}
    theirs = gpflow.models.SVGP(kernel, likelihood, values["layer0/Z"], num_latent_gps=2, **q)
    zero = tf.zeros((1, 7), tf.float64)
    found = lower_bound(bound, tensors(bound, values), *columns(X[:7], Y[:7]), zero, num_data=20)
    tolerance = 1e-7 if bernoulli else 1e-9
    assert float(found) == pytest.approx(float(theirs.elbo((X[:7], Y[:7]))), rel=tolerance)
    held = {name: tf.constant(v) for name, v in values.items()}
    prepared, _ = bound.prepare(held, Numerics(tf.constant(JITTER, tf.float64)))
    mean, var = theirs.predict_f(X[7:])
    np.testing.assert_allclose(
        tf.stack(bound.moments(prepared, *columns(X[7:]), zero)), [mean.numpy().T, var.numpy().T], atol=1e-9
    )


def test_the_start_is_that_of_mean_field_inference():
    """The same q(u) in other coordinates: whitening gives back the numbers of the start."""
    X, Y = data(9, D=2)
    model, values, _ = model_of(
        compose(["inference=fast", "model=dgp2", "model.num_inducing=3"]), X, Y, spread=0.0
    )
    bound = LocationsBound(model)
    held = {name: tf.constant(v) for name, v in bound.initial(values).items()}
    p = {n[7:]: v for n, v in held.items() if n.startswith("layer0/")}
    K = model.layers[0].gram(p, JITTER)
    q = bound.given(model.layers[0], p, K, tf.transpose(p["Z"]), None).q
    np.testing.assert_allclose(q.mean, values["layer0/q_mu"], atol=1e-9)
    np.testing.assert_allclose(q.root, values["layer0/q_sqrt"], atol=1e-9)


@pytest.mark.slow
def test_two_layers_against_numpy_and_below_the_evidence():
    X, Y = data(5)
    cfg = compose(["inference=fast", "model=dgp2", "model.num_inducing=3", "model.lengthscale=1.0"])
    model, values, _ = model_of(cfg, X, Y, noise=0.3)
    bound = LocationsBound(model)
    values |= {f"layer{i}/Z": np.array([[-1.5], [0.0], [1.5]]) for i in (0, 1)}
    values = _random(bound.initial(values))
    values["layer0/q_sqrt"] = 0.4 * values["layer0/q_sqrt"]  # drawn inducing inputs stay apart

    def posterior(i, K, mean):
        R = values[f"layer{i}/q_sqrt"][0]
        return values[f"layer{i}/q_mu"][0] - mean, R @ R.T

    found, error = mean_of_draws(bound, values, X, Y, 600)
    expected, own = reference(values, X, Y, posterior)
    print(found, error, expected, own, evidence(values, X, Y))
    assert abs(found - expected) < 3 * np.hypot(error, own)
    assert found + 4 * error < evidence(values, X, Y)


def test_gradient_against_finite_differences():
    X, Y = data(6, D=2)
    model, values, _ = model_of(compose(["inference=fast", "model=dgp2", "model.num_inducing=3"]), X, Y)
    bound = LocationsBound(model, 2)
    values = _random(bound.initial(values))
    names = [n for n in values if "/q_" in n or n.endswith(("lengthscales", "variance", "layer0/Z"))]
    assert gradient_gap(bound, values, X, Y, names) < 1e-5


def test_minibatches_checkpoints_and_blocks_end_in_the_same_bits():
    X, Y = data(20, D=2)
    words = ["inference=locations", "model=dgp2", "model.num_inducing=4", "precision=mixed"]
    assert resumes_bitwise(words, X, Y)


@pytest.mark.parametrize(
    "words, says",
    [
        (["model=lv_gp"], "latent variables"),
        (["model=dgp2", "precision=float32"], "precision=mixed or float64"),
        (["model=sgp", "model.output_gps=1"], "output_gps"),
        (["model=dgp2", "model.inner_gps=2"], "inner_gps=null"),
        (["model=dgp2", "model.layer_overrides={1:{num_inducing:7}}"], "100, 7: set model.num_inducing"),
    ],
)
def test_a_config_that_does_not_fit_is_refused_in_one_line(words, says):
    with pytest.raises(UserError, match=says) as error:
        compose(["inference=locations", *words])
    assert "\n" not in str(error.value)
