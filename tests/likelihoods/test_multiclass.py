"""Robust-max and softmax: expectations and class probabilities against GPflow, quadrature and Monte Carlo."""

import gpflow
import likelihood_tools as tools
import numpy as np
import pytest
import tensorflow as tf
from scipy import special, stats

from dgpbench.gp.likelihoods import LIKELIHOODS

C, B = 4, 30


def _columns(seed=0, spread=2.0):
    rng = np.random.RandomState(seed)
    mean, var = spread * rng.randn(C, B), np.exp(rng.uniform(-2.0, 1.0, (C, B)))
    return mean, var, rng.randint(0, C, (1, B)).astype(float)


def test_robustmax_equals_gpflow():
    mean, var, y = _columns()
    theirs = gpflow.likelihoods.MultiClass(C)
    likelihood = LIKELIHOODS["robustmax"](classes=C)
    X = mean.T[:, :0]
    expected = theirs.variational_expectations(X, mean.T, var.T, y.T.astype(int)).numpy()
    ours = likelihood.variational_expectations({}, *map(tf.constant, (mean, var, y)))
    np.testing.assert_allclose(ours, expected, rtol=1e-10)
    probs = theirs.predict_mean_and_var(X, mean.T, var.T)[0].numpy().T
    np.testing.assert_allclose(likelihood.probs({}, tf.constant(mean), tf.constant(var)), probs, atol=2e-3)


@pytest.mark.parametrize("classes", [2, 4, 10])
def test_robustmax_expectation_equals_dense_quadrature(classes):
    rng = np.random.RandomState(1)
    mean, var = rng.randn(classes, B), np.exp(rng.uniform(-1.5, 1.0, (classes, B)))
    y = rng.randint(0, classes, B)
    exact = []
    for b in range(B):
        f, weight = tools.dense(mean[y[b], b], var[y[b], b])
        others = [c for c in range(classes) if c != y[b]]
        below = stats.norm.cdf((f[:, None] - mean[others, b]) / np.sqrt(var[others, b])).prod(1)
        largest = weight @ below
        exact.append(largest * np.log(1 - 1e-3) + (1 - largest) * np.log(1e-3 / (classes - 1)))
    likelihood = LIKELIHOODS["robustmax"](classes=classes)
    columns = [tf.constant(a) for a in (mean, var, y[None].astype(float))]
    ours = likelihood.variational_expectations({}, *columns)
    np.testing.assert_allclose(ours, exact, atol=0.02)  # 2e-3 in the probability, variances up to 12-fold
    largest = likelihood.prob_is_largest(*columns[:2], likelihood.one_hot(columns[2], tf.float64), nodes=150)
    hit, miss = np.log(1 - 1e-3), np.log(1e-3 / (classes - 1))
    np.testing.assert_allclose(miss + (hit - miss) * largest, exact, atol=2e-4)  # what the nodes converge to


@pytest.mark.parametrize("name", ["robustmax", "softmax"])
def test_class_probabilities_sum_to_one_and_match_monte_carlo(name):
    mean, var, _ = _columns(2, spread=1.0)
    likelihood = LIKELIHOODS[name](classes=C)
    rng = np.random.RandomState(3)
    n = 40_000
    F = mean + np.sqrt(var) * rng.randn(n, C, B)
    if name == "robustmax":
        each = np.where(F == F.max(1, keepdims=True), 1 - 1e-3, 1e-3 / (C - 1))
        ours = likelihood.probs({}, tf.constant(mean), tf.constant(var)).numpy()
        allowed = 2e-3  # of the quadrature
    else:
        each = special.softmax(F, 1)
        noise = tf.constant(rng.randn(C, n // 10, B))
        shaped = (tf.constant(a[:, None] + np.zeros((1, n // 10, 1))) for a in (mean, var))
        pairs = likelihood.probs({}, *shaped, noise).numpy()
        ours, allowed = pairs.mean(1), 4 * pairs.std(1) / np.sqrt(n / 10)
    np.testing.assert_allclose(ours.sum(0), 1.0, atol=1e-12)
    se = each.std(0) / np.sqrt(n)
    assert (np.abs(ours - each.mean(0)) < 4.5 * se + allowed).all()  # 120 comparisons


def test_certain_classes_stay_finite():
    """Means far apart, tiny variances: hit and miss cost what they should, gradients are finite."""
    likelihood = LIKELIHOODS["robustmax"](classes=3)
    for dtype in (tf.float64, tf.float32):
        mean = tf.constant([[200.0, 200.0], [-200.0, -200.0], [0.0, 0.0]], dtype)
        var, y = tf.constant(np.full((3, 2), 1e-12), dtype), tf.constant([[0.0, 1.0]], dtype)
        with tf.GradientTape() as tape:
            tape.watch([mean, var])
            value = likelihood.variational_expectations({}, mean, var, y)
        np.testing.assert_allclose(value, [np.log(1 - 1e-3), np.log(1e-3 / 2)], atol=5e-5)  # 1e-6 squash
        assert all(np.isfinite(g.numpy()).all() for g in tape.gradient(value, [mean, var]))


def test_softmax_value_and_gradient_are_unbiased():
    """With two classes the expectation is that of the logistic function of one Gaussian: dense quadrature."""
    n = 100_000
    mean, var = np.array([[0.7], [-0.4]]), np.array([[1.5], [0.6]])

    def exact(m, v):
        f, weight = tools.dense(m[1, 0] - m[0, 0], v.sum())
        return weight @ special.log_expit(f)

    likelihood = LIKELIHOODS["softmax"](classes=2)
    noise = tf.constant(np.random.RandomState(0).randn(2, n))
    m, v = (tf.Variable(np.repeat(a, n, 1)) for a in (mean, var))
    with tf.GradientTape() as tape:
        each = likelihood.variational_expectations({}, m, v, tf.ones((1, n), tf.float64), noise)
    d_mean, d_var = (g.numpy() for g in tape.gradient(each, [m, v]))
    within = lambda a, b: abs(a.mean() - b) < 4 * a.std() / np.sqrt(n) + 1e-6  # noqa: E731
    assert within(each.numpy(), exact(mean, var))
    h = 1e-4
    for c in range(2):
        unit = np.eye(2)[:, c : c + 1] * h
        assert within(d_mean[c], (exact(mean + unit, var) - exact(mean - unit, var)) / (2 * h))
        assert within(d_var[c], (exact(mean, var + unit) - exact(mean, var - unit)) / (2 * h))
    assert (d_var <= 0).all()  # what natural-gradient steps rely on
