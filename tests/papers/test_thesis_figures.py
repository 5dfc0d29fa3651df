"""The numbers behind the thesis' figures that need no training, against closed forms and other code."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from scipy.optimize import minimize

from dgpbench.gp.likelihoods import distributions
from dgpbench.papers import figures
from dgpbench.papers.figures import approximation_figures as approximations
from dgpbench.papers.figures import prior_figures as priors


def test_four_kernels_are_gpflows():
    x = np.linspace(-3.0, 3.0, 7)
    theirs = {
        "RBF": gpflow.kernels.SquaredExponential(),
        "Matern 3/2": gpflow.kernels.Matern32(),
        "ArcCosine": gpflow.kernels.ArcCosine(order=1),
        "Quadratic": gpflow.kernels.Polynomial(degree=2.0),
    }
    assert list(theirs) == list(priors.KERNELS)
    for name, kernel in priors.KERNELS.items():
        assert np.allclose(kernel(x, x[:3]), theirs[name](x[:, None], x[:3, None]), atol=1e-7), name


@pytest.mark.parametrize("noise", priors.NOISES)
def test_posteriors_are_exact_regression(noise):
    x = np.array([-2.0, 0.3, 1.0])
    data = priors.X_DATA[:, None], priors.Y_DATA[:, None]
    model = gpflow.models.GPR(data, gpflow.kernels.Matern32(), noise_variance=noise * (1 + 1e-9))
    mean, cov = model.predict_f(x[:, None], full_cov=True)
    ours = priors.posterior(priors.KERNELS["Matern 3/2"], x, noise)
    assert np.allclose(ours[0], mean[:, 0], atol=1e-4) and np.allclose(ours[1], cov[0], atol=1e-4)
    prior = priors.posterior(priors.KERNELS["Quadratic"], x, None)
    rng = np.random.RandomState(0)
    F = np.concatenate([priors.draws(*prior, rng) for _ in range(4000)])
    assert np.allclose(
        F.T @ F / len(F), (np.outer(x, x) + 1) ** 2, atol=0.6
    )  # entries up to 25, se below 0.25


def test_log_densities_are_those_of_the_likelihoods():
    f = np.linspace(-3.0, 3.0, 13)
    made = {
        "Student-t, 3 degrees": (distributions.StudentT(df=3.0), {"scale": 1.0}),
        "Bernoulli": (distributions.BernoulliLogit(), {}),
        "Gamma": (distributions.Gamma(), {"shape": 1.0}),
        "Beta": (distributions.Beta(), {"scale": 1.0}),
        "Ordinal": (distributions.Ordinal(levels=3, low=0.0, high=1.0), {"sigma": 1.0, "edges": [0.0, 1.0]}),
    }
    assert list(made) == list(priors.LIKELIHOODS)
    for name, (density, ys) in priors.LIKELIHOODS.items():
        likelihood, values = made[name]
        p = {key: tf.constant(value, tf.float64) for key, value in values.items()}
        for y in ys:
            theirs = likelihood.log_prob(p, tf.constant(f[None]), tf.constant(np.full((1, 13), y)))
            assert np.allclose(density(f, y), np.reshape(theirs, -1), atol=1e-9), (name, y)


def test_expectations_by_quadrature():
    """E log p(y | f) under N(0, 1): -f - y exp(-f) has -y sqrt(e)."""
    assert priors.expectation(priors.gamma, 2.0, 20) == pytest.approx(-2.0 * np.exp(0.5), abs=1e-9)
    data = figures.make(figures.find("1.4"), []).data
    assert np.isfinite(data.log_density).all() and data.likelihood.nunique() == 5


@pytest.mark.parametrize("identity", [False, True])
def test_points_pass_through_both_layers(identity):
    d = priors.draw(identity, np.random.RandomState(1))
    assert np.allclose(np.interp(d["x"], d["grid"], d["curve1"]), d["f1"], atol=1e-3)
    assert np.allclose(np.interp(d["f1"], d["reach"], d["curve2"]), d["f2"], atol=1e-3)
    two = np.array([0.0, 0.5])
    F = np.array([priors.gp_draw(two, np.random.RandomState(i)) for i in range(6000)])
    assert np.allclose(F.T @ F / len(F), [[1, np.exp(-0.125)], [np.exp(-0.125), 1]], atol=0.06)
    many = [priors.draw(identity, np.random.RandomState(i))["f1"][[0, -1]] for i in range(50)]
    assert np.allclose(np.mean(many, 0), [-2.0, 2.0] if identity else 0.0, atol=0.5)


def test_the_bound_and_its_gradients():
    """The bound by Monte Carlo, gradients by differences, a natural path in two systems, the top by BFGS."""
    m, s = 0.4, 0.7
    rng, n = np.random.RandomState(0), 400_000
    a = np.exp(-0.5 * (approximations.X - approximations.Z) ** 2)
    f = a * (m + s * rng.randn(n, 1)) + np.sqrt(1 - a**2) * rng.randn(n, len(a))
    from scipy.stats import norm

    terms = norm.logcdf(approximations.LABELS * f).sum(1)
    expected = terms.mean() - 0.5 * (m**2 + s**2 - 1) + np.log(s)
    assert approximations.bound(m, s) == pytest.approx(expected, abs=4 * terms.std() / np.sqrt(n))
    h = 1e-5
    differences = [
        (approximations.bound(m + h, s) - approximations.bound(m - h, s)) / (2 * h),
        (approximations.bound(m, s + h) - approximations.bound(m, s - h)) / (2 * h),
    ]
    assert np.allclose(approximations.gradient(np.array([m, s])), differences, atol=1e-7)
    plain, natural = approximations.SYSTEMS
    c = natural.back(np.array([m, s]))
    assert np.allclose(natural.to(c), [m, s])
    numeric = np.stack([(natural.to(c + e) - natural.to(c - e)) / (2 * h) for e in h * np.eye(2)], 1)
    assert np.allclose(natural.jacobian(c), numeric, atol=1e-7)
    assert np.allclose(
        approximations.path(plain, True, 3.0), approximations.path(natural, True, 3.0), atol=1e-3
    )
    assert not np.allclose(
        approximations.path(plain, False, 1.0), approximations.path(natural, False, 1.0), atol=0.1
    )
    top = minimize(lambda p: -approximations.bound(p[0], np.exp(p[1])), [0.0, 0.0]).x
    assert np.allclose(approximations.path(plain, True, 20.0)[-1], [top[0], np.exp(top[1])], atol=1e-3)


def test_a_natural_step_of_one_solves_the_conjugate_part():
    """In natural parameters the direction is dL / d(m, m^2 + s^2), (3.12): by differences in those."""
    _, natural = approximations.SYSTEMS
    p, h = np.array([0.4, 0.7]), 1e-5
    eta = np.array([p[0], p[0] ** 2 + p[1] ** 2])
    bound = lambda e: approximations.bound(e[0], np.sqrt(e[1] - e[0] ** 2))  # noqa: E731
    expected = [(bound(eta + e) - bound(eta - e)) / (2 * h) for e in h * np.eye(2)]
    assert np.allclose(approximations.direction(natural, natural.back(p), True), expected, atol=1e-6)


def test_points_lie_on_the_surface():
    at, inputs, f, y = priors.sample(np.random.RandomState(0), grid=25, points=20)
    line = np.linspace(-priors.SURFACE_RANGE, priors.SURFACE_RANGE, 25)
    middle = f.reshape(25, 25)[:, 12]  # w = 0
    K = lambda a, b: np.exp(-0.5 * (a[:, None] - b) ** 2)  # noqa: E731
    expected = K(inputs[0, :, 0], line) @ np.linalg.solve(K(line, line) + 1e-9 * np.eye(25), middle)
    assert np.all(inputs[0, :, 1] == 0) and np.allclose(y[0], expected, atol=1e-2)
    assert np.allclose(inputs[2, :, 1] * priors.SDS[1], inputs[1, :, 1])
    spread = np.array([priors.sample(np.random.RandomState(i), grid=3, points=2)[3] for i in range(1500)])
    assert np.allclose(spread.var(0), 1.0, atol=0.15)


@pytest.mark.parametrize("name", ["1.1", "1.3", "2.1", "2.3", "3.1", "4.2"])
def test_they_are_drawn(name):
    picture = figures.make(figures.find(name), [])
    assert np.isfinite(picture.data.select_dtypes(float).to_numpy()).all()
    assert picture.image("png", dpi=40)[:4] == b"\x89PNG"
