"""The analytic bound: BayesianGPLVM on top, SVGP without variance, below the evidence, refusals."""

import gpflow
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
    model_of,
    rbf,
    tensors,
)

from dgpbench.config import compose
from dgpbench.errors import UserError
from dgpbench.gp import psi
from dgpbench.inference.analytic import Analytic, hidden_term
from dgpbench.inference.base import Numerics
from dgpbench.inference.gradients import lower_bound


def _deep(N=7, M=4, noise=0.1):
    X, Y = data(N)
    cfg = compose(["inference=fast", "model=dgp2", f"model.num_inducing={M}", "model.lengthscale=0.8"])
    model, values, _ = model_of(cfg, X, Y, noise=noise)
    bound, rng = Analytic(model), np.random.RandomState(3)
    values |= bound.row_values(values, X, N)
    values["layer0/local/mean"] = X.T + 0.2 * rng.randn(1, N)
    values["layer0/local/variance"] = rng.uniform(0.02, 0.1, (1, N))
    return X, Y, bound, values


def _value(bound, values, X, Y):
    zero = tf.zeros((1, len(X)), tf.float64)
    return float(lower_bound(bound, tensors(bound, values), *columns(X, Y), zero, num_data=len(X)))


def _top(bound, values, X, Y):
    """The last layer's part: E log p(y | f) - KL(q(u))."""
    held = {name: tf.constant(v) for name, v in values.items()}
    numerics = Numerics(JITTER, num_data=tf.constant(float(len(X)), tf.float64))
    prepared, _ = bound.prepare(held, numerics)
    mean, var = (tf.constant(values[f"layer0/local/{name}"]) for name in ("mean", "variance"))
    f = psi.projected(bound.model.layers[1], prepared["layer1"], psi.Inputs(mean, var))
    data_term = bound.model.likelihood.variational_expectations(prepared["likelihood"], *f, tf.constant(Y.T))
    return float(tf.reduce_sum(data_term) - bound.penalty(held, prepared, numerics)[1])


def test_the_top_layer_at_its_best_is_gpflows_bayesian_gplvm():
    """Given q(f~) the best q(u) has a closed form, S = (I + A / s)^-1, A = L^-1 psi2 L^-T summed over rows;
    the bound is then the data term of the collapsed one."""
    X, Y, bound, values = _deep()
    mean, var = values["layer0/local/mean"].T, values["layer0/local/variance"].T
    kernel = gpflow.kernels.RBF(
        values["layer1/kernel/rbf/variance"], values["layer1/kernel/rbf/lengthscales"]
    )
    p = gpflow.probability_distributions.DiagonalGaussian(mean, var)
    Z = gpflow.inducing_variables.InducingPoints(values["layer1/Z"])
    psi1 = gpflow.expectations.expectation(p, (kernel, Z)).numpy()
    psi2 = gpflow.expectations.expectation(p, (kernel, Z), (kernel, Z)).numpy().sum(0)
    L = np.linalg.cholesky(rbf(values, values["layer1/Z"], values["layer1/Z"], 1) + JITTER * np.eye(4))
    A = np.linalg.solve(L, np.linalg.solve(L, psi2).T)
    S = np.linalg.inv(np.eye(4) + A / 0.1)
    m = S @ np.linalg.solve(L, psi1.T @ Y) / 0.1
    values |= {"layer1/q_mu": m.T, "layer1/q_sqrt": np.linalg.cholesky(S)[None]}
    theirs = gpflow.models.BayesianGPLVM(
        Y, mean, var, kernel, inducing_variable=Z, X_prior_mean=mean, X_prior_var=var
    )  # a prior equal to q(X): its KL is zero
    theirs.likelihood.variance.assign(0.1)
    assert _top(bound, values, X, Y) == pytest.approx(float(theirs.elbo()), rel=1e-6)


def test_without_variance_the_top_layer_is_svgp_on_the_means():
    X, Y, bound, values = _deep()
    values["layer0/local/variance"] = np.full((1, len(X)), 1e-11)
    kernel = gpflow.kernels.RBF(
        values["layer1/kernel/rbf/variance"], values["layer1/kernel/rbf/lengthscales"]
    )
    q = {"q_mu": values["layer1/q_mu"].T, "q_sqrt": values["layer1/q_sqrt"]}
    theirs = gpflow.models.SVGP(kernel, gpflow.likelihoods.Gaussian(0.1), values["layer1/Z"], **q)
    expected = float(theirs.elbo((values["layer0/local/mean"].T, Y)))
    assert _top(bound, values, X, Y) == pytest.approx(expected, rel=1e-6)


def test_the_whole_bound_is_the_sum_of_its_layers():
    """The inner layer's part in NumPy: moments of f by inverses, E log N(f~; f, s), entropy, KL."""
    X, Y, bound, values = _deep()
    Z, m, R = values["layer0/Z"], values["layer0/q_mu"][0], values["layer0/q_sqrt"][0]
    s = float(values["layer0/kernel/white/variance"])
    L = np.linalg.cholesky(rbf(values, Z, Z) + (s + JITTER) * np.eye(4))
    A = np.linalg.solve(L, rbf(values, Z, X))
    f = X[:, 0] + A.T @ m
    v = np.diag(rbf(values, X, X)) - (A**2).sum(0) + ((R.T @ A) ** 2).sum(0)
    mu, D = values["layer0/local/mean"][0], values["layer0/local/variance"][0]
    expected = -0.5 * (np.log(2 * np.pi * s) + ((mu - f) ** 2 + v + D) / s) + 0.5 * np.log(
        2 * np.pi * np.e * D
    )
    kl = 0.5 * (m @ m + (R**2).sum() - 4 - 2 * np.log(np.diag(R)).sum())
    inner = _value(bound, values, X, Y) - _top(bound, values, X, Y)
    assert inner == pytest.approx(expected.sum() - kl, rel=1e-8)


def test_no_entropy_is_gained_where_q_is_the_noise_itself():
    """f~ = f + e with f certain and q(f~) = N(f, s): the hidden term vanishes."""
    f = psi.Inputs(tf.zeros((2, 3), tf.float64), tf.fill((2, 3), tf.constant(0.3, tf.float64)))
    np.testing.assert_allclose(hidden_term(f, f, tf.constant(0.3, tf.float64)), 0.0, atol=1e-12)


@pytest.mark.slow
def test_the_best_bound_lies_below_the_evidence_and_not_far():
    X, Y, bound, values = _deep(N=3, M=3, noise=0.3)
    values["layer0/kernel/rbf/variance"] = np.asarray(0.002)
    values["layer0/kernel/white/variance"] = np.asarray(0.02)
    exact = evidence(values, X, Y, draws=20_000)
    assert exact - 0.5 < best_bound(bound, values, X, Y, ("/q_", "/local/")) < exact


@pytest.mark.slow
def test_the_gradient_of_training_by_differences():
    X, Y, bound, values = _deep(N=4, M=3)
    names = [n for n in values if n != "layer0/q_sqrt"]
    assert gradient_gap(bound, values, X, Y, names) < 1e-4


@pytest.mark.parametrize(
    "words, says",
    [
        (
            ["model=dgp2", "model.inner_noise=0", "model.inner_noise_trainable=false"],
            "model.inner_noise must be above 0",
        ),
        (["model=dgp2", "likelihood=student_t"], "Gaussian noise"),
        (["model=lv_gp"], "latent variables"),
    ],
)
def test_what_it_cannot_take_is_refused_in_one_line(words, says):
    with pytest.raises(UserError, match=says) as error:
        compose(["inference=analytic", *words])
    assert "\n" not in str(error.value)
