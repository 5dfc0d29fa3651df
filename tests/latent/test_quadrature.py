"""Adaptive nodes against a very fine rule, at noise small and large; what the fixed rule does there."""

import numpy as np
import pytest
import tensorflow as tf
from latent_tools import grid, log_integral

from dgpbench.gp import quadrature


def _function(rng):
    """A smooth random function of w, of the wiggliness of a draw from a GP."""
    a, b, c = rng.randn(6), 2 * rng.rand(6), 6 * rng.rand(6)
    return lambda w: 0.6 * sum(x * np.sin(y * w + z) for x, y, z in zip(a, b, c, strict=True))


def _errors(noise, rule, nodes):
    """Quadrature minus truth for log of the integral of N(y; f(w), noise^2) p(w), one entry per function."""
    rng = np.random.RandomState(0)
    functions = [_function(rng) for _ in range(20)]
    y = np.array([f(rng.randn()) for f in functions])
    log_joint = lambda m, w: -0.5 * ((y - m) / noise) ** 2 - 0.5 * w**2 - 0.5 * np.log(2 * np.pi)  # noqa: E731
    w, step, _ = grid(200_001, 8.0)
    exact = np.array(
        [
            log_integral(
                (-0.5 * ((t - f(w)) / noise) ** 2 - 0.5 * w**2 - 0.5 * np.log(2 * np.pi))[None], step
            )[0]
            for f, t in zip(functions, y, strict=True)
        ]
    )
    if rule == "hermite":
        at, log_weight = quadrature.hermite(nodes, 1)
        values = np.stack([-0.5 * ((t - f(at[0])) / noise) ** 2 for f, t in zip(functions, y, strict=True)])
        return log_integral(values + log_weight, 1.0) - exact
    coarse = quadrature.coarse_grid(nodes)
    mean = tf.constant(np.stack([f(coarse) for f in functions], 1).reshape(1, -1))  # P, Q * C
    place = quadrature.place(mean, tf.zeros_like(mean), lambda m, v, w: log_joint(m[0], w), nodes)
    at, log_weight = (a.numpy() for a in place)
    m = np.stack([f(at[:, i]) for i, f in enumerate(functions)], 1)
    return log_integral((log_joint(m, at) + log_weight).T, 1.0) - exact


@pytest.mark.parametrize(
    "noise, mean, most", [(1.0, 1e-5, 1e-4), (0.3, 2e-4, 1e-3), (0.05, 5e-3, 5e-2), (0.01, 1e-2, 0.1)]
)
def test_adaptive_nodes_follow_the_mass(noise, mean, most):
    error = np.abs(_errors(noise, "adaptive", 64))
    assert error.mean() < mean and error.max() < most
    assert np.abs(_errors(noise, "adaptive", 128)).mean() < 0.5 * error.mean()  # the doubling check sees it


def test_the_fixed_rule_is_no_bound_when_the_noise_is_small():
    error = _errors(0.05, "hermite", 100)
    assert error.max() > 0.3  # above the integral: an optimiser would find this
    assert np.abs(error).mean() > 20 * np.abs(_errors(0.05, "adaptive", 64)).mean()
    assert np.abs(_errors(1.0, "hermite", 100)).max() < 2e-4  # and exact where the integrand is smooth


def test_hermite_in_two_dimensions_integrates_polynomials():
    nodes, log_weight = quadrature.hermite(5, 2)
    assert nodes.shape == (2, 25)
    weight = np.exp(log_weight)
    for f, truth in ((nodes[0] ** 2 * nodes[1] ** 4, 3.0), (nodes[0] ** 6, 15.0), (np.ones(25), 1.0)):
        assert weight @ f == pytest.approx(truth, rel=1e-10)
