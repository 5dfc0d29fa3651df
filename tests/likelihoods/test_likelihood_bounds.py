"""Bounds under other likelihoods: against GPflow's SVGP, quadrature, float64, and the optimum of L-BFGS."""

import math
from dataclasses import replace

import gpflow
import likelihood_tools as tools
import numpy as np
import pytest
import tensorflow as tf
from scipy import special

from dgpbench.gp.deep_gp import DeepGP, expected_log_likelihood, prepare
from dgpbench.gp.kernels import parse
from dgpbench.gp.latent import LatentLayer
from dgpbench.gp.layer import GPLayer
from dgpbench.gp.likelihoods import LIKELIHOODS
from dgpbench.gp.parameters import unconstrain
from dgpbench.inference import natgrad
from dgpbench.inference.base import Numerics
from dgpbench.inference.bounds import VI, Optimal
from dgpbench.inference.gradients import batch_term, lower_bound, value_and_gradients

N, D, M = 40, 2, 8
REFERENCE = {
    "bernoulli": (gpflow.likelihoods.Bernoulli, LIKELIHOODS["bernoulli"](), 1),
    "robustmax": (lambda: gpflow.likelihoods.MultiClass(3), LIKELIHOODS["robustmax"](classes=3), 3),
    "student_t": (lambda: gpflow.likelihoods.StudentT(scale=0.7), LIKELIHOODS["student_t"](scale=0.7), 1),
    "poisson": (gpflow.likelihoods.Poisson, LIKELIHOODS["poisson"](), 1),
}


def _data(name, rng):
    X = rng.randn(N, D)
    f = np.sin(2 * X[:, :1]) + X[:, 1:]
    if name == "bernoulli":
        return X, (f + 0.5 * rng.randn(N, 1) > 0).astype(float)
    if name == "robustmax":
        return X, np.digitize(f, [-0.5, 0.7]).astype(float)
    return X, rng.poisson(np.exp(f)).astype(float) if name == "poisson" else f + rng.standard_t(3, (N, 1))


def _model(likelihood, P, depth, rng, dim=D):
    """A model with random parameters; inner layers have identity means."""
    values = {f"likelihood/{key}": value for key, value in likelihood.initial().items()}
    layers = []
    for i in range(depth):
        out, mean = (P, "zero") if i == depth - 1 else (dim, "identity")
        values |= {
            f"layer{i}/kernel/rbf/variance": np.asarray(1.3 if i == depth - 1 else 0.4),
            f"layer{i}/kernel/rbf/lengthscales": np.linspace(0.8, 1.4, dim),
            f"layer{i}/Z": rng.randn(M, dim),
            f"layer{i}/q_mu": rng.randn(out, M),
            f"layer{i}/q_sqrt": np.tril(0.2 * rng.randn(out, M, M)) + 0.6 * np.eye(M),
        }
        layers.append(GPLayer(parse("rbf", dim), M, out, mean))
    return DeepGP(tuple(layers), likelihood), values


def _raw(values, model):
    found = unconstrain(values, model.constraints())
    return {name: tf.constant(value, tf.float64) for name, value in found.items()}


def _fast(model, raw, X, Y, noise, dtype=tf.float64, trainable=(), natural=()):
    """The bound and its gradients as the engine computes them, in the safe form."""
    bound, jitter = VI(model), tf.constant(1e-6, tf.float64)
    chunk = (*(tf.cast(a, dtype) for a in (X, Y, noise)), tf.constant(0))
    numerics = Numerics(jitter, ("white",) * len(model.layers), dtype, natural)
    one = tf.constant(1.0, tf.float64)
    return value_and_gradients(
        bound, raw, [chunk], one, batch_term(bound), numerics, trainable=list(trainable)
    )


def _svgp(values, likelihood, P):
    kernel = gpflow.kernels.SquaredExponential(1.3, values["layer0/kernel/rbf/lengthscales"])
    q = {"q_mu": values["layer0/q_mu"].T.copy(), "q_sqrt": values["layer0/q_sqrt"].copy()}
    Z = values["layer0/Z"].copy()
    return gpflow.models.SVGP(kernel, likelihood, Z, num_latent_gps=P, whiten=True, num_data=3 * N, **q)


@pytest.mark.parametrize("name", REFERENCE)
def test_sgp_bound_equals_gpflow_svgp(name):
    rng = np.random.RandomState(0)
    theirs, ours, P = REFERENCE[name]
    X, Y = _data(name, rng)
    model, values = _model(ours, P, 1, rng)
    columns, noise = (tf.constant(X.T), tf.constant(Y.T)), tf.zeros((0, N), tf.float64)
    bound = lower_bound(VI(model), _raw(values, model), *columns, noise, num_data=3 * N)
    data = (X, Y.astype(int)) if name == "robustmax" else (X, Y)
    assert float(bound) == pytest.approx(float(_svgp(values, theirs(), P).elbo(data)), rel=1e-8)


def test_deep_bernoulli_bound_is_unbiased():
    """One input, two layers: the mean over samples lies within 4 standard errors of quadrature."""
    rng = np.random.RandomState(1)
    _, likelihood, P = REFERENCE["bernoulli"]
    X, Y = _data("bernoulli", rng)
    X, Y = tf.constant(X[:6, :1].T), tf.constant(Y[:6].T)
    model, values = _model(likelihood, P, 2, rng, dim=1)
    raw = _raw(values, model)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    single, many = (
        tf.function(lambda noise, kind=kind: lower_bound(kind, raw, X, Y, noise, num_data=6))
        for kind in (VI(model), VI(model, 500))
    )
    at_nodes = [float(single(tf.constant(np.full((1, 6), z)))) for z in nodes]
    exact = np.dot(weights / weights.sum(), at_nodes)
    estimates = [float(many(tf.constant(rng.randn(1, 3000)))) for _ in range(30)]
    se = np.std(estimates, ddof=1) / math.sqrt(30)
    assert abs(np.mean(estimates) - exact) < 4 * se and se < 0.01 * abs(exact)


@pytest.mark.parametrize("name", [*tools.TARGETS, "robustmax", "softmax"])
def test_fast_gradient_equals_that_of_the_definition_and_mixed_is_near(name):
    """Every parameter of a two-layer model, likelihood included, in float64 and with a float32 batch."""
    rng = np.random.RandomState(2)
    if name in ("robustmax", "softmax"):
        likelihood, P, Y = LIKELIHOODS[name](classes=3), 3, rng.randint(0, 3, (1, N)).astype(float)
    else:
        likelihood, P = tools.make(name)[0], 1
        Y = rng.choice([y for y in tools.TARGETS[name] if name != "beta" or 0.01 < y < 0.99], (1, N))
    model, values = _model(likelihood, P, 2, rng)
    raw, X, noise = _raw(values, model), rng.randn(D, N), rng.randn(model.noise_dim, N)
    names = [key for key in raw if key.removeprefix("likelihood/") not in likelihood.fixed]
    with tf.GradientTape() as tape:
        tape.watch(raw)
        bound = lower_bound(VI(model), raw, *map(tf.constant, (X, Y, noise)), num_data=N)
    exact = tape.gradient(bound, {key: raw[key] for key in names})
    for dtype, tolerance in ((tf.float64, 1e-9), (tf.float32, 2e-3)):
        value, gradients, _ = _fast(model, raw, X, Y, noise, dtype, trainable=names)
        assert float(value) == pytest.approx(float(bound), rel=tolerance)
        for key in names:
            scale = np.abs(exact[key].numpy()).max()
            lower = np.tril if key.endswith("q_sqrt") else lambda a: a
            error = np.abs(lower(gradients[key].numpy()) - lower(exact[key].numpy())).max()
            assert error <= tolerance * (scale + 0.05), (key, error, scale)  # sums of 40 terms of order 1


def _natural_ascent(model, raw, X, Y, steps, gamma):
    names = model.parameter_names(0)

    @tf.function
    def step(raw):
        bound, _, pairs = _fast(model, raw, X, Y, tf.zeros((0, N), tf.float64), natural=(0,))
        m, L = (raw[name] for name in names)
        m, L, _ = natgrad.step("natural", m, L, *pairs[0], tf.constant(gamma, tf.float64))
        return bound, raw | dict(zip(names, (m, L), strict=True))

    for _ in range(steps):
        bound, raw = step(raw)
    return float(bound), raw


@pytest.mark.slow
@pytest.mark.parametrize("name, gamma", [("bernoulli", 1.0), ("bernoulli_plain", 1.0), ("student_t", 0.5)])
def test_natural_gradients_reach_the_optimum_of_lbfgs(name, gamma):
    """q(u) alone, hyperparameters fixed: 40 natural steps against GPflow's SVGP under scipy's L-BFGS-B."""
    rng = np.random.RandomState(3)
    data = "bernoulli" if name == "bernoulli_plain" else name
    X, Y = _data(data, rng)
    theirs, ours, _ = REFERENCE[data]
    ours = replace(ours, epsilon=0.0) if name == "bernoulli_plain" else ours
    model, values = _model(ours, 1, 1, rng)
    values["layer0/q_mu"], values["layer0/q_sqrt"] = np.zeros((1, M)), np.eye(M)[None]
    columns = tf.constant(X.T), tf.constant(Y.T)
    bound, raw = _natural_ascent(model, _raw(values, model), *columns, 40, gamma)
    if name == "bernoulli_plain":  # GPflow has no plain probit; an optimum it is, where the gradient is zero
        with tf.GradientTape() as tape:
            tape.watch(raw)
            again = lower_bound(VI(model), raw, *columns, tf.zeros((0, N), tf.float64), num_data=N)
        gradient = tape.gradient(again, [raw[key] for key in model.parameter_names(0)])
        assert max(np.abs(np.tril(g.numpy())).max() for g in gradient) < 1e-6
        return
    svgp = _svgp(values, theirs(), 1)
    svgp.num_data = N
    for parameter in (svgp.kernel.parameters, svgp.likelihood.parameters, [svgp.inducing_variable.Z]):
        for fixed in parameter:
            gpflow.set_trainable(fixed, False)
    loss = svgp.training_loss_closure((X, Y), compile=True)
    gpflow.optimizers.Scipy().minimize(loss, svgp.trainable_variables, options={"maxiter": 2000})
    assert bound == pytest.approx(-float(loss()), abs=2e-4)
    assert bound >= -float(loss()) - 1e-6  # natural gradients are at least as near


@pytest.mark.parametrize("name", ["bernoulli", "student_t", "robustmax"])
def test_optimal_bound_equals_a_fine_grid_over_the_latent_variable(name):
    rng = np.random.RandomState(4)
    _, likelihood, P = REFERENCE[name]
    X, Y = (tf.constant(a[:5].T) for a in _data(name, rng))
    flat, values = _model(likelihood, P, 1, rng, dim=D + 1)
    values = {key.replace("layer0", "layer1"): value for key, value in values.items()}
    model = DeepGP((LatentLayer(D, 1, "optimal"), *flat.layers), likelihood)
    values["layer0/scale"] = np.asarray(1.0)
    prepared, _ = prepare(model, {key: tf.constant(value) for key, value in values.items()}, 1e-6)
    grid = np.linspace(-8.0, 8.0, 1601)
    w = tf.constant(np.tile(grid[None, :, None], (1, 1, 5)))
    each = expected_log_likelihood(model, prepared, X, Y, tf.zeros((1, 5), tf.float64), [w], 1601).numpy()
    exact = special.logsumexp(each - 0.5 * (grid**2 + math.log(2 * math.pi))[:, None] + math.log(0.01), 0)
    ours = Optimal(model, 1, 64).terms(prepared, X, Y, tf.zeros((1, 5), tf.float64), tf.constant(0))
    np.testing.assert_allclose(ours, exact, atol=1e-4)
