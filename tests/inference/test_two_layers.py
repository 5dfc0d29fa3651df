"""Two layers under each posterior against draws in NumPy: predictions, classes, variances, functions."""

import numpy as np
import pytest
import tensorflow as tf
from inference_tools import JITTER, data, mean_of_draws, model_of, rbf
from scipy.special import gammaln
from two_layers import drawn, outputs

from dgpbench.config import compose
from dgpbench.config.classes import create_method
from dgpbench.gp.likelihoods.distributions import Poisson, RobustMax
from dgpbench.models import inside
from dgpbench.models.gp import GPModel

METHODS = ["joint", "star", "locations", "global_inducing"]
WORDS = ["model=dgp2", "model.num_inducing=4", "model.lengthscale=1.0", "precision=float64", "threads=1"]


def _fitted(method, outputs=1, likelihood=None, words=()):
    """A model with random parameters, covariances between layers among them, and its values."""
    cfg = compose([*WORDS, f"inference={method}", *words])
    X, Y = data(6, P=outputs)
    structure, values, _ = model_of(cfg, X, Y)
    if likelihood:
        structure = type(structure)(structure.layers, likelihood)
        del values["likelihood/variance"]
    bound = create_method(cfg).bound(structure)
    values, rng = bound.initial(values), np.random.RandomState(3)
    if method in ("joint", "star"):
        values["hidden/q_root"] = values["hidden/q_root"] + 0.2 * np.tril(
            rng.randn(*values["hidden/q_root"].shape), -1
        )
        values["layer1/q_cross"] = 0.3 * rng.randn(*values["layer1/q_cross"].shape)
    return cfg, bound, values


def _model(method):
    cfg, _, values = _fitted(method)
    model = GPModel(cfg)
    model.load_parameters(values | {"jitter": np.asarray(JITTER)})
    return model, values


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_predictions_are_those_of_draws(method):
    """Mean and variance of y at new points, within four standard errors of 150 draws of q(u)."""
    model, values = _model(method)
    X = np.linspace(-2.5, 2.5, 4)[:, None]
    model._members = model._prepared(150, 1)
    found = model.predict(X, 150 * 30, 2)
    rng = np.random.RandomState(0)
    each = np.array([outputs(method, values, X, rng)[:2] for _ in range(2500)])[:, :, 0]
    mean = each[:, 0].mean(0)
    squares = (each[:, 0] - mean) ** 2 + each[:, 1] + float(values["likelihood/variance"])
    few = np.sqrt(1 / 150 + 1 / 2500)
    print(found.mixture_mean()[:, 0], mean, found.mixture_sd()[:, 0] ** 2, squares.mean(0))
    error = np.abs(found.mixture_mean()[:, 0] - mean)
    np.testing.assert_array_less(error, 4 * few * each[:, 0].std(0))
    error = np.abs(found.mixture_sd()[:, 0] ** 2 - squares.mean(0))
    np.testing.assert_array_less(error, 4 * few * squares.std(0))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_bound_with_three_classes(method):
    """Robust-max: its expectation is linear in the probability of the right class, which draws of f give."""
    estimator = ["inference.estimator=sampled"] if method in ("joint", "star") else []
    _, bound, values = _fitted(method, 3, RobustMax(3), estimator)
    X, _ = data(6)
    labels = np.array([0, 1, 2, 2, 1, 0])
    found, error = mean_of_draws(bound, values, X, labels[:, None] * 1.0, 150)
    rng, each = np.random.RandomState(1), []
    for _ in range(1500):
        mean, var, kl = outputs(method, values, X, rng)
        f = mean + np.sqrt(var) * rng.randn(*mean.shape)
        right = f.argmax(0) == labels
        each.append(np.where(right, np.log(1 - 1e-3), np.log(1e-3 / 2)).sum() - kl)
    expected, own = np.mean(each), np.std(each) / np.sqrt(len(each))
    print(found, error, expected, own)
    assert abs(found - expected) < 4 * np.hypot(error, own)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_bound_with_counts(method):
    """Poisson with a bin size, `joint` and `star` by their analytic estimator: E log p in closed form for
    each draw in NumPy."""
    b, Y = 0.7, np.array([0.0, 2.0, 1.0, 3.0, 0.0, 1.0])
    _, bound, values = _fitted(method, 1, Poisson(b))
    draws = 150
    if method == "locations":  # inner draws that nearly meet make f so large that its exponential overflows
        values |= {f"layer{i}/q_sqrt": 0.03 * values[f"layer{i}/q_sqrt"] for i in (0, 1)}
        draws = 1000  # tails are still long
    X, _ = data(6)
    found, error = mean_of_draws(bound, values, X, Y[:, None], draws)
    rng, each = np.random.RandomState(1), []
    for _ in range(1500):
        mean, var, kl = (part if np.ndim(part) == 0 else part[0] for part in outputs(method, values, X, rng))
        each.append((Y * (mean + np.log(b)) - b * np.exp(mean + var / 2) - gammaln(Y + 1)).sum() - kl)
    expected, own = np.mean(each), np.std(each) / np.sqrt(len(each))
    print(found, error, expected, own)
    assert abs(found - expected) < 4 * np.hypot(error, own)


class _Nodes:
    """Normals that are given: first those of u, then those of f."""

    def __init__(self, *normals):
        self.normals = list(normals)

    def randn(self, count):
        return np.full(count, self.normals.pop(0))


@pytest.mark.parametrize("method", ["locations", "global_inducing"])
def test_one_point_and_one_inducing_point_by_quadrature(method):
    """Over the drawn u_1 and f_1 by Gauss-Hermite, u_2 and f_2 in closed form; the bound by its draws."""
    cfg = compose([*WORDS, f"inference={method}", "model.num_inducing=1"])
    X, Y = data(1)
    structure, values, _ = model_of(cfg, X, Y, noise=0.3)
    bound = create_method(cfg).bound(structure)
    values, s2 = bound.initial(values), 0.3
    values["layer0/q_mu"] = values["layer0/q_mu"] + 0.2
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    expected = 0.0
    for e, w_e in zip(nodes, weights, strict=True):
        for eps, w in zip(nodes, weights, strict=True):
            mean, var, kl = outputs(method, values, X, _Nodes(e, eps))
            fit = -0.5 * np.log(2 * np.pi * s2) - ((Y.T - mean) ** 2 + var).item() / (2 * s2)
            expected += w_e * w * (fit - kl) / (2 * np.pi)
    found, error = mean_of_draws(bound, values, X, Y, 1000)
    print(found, error, expected)
    assert abs(found - expected) < 4 * error and error < 0.1


def _at_zero(values, layer, Z, m, S):
    """Mean and variance of a layer at 0 for u ~ N(m, S)."""
    white = float(values.get(f"layer{layer}/kernel/white/variance", 0.0))
    zero = np.zeros((1, 1))
    K, k = rbf(values, Z, Z, layer) + (JITTER + white) * np.eye(len(Z)), rbf(values, Z, zero, layer)
    a = np.linalg.solve(K, k)
    return (a.T @ m).item(), (rbf(values, zero, zero, layer) + white - k.T @ a + a.T @ S @ a).item()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["joint", "locations", "global_inducing"])
def test_layer_variances_at_zero(method):
    """Of both layers, over q: law of total variance on draws in NumPy; 400 draws err by a quarter."""
    model, values = _model(method)
    rng, point = np.random.RandomState(0), np.zeros((4, 4))
    moments = np.empty((1500, 2, 2))
    for s in range(len(moments)):
        Z, u, Z2, m2, S2, _ = drawn(method, values, rng)
        moments[s] = _at_zero(values, 0, Z, u, point), _at_zero(values, 1, Z2, m2[0], S2[0])
    expected = moments[:, :, 1].mean(0) + moments[:, :, 0].var(0)
    found = inside.variances_at_zero(model, seed=0, count=400)
    print(found, expected)
    np.testing.assert_allclose(found, expected, rtol=0.25)


def test_mean_field_variances_and_functions():
    """Exact without draws: variances at 0, and the covariance of a layer's function between points."""
    cfg = compose([*WORDS, "inference=dsvi"])
    X, Y = data(6)
    _, values, _ = model_of(cfg, X, Y)
    model = GPModel(cfg)
    model.load_parameters(values | {"jitter": np.asarray(JITTER)})
    expected = []
    for i in range(2):
        Z = values[f"layer{i}/Z"]
        white = float(values.get(f"layer{i}/kernel/white/variance", 0.0))
        K = rbf(values, Z, Z, i) + (JITTER + white) * np.eye(len(Z))
        L, R = np.linalg.cholesky(K), values[f"layer{i}/q_sqrt"][0]
        S = L @ R @ R.T @ L.T
        expected.append(_at_zero(values, i, Z, np.zeros(len(Z)), S)[1])
        H = np.array([[-1.0], [0.3], [0.9]])
        k = rbf(values, Z, H, i)
        a = np.linalg.solve(K, k)
        covariance = rbf(values, H, H, i) + white * np.eye(3) - k.T @ a + a.T @ S @ a
        mean = a.T @ L @ values[f"layer{i}/q_mu"][0] + (H[:, 0] if i == 0 else 0.0)
        part = model.posterior_parts(1, 0)[0][f"layer{i}"]
        found = inside.function_moments(model.model.layers[i], part, H.T)
        np.testing.assert_allclose(found[0][0], mean, atol=1e-6)
        np.testing.assert_allclose(found[1][0], covariance, atol=1e-6)
    np.testing.assert_allclose(inside.variances_at_zero(model, 0, 3), expected, rtol=1e-6)


@pytest.mark.parametrize("per_output", ["kernel", "all"])
def test_functions_of_layers_with_a_kernel_for_each_output(per_output):
    """Mean and covariance between points, output by output, in NumPy."""
    cfg = compose([*WORDS, "inference=dsvi", "model.width=2", f"model.per_output={per_output}"])
    X, Y = data(6, D=2)
    _, values, _ = model_of(cfg, X, Y)
    rng, own = np.random.RandomState(0), "layer0/kernel/rbf/"
    for name in (f"{own}variance", f"{own}lengthscales"):
        values[name] = values[name] * rng.uniform(0.5, 2.0, values[name].shape)
    values["layer0/q_mu"] = rng.randn(2, 4)
    model = GPModel(cfg)
    model.load_parameters(values | {"jitter": np.asarray(JITTER)})
    H, Z = rng.randn(3, 2), values["layer0/Z"]
    part = model.posterior_parts(1, 0)[0]["layer0"]
    mean, covariance = inside.function_moments(model.model.layers[0], part, H.T)
    for p in range(2):
        mine = {"layer0/kernel/rbf/variance": values[f"{own}variance"][p]}
        mine["layer0/kernel/rbf/lengthscales"] = values[f"{own}lengthscales"][p]
        z = Z[p] if per_output == "all" else Z
        white = float(values.get("layer0/kernel/white/variance", 0.0))
        K, k = rbf(mine, z, z, 0) + (JITTER + white) * np.eye(4), rbf(mine, z, H, 0)
        A = np.linalg.solve(np.linalg.cholesky(K), k)
        R = values["layer0/q_sqrt"][p]
        expected = rbf(mine, H, H, 0) + white * np.eye(3) + A.T @ (R @ R.T - np.eye(4)) @ A
        np.testing.assert_allclose(covariance[p], expected, atol=1e-8)
        np.testing.assert_allclose(mean[p], A.T @ values["layer0/q_mu"][p] + H[:, p], atol=1e-8)


def test_draws_have_the_covariance():
    rng = np.random.default_rng(0)
    covariance = np.array([[1.0, 0.9, 0.9], [0.9, 1.0, 0.9], [0.9, 0.9, 1.0]])
    covariance[2] = covariance[:, 2] = covariance[1]  # two equal points: singular
    covariance[2, 2] = 1.0
    covariance[1, 2] = covariance[2, 1] = 1.0
    found = np.array([inside.draw(np.ones(3), covariance, rng) for _ in range(20_000)])
    np.testing.assert_allclose(np.cov(found.T), covariance, atol=0.04)
    np.testing.assert_allclose(found[:, 1], found[:, 2], atol=1e-6)


@pytest.mark.slow
def test_bound_of_draws_is_exact_for_one_layer():
    """A sparse GP with Gaussian noise has no noise in its bound: it is that of GPflow."""
    gpflow = pytest.importorskip("gpflow")
    cfg = compose(["model=sgp", "inference=dsvi", "model.num_inducing=4", "precision=float64", "threads=1"])
    X, Y = data(9)
    _, values, _ = model_of(cfg, X, Y)
    model = GPModel(cfg)
    model.load_parameters(values | {"jitter": np.asarray(JITTER)})
    kernel = gpflow.kernels.RBF(
        values["layer0/kernel/rbf/variance"], values["layer0/kernel/rbf/lengthscales"]
    )
    theirs = gpflow.models.SVGP(
        kernel,
        gpflow.likelihoods.Gaussian(values["likelihood/variance"]),
        values["layer0/Z"],
        q_mu=values["layer0/q_mu"].T,
        q_sqrt=values["layer0/q_sqrt"],
    )
    found, error = inside.bound_of_draws(model, X, Y, len(X), 0, count=3)
    assert error == pytest.approx(0.0, abs=1e-12)
    assert found == pytest.approx(float(theirs.elbo((tf.constant(X), tf.constant(Y)))), rel=1e-8)
