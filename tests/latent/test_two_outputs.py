"""Two outputs, two latent variables: densities against quadrature, closed forms and brute force."""

from dataclasses import replace

import gpflow
import numpy as np
import pytest
from latent_tools import data, model
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

from dgpbench.config import compose
from dgpbench.data import Split
from dgpbench.engine.context import RunContext, Silent
from dgpbench.evaluate.evaluation import evaluate
from dgpbench.models.base import create

A, B, SD = np.array([[0.8, -0.3], [0.2, 0.5], [0.0, 1.0]]), np.array([0.3, -1.0]), np.array([0.4, 0.9])
PROTOCOL = {"test_samples": 10, "draws": 20, "max_test": None, "kde_rows": 0}


@pytest.mark.parametrize("words", [("model=cde",), ("model=gplvm",)])
def test_density_of_two_latents_is_the_integral_over_the_plane(words):
    """p(y | x) = E_w N(y; m(x, w), v(x, w) + noise), by GPflow at 40 x 40 nodes, and by the model's draws."""
    rng = np.random.RandomState(0)
    X, Y = data(rng, 5, D=2, P=2)
    words = [*words, "inference=vi", "model.latent_dim=2", "engine.xla=false"]
    _, values, _ = model(rng, X, Y, *words, M=8)
    made = create(compose([*words, "model.num_inducing=8"]))
    made.load_parameters(values | {"jitter": np.asarray(1e-6)})
    kernel = gpflow.kernels.SquaredExponential(
        values["layer1/kernel/rbf/variance"], values["layer1/kernel/rbf/lengthscales"]
    )
    q = {"q_mu": values["layer1/q_mu"].T, "q_sqrt": values["layer1/q_sqrt"]}
    svgp = gpflow.models.SVGP(
        kernel, gpflow.likelihoods.Gaussian(), values["layer1/Z"], num_latent_gps=2, whiten=True, **q
    )
    node, weight = np.polynomial.hermite_e.hermegauss(40)
    w = np.stack(np.meshgrid(node, node), -1).reshape(-1, 2)
    log_w = np.log(np.outer(weight, weight).ravel() / weight.sum() ** 2)
    exact = []
    for x, y in zip(X, Y, strict=True):
        inputs = np.hstack([np.tile(x, (len(w), 1)), w]) if "model=cde" in words else w
        mean, var = svgp.predict_f(inputs)
        each = norm(mean, np.sqrt(var + values["likelihood/variance"])).logpdf(y).sum(1)
        exact.append(logsumexp(each + log_w))
    found = made.predict(X, 20_000, 1)
    assert found.mean.shape == (20_000, 5, 2)
    assert np.allclose(found.log_density(Y), exact, atol=0.03)


def gaussian(n=300, seed=0) -> Split:
    """y = A'x + b + noise of deviations SD, its density known."""
    rng = np.random.RandomState(seed)
    X = rng.randn(n, 3)
    Y = X @ A + B + SD * rng.randn(n, 2)
    truth = lambda X, Y: norm(X @ A + B, SD).logpdf(Y).sum(1)  # noqa: E731
    cut = 3 * n // 4
    plain = Split.from_arrays(X[:cut], Y[:cut], X[cut:], Y[cut:])
    scales = {"x_mean": X[:cut].mean(0), "x_std": X[:cut].std(0)}
    scales |= {"y_mean": Y[:cut].mean(0), "y_std": Y[:cut].std(0)}
    return replace(plain, log_density=truth, **scales)


def scored(tmp_path, split, *words):
    made = create(compose([*words, "engine.xla=false"]))
    made.fit(split, RunContext("k", tmp_path, 0, 10, None, Silent(), lambda text: None))
    return made, evaluate(made.predict, split, PROTOCOL, seed=0).metrics


def test_linear_regression_has_its_closed_form(tmp_path):
    split = gaussian(600)
    made, metrics = scored(tmp_path, split, "model=linear")
    alpha, beta = (float(made.values[name]) for name in ("alpha", "beta"))
    F = lambda X: np.column_stack([X, np.ones(len(X))])  # noqa: E731
    S = np.linalg.inv(alpha * np.eye(4) + beta * F(split.X_train).T @ F(split.X_train))
    mean = F(split.X_test) @ (beta * S @ F(split.X_train).T @ split.Y_train)
    var = np.einsum("ni,ij,nj->n", F(split.X_test), S, F(split.X_test)) + 1 / beta
    standardised = norm(mean, np.sqrt(var)[:, None]).logpdf(split.Y_test).sum(1)
    expected = standardised - np.log(split.y_std).sum()
    assert metrics["test_loglik_std"] == pytest.approx(standardised.mean(), abs=1e-8)
    assert metrics["test_loglik"] == pytest.approx(expected.mean(), abs=1e-8)
    X = split.X_test * split.x_std + split.x_mean
    Y = split.Y_test * split.y_std + split.y_mean
    gap = norm(X @ A + B, SD).logpdf(Y).sum(1) - expected
    assert metrics["test_kl_to_truth"] == pytest.approx(gap.mean(), abs=1e-8)
    assert 0.0 < metrics["test_kl_to_truth"] < 0.5  # one noise for both outputs, which differ


@pytest.mark.parametrize("name", ["kde", "ckde"])
def test_kernel_estimates_are_their_sums(tmp_path, name):
    split = gaussian(120)
    more = ["model.neighbours=15"] if name == "ckde" else []
    made, metrics = scored(tmp_path, split, f"model={name}", *more)
    h = made.values["bandwidth_y"]
    total = 0.0
    for x, y in zip(split.X_test, split.Y_test, strict=True):
        distance = (((split.X_train - x) / split.X_train.std(0)) ** 2).sum(1)
        near = np.argsort(distance)[:15] if name == "ckde" else np.arange(split.n_train)
        total += np.log(np.mean([multivariate_normal(c, np.diag(h**2)).pdf(y) for c in split.Y_train[near]]))
    assert metrics["test_loglik_std"] == pytest.approx(total / split.n_test, abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("model=mdn_1", "model.hidden=[]"),
        ("model=cvae_linear", "model.latent_dim=2"),
    ],
)
def test_trained_models_come_near_a_gaussian_truth(tmp_path, words):
    split = gaussian(400)
    made = create(compose([*words, "engine.xla=false", "inference.adam.learning_rate=0.01"]))
    made.fit(split, RunContext("k", tmp_path, 0, 1500, None, Silent(), lambda text: None))
    metrics = evaluate(made.predict, split, PROTOCOL | {"test_samples": 500}, seed=0).metrics
    assert metrics["test_kl_to_truth"] < 0.25
