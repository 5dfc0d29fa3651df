"""The joint Gaussian: DSVI without covariances, two estimators that agree, its KL, evidence, gradients."""

import numpy as np
import pytest
import tensorflow as tf
from inference_tools import (
    JITTER,
    best_bound,
    columns,
    data,
    evidence,
    gradient_gap,
    mean_of_draws,
    model_of,
    rbf,
    resumes_bitwise,
    tensors,
)
from scipy.stats import norm

from dgpbench.config import compose
from dgpbench.config.classes import create_method
from dgpbench.errors import UserError
from dgpbench.gp.likelihoods import LIKELIHOODS
from dgpbench.gp.likelihoods.distributions import Bernoulli
from dgpbench.inference.bounds import VI
from dgpbench.inference.gradients import lower_bound
from dgpbench.inference.joint import Joint, Marginalised, MarginalisedStar


def _model(*words, N=6, D=2, P=1, noise=0.3):
    X, Y = data(N, D=D, P=P)
    model, values, _ = model_of(
        compose(["inference=fast", "model.num_inducing=3", *words]), X, Y, noise=noise
    )
    return X, Y, model, values


def _coupled(bound, values, seed=0):
    """The start with random covariances between all GPs."""
    rng, values = np.random.RandomState(seed), bound.initial(values)
    root = values["hidden/q_root"]
    values["hidden/q_root"] = root + 0.2 * np.tril(rng.randn(*root.shape), -1)
    name = f"layer{bound.last}/q_cross"
    values[name] = 0.2 * rng.randn(*values[name].shape)
    return values


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
@pytest.mark.parametrize(
    "words",
    [["model=dgp2"], ["model=dgp3"], ["model=dgp2", "model.inner_gps=1"], ["model=dgp2", "model.width=1"]],
)
def test_without_covariances_the_analytic_bound_is_that_of_dsvi(words, likelihood):
    """On the same noise, to 1e-8."""
    X, Y, model, values = _model(*words, P=2)
    if likelihood == "bernoulli":
        model, Y = type(model)(model.layers, Bernoulli()), (Y > 0) * 1.0
        del values["likelihood/variance"]
    noise = tf.constant(np.random.RandomState(1).randn(model.noise_dim, 3 * len(X)))
    found = []
    for bound in (VI(model, 3), Marginalised(model, 3)):
        raw = tensors(bound, bound.initial(values))
        found.append(float(lower_bound(bound, raw, *columns(X, Y), noise, num_data=20)))
    assert found[0] == pytest.approx(found[1], abs=1e-8)


def test_one_layer_is_that_of_dsvi():
    X, Y, model, values = _model("model=sgp", P=2)
    zero = tf.zeros((1, len(X)), tf.float64)
    both = (
        lower_bound(bound, tensors(bound, bound.initial(values)), *columns(X, Y), zero, num_data=20)
        for bound in (VI(model), Joint(model))
    )
    assert float(next(both)) == pytest.approx(float(next(both)), rel=1e-12)


@pytest.mark.slow
def test_without_covariances_the_sampled_bound_is_that_of_dsvi():
    X, Y, model, values = _model("model=dgp2")
    (a, error_a), (b, error_b) = (
        mean_of_draws(bound, bound.initial(values), X, Y, 600) for bound in (VI(model), Joint(model))
    )
    print(a, error_a, b, error_b)
    assert abs(a - b) < 3 * np.hypot(error_a, error_b)


@pytest.mark.slow
@pytest.mark.parametrize("words", [["model=dgp2"], ["model=dgp3"]])
def test_the_estimators_agree(words):
    """Width 2, all GPs correlated: sampling u and integrating over it; covariances matter."""
    X, Y, model, values = _model(*words)
    values = _coupled(Joint(model), values)
    (a, error_a), (b, error_b) = (
        mean_of_draws(kind(model), values, X, Y, 800) for kind in (Joint, Marginalised)
    )
    values[f"layer{len(model.layers) - 1}/q_cross"] *= -1.0
    other, _ = mean_of_draws(Marginalised(model), values, X, Y, 400)
    print(a, error_a, b, error_b, other)
    assert abs(a - b) < 3 * np.hypot(error_a, error_b)
    assert abs(other - b) > 6 * error_b


def test_kl_of_the_assembled_gaussian():
    """From the whole mean and covariance of (u_1, u_2), and one output."""
    _, _, model, values = _model("model=dgp2")
    values = _coupled(Joint(model), values)
    m = np.concatenate([values["layer0/q_mu"].ravel(), values["layer1/q_mu"].ravel()])
    (hidden,) = values["hidden/q_root"]
    D = len(hidden)
    root = np.zeros((len(m), len(m)))
    root[:D, :D], root[D:, :D] = hidden, values["layer1/q_cross"][0]
    root[D:, D:] = values["layer1/q_sqrt"][0]
    S = root @ root.T
    expected = 0.5 * (np.trace(S) + m @ m - len(m) - np.linalg.slogdet(S)[1])
    found = Joint(model).divergences({name: tf.constant(v) for name, v in values.items()})
    assert float(sum(found.values())) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("kind", [Marginalised, MarginalisedStar])
def test_two_layers_are_below_the_evidence(kind):
    X, Y, model, values = _model("model=dgp2", "model.lengthscale=1.0", N=5, D=1)
    found, error = mean_of_draws(kind(model), _coupled(kind(model), values), X, Y, 100)
    assert found + 4 * error < evidence(values, X, Y)


@pytest.mark.parametrize("kind", [Marginalised, MarginalisedStar])
def test_one_point_and_one_inducing_point_by_quadrature(kind):
    """E over e and the noise of f_1 by Gauss-Hermite, over u_2 and f_2 in closed form; the bound at 20,000
    quantiles of its noise."""
    X, Y, model, values = _model("model=dgp2", "model.num_inducing=1", "model.lengthscale=1.0", N=1, D=1)
    values = _coupled(kind(model), values)
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    e, eps = np.meshgrid(nodes, nodes, indexing="ij")
    white, s2 = (float(values[n]) for n in ("layer0/kernel/white/variance", "likelihood/variance"))
    (m1,), (m2,) = values["layer0/q_mu"][0], values["layer1/q_mu"][0]
    r1, c, r2 = (values[n].item() for n in ("hidden/q_root", "layer1/q_cross", "layer1/q_sqrt"))
    Z, Z2 = values["layer0/Z"], values["layer1/Z"]
    a = (rbf(values, Z, X) / np.sqrt(rbf(values, Z, Z) + white + JITTER)).item()
    f1 = X.item() + a * (m1 + r1 * e) + np.sqrt(rbf(values, X, X).item() + white - a * a) * eps
    a2 = rbf(values, f1.reshape(-1, 1), Z2, 1).reshape(f1.shape)
    a2 /= np.sqrt(rbf(values, Z2, Z2, 1).item() + JITTER)
    mean = a2 * (m2 + c * e)
    var = rbf(values, Z2, Z2, 1).item() - a2**2 + (a2 * r2) ** 2
    each = -0.5 * np.log(2 * np.pi * s2) - ((Y.item() - mean) ** 2 + var) / (2 * s2)
    kl = sum(0.5 * (r * r + m * m - 1.0) - np.log(abs(r)) for r, m in ((r1, m1), (r2, m2))) + 0.5 * c * c
    expected = (weights[:, None] * weights * each).sum() / (2 * np.pi) - kl
    S = 20_000
    bound, noise = kind(model, S), norm.ppf((np.arange(S) + 0.5) / S)[None]
    rows = np.zeros((model.noise_dim, S))
    rows[model.noise_rows(0)] = noise
    raw = tensors(bound, values)
    found = lower_bound(bound, raw, *columns(X, Y), tf.constant(rows), num_data=1, jitter=JITTER)
    assert float(found) == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
def test_the_best_joint_bound_is_above_the_best_factorised_one():
    """On the same noise, over all parameters of q: the factorised posteriors are among the joint ones."""
    X, Y, model, values = _model("model=dgp2", "model.lengthscale=1.0", N=5, D=1)
    noise = np.random.RandomState(2).randn(model.noise_dim, 40 * len(X))
    factorised, joint = VI(model, 40), Marginalised(model, 40)
    low = best_bound(factorised, factorised.initial(values), X, Y, ["/q_"], noise)
    high = best_bound(joint, joint.initial(values), X, Y, ["/q_"], noise)
    assert high > low + 0.01


@pytest.mark.parametrize("kind", [Joint, Marginalised])
def test_gradient_against_finite_differences(kind):
    X, Y, model, values = _model("model=dgp2", "model.num_inducing=2", "model.inner_gps=1")
    bound = kind(model, 2)
    values = _coupled(bound, values)
    names = [n for n in values if "/q_" in n or n.endswith(("lengthscales", "variance", "Z"))]
    assert gradient_gap(bound, values, X, Y, names) < 1e-5


@pytest.mark.parametrize("words", [["precision=mixed", "inference.estimator=sampled"], ["precision=float64"]])
def test_minibatches_checkpoints_and_blocks_end_in_the_same_bits(words):
    X, Y = data(20, D=2)
    assert resumes_bitwise(["inference=joint", "model=dgp2", "model.num_inducing=4", *words], X, Y)


def test_classes_that_the_data_choose_are_refused_by_the_analytic_estimator():
    _, _, model, _ = _model("model=dgp2")
    model = type(model)(model.layers, LIKELIHOODS["robustmax"](classes=3))
    method = create_method(compose(["inference=joint", "model=dgp2", "precision=float64"]))
    with pytest.raises(UserError, match="robustmax compares outputs"):
        method.bound(model)


def test_too_many_hidden_inducing_outputs_are_refused():
    X, Y, model, _ = _model("model=dgp2", "model.width=1500")
    with pytest.raises(UserError, match="4,500 inducing outputs, at most 4,000"):
        create_method(compose(["inference=joint", "model=dgp2", "precision=float64"])).bound(model)


@pytest.mark.parametrize(
    "words, says",
    [
        (["model=lv_gp"], "latent variables"),
        (["model=dgp2", "precision=float32"], "precision=mixed or float64"),
        (["model=sgp", "model.output_gps=1"], "output_gps"),
        (["model=dgp2", "precision=mixed"], "remove precision=mixed .*, or set inference.estimator=sampled"),
        (["precision=float64", "likelihood=softmax"], "estimator=sampled"),
        (["model=dgp2", "inference.estimator=exact"], "sampled"),
    ],
)
def test_a_config_that_does_not_fit_is_refused_in_one_line(words, says):
    with pytest.raises(UserError, match=says) as error:
        compose(["inference=joint", *words])
    assert "\n" not in str(error.value)
