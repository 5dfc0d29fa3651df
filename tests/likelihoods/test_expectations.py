"""Variational expectations and densities against dense quadrature, GPflow and finite differences."""

import gpflow
import likelihood_tools as tools
import numpy as np
import pytest
import tensorflow as tf
from scipy import special, stats

from dgpbench.gp.likelihoods.base import log_phi

CLOSED = ("gaussian", "poisson", "gamma")
# largest error of the 20-node rule by variance, relative to 1 + |value|, as measured against the dense rule
ERROR = {1e-10: 1e-12, 1e-4: 1e-12, 0.05: 1e-12, 1.0: 1e-4, 10.0: 1.5e-2}


def _expectations(name, mean, var, y, dtype=tf.float64):
    likelihood, p = tools.make(name)
    columns = [tf.constant(a, dtype) for a in (mean, var, y)]
    return likelihood.variational_expectations(tools.tensors(p, dtype), *columns)


@pytest.mark.parametrize("name", tools.TARGETS)
def test_expectation_equals_dense_quadrature(name):
    mean, var, y = tools.cases(name)
    exact = np.array([tools.expectation(name, *case) for case in zip(mean[0], var[0], y[0], strict=True)])
    ours = _expectations(name, mean, var, y).numpy()
    error = np.abs(ours - exact) / (1.0 + np.abs(exact))
    allowed = np.array([1e-12 if name in CLOSED else ERROR[v] for v in var[0]])
    assert (error <= allowed).all(), (name, error.max())


def _gpflow(name):
    s = tools.SCALE
    return {
        "gaussian": lambda: gpflow.likelihoods.Gaussian(s),
        "bernoulli": gpflow.likelihoods.Bernoulli,
        "bernoulli_logit": lambda: gpflow.likelihoods.Bernoulli(invlink=tf.sigmoid),
        "student_t": lambda: gpflow.likelihoods.StudentT(scale=s, df=3.0),
        "beta": lambda: gpflow.likelihoods.Beta(invlink=tf.sigmoid, scale=s),
        "poisson": gpflow.likelihoods.Poisson,
        "gamma": lambda: gpflow.likelihoods.Gamma(shape=s),
    }[name]()


@pytest.mark.parametrize(
    "name", ["gaussian", "bernoulli", "bernoulli_logit", "student_t", "beta", "poisson", "gamma"]
)
def test_expectation_equals_gpflow(name):
    mean, var, y = tools.cases(name)
    moderate = np.abs(mean[0]) < 10
    mean, var, y = mean[:, moderate], var[:, moderate], y[:, moderate]
    theirs = _gpflow(name).variational_expectations(mean.T[:, :0], mean.T, var.T, y.T).numpy()
    ours = _expectations(name, mean, var, y).numpy()
    # GPflow forms 1 - sigmoid(f), which has lost digits at f = 20
    np.testing.assert_allclose(ours, theirs, rtol=1e-6 if name in ("bernoulli_logit", "beta") else 1e-10)


def test_ordinal_equals_gpflow_without_its_jitter():
    """GPflow has 0.998 (Phi - Phi) + 1e-6 between the edges, and nan in the outermost levels."""
    likelihood, _ = tools.make("ordinal")
    theirs = gpflow.likelihoods.Ordinal(tools.EDGES)
    theirs.sigma.assign(tools.SCALE)
    F, y = np.meshgrid(np.linspace(-2.5, 2.5, 11), np.arange(1.0, 9.0))
    F, y = F.reshape(-1, 1), y.reshape(-1, 1)
    probability = (np.exp(theirs.log_prob(F[:, :0], F, y).numpy()) - 1e-6) / 0.998
    ours = likelihood.log_prob(tools.tensors(tools.make("ordinal")[1]), *map(tf.constant, (F.T, y.T)))
    np.testing.assert_allclose(np.exp(ours.numpy()[0]), probability, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("name", tools.TARGETS)
def test_gradients_equal_finite_differences(name):
    """In mean and variance at moderate and at extreme values, and in every parameter."""
    likelihood, p = tools.make(name)
    mean, var, y = (tf.constant(a) for a in tools.cases(name))
    keep = var.numpy()[0] > 1e-6  # smaller ones below
    mean, var, y = (tf.boolean_mask(a, keep, axis=1) for a in (mean, var, y))
    fixed = {key: tf.constant(value) for key, value in p.items() if key in likelihood.fixed}
    free = {key: tf.constant(value) for key, value in p.items() if key not in likelihood.fixed}

    def value(mean, var, free):
        return likelihood.variational_expectations(free | fixed, mean, var, y).numpy()

    with tf.GradientTape() as tape:
        tape.watch([mean, var])
        each = likelihood.variational_expectations(free | fixed, mean, var, y)
        total = tf.reduce_sum(each)
    d_mean, d_var = tape.gradient(total, [mean, var])
    h = 1e-5
    scale = 1.0 + np.abs(each.numpy())  # rounding of the difference grows with the value
    numeric = (value(mean + h, var, free) - value(mean - h, var, free)) / (2 * h)
    np.testing.assert_allclose(d_mean.numpy()[0] / scale, numeric / scale, rtol=1e-6, atol=1e-7)
    step = h * var.numpy()
    numeric = (value(mean, var + step, free) - value(mean, var - step, free)) / (2 * step[0])
    scale = scale / step[0] * h
    np.testing.assert_allclose(d_var.numpy()[0] / scale, numeric / scale, rtol=1e-6, atol=1e-7)
    for key in free:
        few = np.abs(mean.numpy()[0]) < 10  # beyond, single terms are 1e13 and drown the others
        with tf.GradientTape() as tape:
            tape.watch(free)
            each = likelihood.variational_expectations(free | fixed, mean, var, y)
            part = tf.reduce_sum(tf.boolean_mask(each, few))
        gradient = tape.gradient(part, free)[key]
        up, down = (value(mean, var, free | {key: free[key] + sign * h})[few] for sign in (1, -1))
        assert float(gradient) == pytest.approx((up - down).sum() / (2 * h), rel=1e-5)


@pytest.mark.parametrize("dtype", [tf.float64, tf.float32])
@pytest.mark.parametrize("name", tools.TARGETS)
def test_gradients_at_vanishing_variance_are_derivatives_of_the_log_density(name, dtype):
    """dE/dm -> d log p / df, dE/dv -> half the second derivative; rounding may have made var negative."""
    likelihood, p = tools.make(name)
    y = np.array(tools.TARGETS[name][1:2])
    h, f = 1e-3, 0.37
    log_p = [float(tools.LOG_PROB[name](np.array(f + d), y[0])) for d in (-h, 0.0, h)]
    with tf.GradientTape() as tape:
        mean = tf.constant([[f, f]], dtype)
        var = tf.constant([[-1e-9, 1e-6]], dtype)
        tape.watch([mean, var])
        parameters = tools.tensors(p, dtype)
        each = likelihood.variational_expectations(parameters, mean, var, tf.constant([y.repeat(2)], dtype))
    d_mean, d_var = tape.gradient(each, [mean, var])
    np.testing.assert_allclose(each, log_p[1], rtol=1e-5)
    np.testing.assert_allclose(d_mean[0], (log_p[2] - log_p[0]) / (2 * h), rtol=1e-4)
    second = (log_p[2] - 2 * log_p[1] + log_p[0]) / h**2
    assert float(d_var[0, 1]) == pytest.approx(0.5 * second, rel=1e-3 if dtype == tf.float64 else 0.02)
    assert np.isfinite(d_var.numpy()).all()


@pytest.mark.parametrize("name", tools.TARGETS)
def test_float32_is_near_float64(name):
    mean, var, y = tools.cases(name)
    double, single = (_expectations(name, mean, var, y, dtype).numpy() for dtype in (tf.float64, tf.float32))
    ordinary = (y[0] > 0.01) & (y[0] < 0.99) if name == "beta" else np.full(y.shape[1], True)
    np.testing.assert_allclose(single[ordinary], double[ordinary], rtol=2e-6, atol=2e-6)


def test_expectations_compile_to_the_same_numbers():
    """One XLA function of those with the least common operations: value and gradients."""
    made = {name: tools.make(name) for name in ("beta", "ordinal")}
    data = {name: [tf.constant(a) for a in tools.cases(name)] for name in made}

    def everything(data):
        out = {}
        for name, (likelihood, p) in made.items():
            mean, var, y = data[name]
            with tf.GradientTape() as tape:
                tape.watch([mean, var])
                value = likelihood.variational_expectations(tools.tensors(p), mean, var, y)
            out[name] = (value, *tape.gradient(value, [mean, var]))
        return out

    plain, compiled = everything(data), tf.function(everything, jit_compile=True)(data)
    for name in made:
        for ours, theirs in zip(compiled[name], plain[name], strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("dtype, rtol", [(tf.float64, 1e-13), (tf.float32, 2e-6)])
def test_log_phi(dtype, rtol):
    z = np.concatenate([-np.logspace(3, -2, 400), np.linspace(0.0, 12.0, 50)]).astype(dtype.as_numpy_dtype)
    x = tf.constant(z)
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = log_phi(x)
    exact = special.log_ndtr(z.astype(float))
    np.testing.assert_allclose(value, exact, rtol=rtol, atol=1e-9 if dtype == tf.float64 else 1e-7)
    slope = np.exp(stats.norm.logpdf(z.astype(float)) - exact)
    tolerance = 1e-9 if dtype == tf.float64 else 1e-4
    near = z > -50  # beyond, the difference of two squares is all rounding in float32
    np.testing.assert_allclose(tape.gradient(value, x)[near], slope[near], rtol=tolerance, atol=1e-30)


@pytest.mark.parametrize("name", tools.TARGETS)
def test_log_density_equals_dense_quadrature(name):
    likelihood, p = tools.make(name)
    mean, var, y = tools.cases(name)
    chosen = np.abs(mean[0]) < 10
    mean, var, y = mean[:, chosen], var[:, chosen], y[:, chosen]
    exact = np.array([tools.log_density(name, *case) for case in zip(mean[0], var[0], y[0], strict=True)])
    ours = likelihood.log_density(tools.tensors(p), *map(tf.constant, (mean, var, y))).numpy()
    np.testing.assert_allclose(ours, exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scale, error", [(0.3, 1e-5), (0.1, 1e-3), (0.05, 1e-2)])
def test_density_of_a_likelihood_far_narrower_than_f(scale, error):
    """Where 20 nodes would step over the peak: Student-t against scipy's dense integral."""
    likelihood, _ = tools.make("student_t")
    mean, var, y = np.zeros((1, 5)), np.full((1, 5), 2.0), np.array([[-4.0, -1.0, 0.0, 2.0, 6.0]])
    f, weight = tools.dense(0.0, 2.0, points=400001)
    exact = [np.log(weight @ (stats.t.pdf((v - f) / scale, 3) / scale)) for v in y[0]]
    p = tools.tensors({"scale": np.asarray(scale)})
    ours = likelihood.log_density(p, *map(tf.constant, (mean, var, y))).numpy()
    np.testing.assert_allclose(ours, exact, atol=error)


@pytest.mark.parametrize("name", ["student_t", "beta", "ordinal", "poisson", "gamma"])
def test_draws_have_the_distribution(name):
    """Kolmogorov-Smirnov, or chi-squared for separate values, at one f each."""
    likelihood, p = tools.make(name)
    n, f, s = 20_000, 0.8, tools.SCALE
    draws = likelihood.draw(p, np.full(n, f), np.random.default_rng(0))
    if likelihood.discrete:
        levels = np.arange(10.0)  # the rest is one more bin
        probability = np.exp([float(tools.LOG_PROB[name](np.array(f), y)) for y in levels])
        seen = np.array([(draws == y).sum() for y in levels])
        kept = probability * n > 5
        expected = np.append(probability[kept], 1.0 - probability[kept].sum()) * n
        counts = np.append(seen[kept], n - seen[kept].sum())
        assert stats.chisquare(counts, expected).pvalue > 1e-3
    else:
        m = special.expit(f)
        cdf = {
            "student_t": stats.t(3, f, s).cdf,
            "beta": stats.beta(s * m, s * (1 - m)).cdf,
            "gamma": stats.gamma(s, scale=np.exp(f)).cdf,
        }[name]
        assert stats.kstest(draws, cdf).pvalue > 1e-3
