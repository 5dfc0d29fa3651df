"""Power EP: its limits, its order in alpha, closed form on copies of a point, likelihoods, bias."""

import numpy as np
import pytest
import tensorflow as tf
from inference_tools import (
    JITTER,
    best_bound,
    columns,
    data,
    model_of,
    rbf,
    tensors,
    whitened_design,
    whitened_posterior,
)
from scipy import integrate, special, stats

from dgpbench.config import compose
from dgpbench.errors import UserError
from dgpbench.gp.likelihoods import LIKELIHOODS
from dgpbench.inference.alpha import PowerEP
from dgpbench.inference.bounds import VI
from dgpbench.inference.gradients import lower_bound


def _deep(N=15, P=1):
    X, Y = data(N, D=2, P=P)
    return X, Y, *model_of(compose(["inference=fast", "model=dgp2", "model.num_inducing=5"]), X, Y)[:2]


def _value(bound, values, X, Y, noise, num_data=None):
    return float(
        lower_bound(bound, tensors(bound, values), *columns(X, Y), noise, num_data=num_data or len(X))
    )


@pytest.mark.parametrize("tied", [True, False])
def test_small_alpha_is_the_variational_bound(tied):
    """On the same noise; what is left is proportional to alpha."""
    X, Y, model, values = _deep()
    noise = tf.constant(np.random.RandomState(1).randn(model.noise_dim, 4 * len(X)))
    vi = _value(VI(model, 4), values, X, Y, noise)
    gaps = [_value(PowerEP(model, 4, a, tied), values, X, Y, noise) - vi for a in (1e-2, 1e-3, 1e-4)]
    assert gaps[2] == pytest.approx(0.0, abs=1e-3 * abs(vi))
    assert gaps[0] / gaps[1] == pytest.approx(10.0, rel=0.1) and gaps[1] / gaps[2] == pytest.approx(
        10, rel=0.1
    )


def test_the_simplified_objective_grows_with_alpha():
    X, Y, model, values = _deep()
    noise = tf.constant(np.random.RandomState(2).randn(model.noise_dim, 10 * len(X)))
    found = [_value(PowerEP(model, 10, a, False), values, X, Y, noise) for a in np.linspace(0.05, 1.0, 8)]
    assert np.all(np.diff(found) > 0)


@pytest.mark.parametrize("alpha", [0.3, 0.5, 1.0])
def test_copies_of_one_point_have_the_closed_form_of_power_ep(alpha):
    """N copies make tied factors exact. At q(u) of the closed form the gradient vanishes, and the energy is
    log N(y; 0, Q + alpha diag(K - Q) + s2) - (1 - alpha) / (2 alpha) sum log(1 + alpha (k - q) / s2): FITC's
    evidence at alpha = 1."""
    N, s2 = 12, 0.1
    X, Y = np.full((N, 1), 0.4), np.full((N, 1), 0.9)
    cfg = compose(["inference=fast", "model=sgp", "model.num_inducing=2", "model.lengthscale=0.7"])
    model, values, _ = model_of(cfg, data(9)[0], data(9)[1])
    A, k = whitened_design(values, X), np.diag(rbf(values, X, X))
    d = k - (A**2).sum(0)
    assert d.min() > 0.01  # not determined by the inducing points
    mean, S = whitened_posterior(A, Y[:, 0], alpha * d + s2)
    values |= {"layer0/q_mu": mean[None], "layer0/q_sqrt": np.linalg.cholesky(S)[None]}
    bound = PowerEP(model, 1, alpha)
    raw = tensors(bound, values)
    with tf.GradientTape() as tape:
        tape.watch(raw)
        energy = lower_bound(bound, raw, *columns(X, Y), tf.zeros((1, N), tf.float64), num_data=N)
    gradient = tape.gradient(energy, [raw["layer0/q_mu"], raw["layer0/q_sqrt"]])
    covariance = A.T @ A + np.diag(alpha * d + s2)
    exact = stats.multivariate_normal(np.zeros(N), covariance).logpdf(Y[:, 0])
    exact -= (1 - alpha) / (2 * alpha) * np.log1p(alpha * d / s2).sum()
    assert float(energy) == pytest.approx(exact, abs=1e-7)
    assert max(np.abs(g.numpy()).max() for g in gradient) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("alpha, least, most", [(0.01, 0.0, 0.05), (0.5, 0.1, 1.0), (1.0, 0.2, 2.0)])
def test_tied_and_untied_factors_differ_on_general_data(alpha, least, most):
    """One layer, ten points, three inducing points: the best tied energy against the closed form of power EP
    with a factor for each point. They agree as alpha goes to 0, where both are the variational bound."""
    s2 = 0.1
    X, Y = data(10)
    cfg = compose(["inference=fast", "model=sgp", "model.num_inducing=3", "model.lengthscale=0.7"])
    model, values, _ = model_of(cfg, X, Y)
    A, k = whitened_design(values, X), np.diag(rbf(values, X, X))
    d = k - (A**2).sum(0)
    untied = stats.multivariate_normal(np.zeros(10), A.T @ A + np.diag(alpha * d + s2)).logpdf(Y[:, 0])
    untied -= (1 - alpha) / (2 * alpha) * np.log1p(alpha * d / s2).sum()
    gap = best_bound(PowerEP(model, 1, alpha), values, X, Y, ("/q_",)) - untied
    print(f"alpha {alpha:g}: untied {untied:.3f}, tied {gap:+.3f} nats from it")
    assert least < abs(gap) < most


def test_the_cavity_against_its_definition():
    """Natural parameters of q minus alpha / N of those of its factors, by inverses."""
    X, Y, model, values = _deep()
    from dgpbench.inference.base import Numerics

    bound, N, alpha = PowerEP(model, 2, 0.7), 15.0, 0.7
    held = {name: tf.constant(v) for name, v in values.items()}
    cavities = bound.posterior(held, Numerics(JITTER, num_data=tf.constant(N, tf.float64)))
    for i in model.gps:
        for p, (m, L) in enumerate(zip(*(values[n] for n in model.parameter_names(i)), strict=True)):
            precision = np.linalg.inv(L @ L.T)
            cavity = np.linalg.inv(precision - alpha / N * (precision - np.eye(len(m))))
            np.testing.assert_allclose(cavities[i].excess[p] + np.eye(len(m)), cavity, atol=1e-10)
            mean = cavity @ (precision @ m * (1 - alpha / N))
            np.testing.assert_allclose(cavities[i].mean[p], mean, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LIKELIHOODS if name not in ("robustmax", "softmax")])
@pytest.mark.parametrize("alpha", [pytest.param(0.1, marks=pytest.mark.long), 1.0])
def test_the_integral_of_a_power_and_its_gradient_by_quadrature(name, alpha):
    likelihood = LIKELIHOODS[name]()
    whole = {"bernoulli": 1.0, "bernoulli_logit": 1.0, "poisson": 3.0, "ordinal": 1.0}
    y = (whole | {"beta": 0.3, "gamma": 1.7}).get(name, 0.8)
    p = {n: tf.constant(v) for n, v in likelihood.initial().items()}

    def reference(mean, var):
        def integrand(f):
            F = tf.constant([[f]], tf.float64)
            if name == "gaussian":
                log_p = stats.norm(f, 0.1).logpdf(y)
            else:
                log_p = float(likelihood.log_prob(p, F, tf.constant([[y]], tf.float64))[0, 0])
            return np.exp(alpha * log_p) * stats.norm(mean, np.sqrt(var)).pdf(f)

        ends = mean - 9 * np.sqrt(var), mean + 9 * np.sqrt(var)
        return np.log(integrate.quad(integrand, *ends, points=[mean, y], limit=200)[0])

    mean, var = tf.constant([[0.4]], tf.float64), tf.constant([[0.6]], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch([mean, var])
        value = likelihood.log_power(p, mean, var, tf.constant([[y]], tf.float64), alpha)
    slopes = tape.gradient(value, [mean, var])
    assert float(value[0]) == pytest.approx(reference(0.4, 0.6), abs=1e-5)
    h = 1e-4
    by_mean = (reference(0.4 + h, 0.6) - reference(0.4 - h, 0.6)) / (2 * h)
    by_variance = (reference(0.4, 0.6 + h) - reference(0.4, 0.6 - h)) / (2 * h)
    assert float(slopes[0][0, 0]) == pytest.approx(by_mean, abs=1e-4)
    assert float(slopes[1][0, 0]) == pytest.approx(by_variance, abs=1e-4)


@pytest.mark.parametrize("name", ["robustmax", "softmax"])
def test_classes_against_sampling(name):
    likelihood, alpha = LIKELIHOODS[name](classes=3), 0.4
    rng = np.random.RandomState(0)
    mean, var, y = rng.randn(3, 1), np.array([[0.5], [1.0], [0.2]]), 1
    F = mean + np.sqrt(var) * rng.randn(3, 400_000)
    if name == "softmax":
        each = special.log_softmax(F, 0)[y]
        noise = tf.constant(rng.randn(3, 400_000))
        wide = [tf.constant(np.tile(a, (1, 400_000))) for a in (mean, var)]
        ours = likelihood.log_power({}, *wide, tf.ones((1, 400_000), tf.float64), alpha, noise)
        found = special.logsumexp(ours.numpy()) - np.log(400_000)
    else:
        each = np.where(F.argmax(0) == y, np.log(1 - 1e-3), np.log(1e-3 / 2))
        Y = tf.constant([[1.0]], tf.float64)
        found = float(likelihood.log_power({}, tf.constant(mean), tf.constant(var), Y, alpha)[0])
    powers = np.exp(alpha * each)
    error = powers.std() / powers.mean() / np.sqrt(len(powers))
    assert found == pytest.approx(np.log(powers.mean()), abs=5 * error + 2e-3)


@pytest.mark.slow
def test_few_samples_bias_the_objective_downwards():
    """Mean over draws of the noise with 1, 10 and 100 samples, against 3000: the logarithm acts inside."""
    X, Y = data(15, D=2)
    cfg = compose(["inference=fast", "model=dgp2", "model.num_inducing=5"])
    model, values, _ = model_of(cfg, X, Y, noise=0.1, spread=2.0)
    rng = np.random.RandomState(3)

    def estimate(samples, repeats):
        bound = PowerEP(model, samples, 1.0)
        shape = (model.noise_dim, samples * len(X))
        found = [_value(bound, values, X, Y, tf.constant(rng.randn(*shape))) for _ in range(repeats)]
        return np.mean(found), np.std(found) / np.sqrt(repeats)

    limit, error = estimate(3000, 4)
    found = {samples: estimate(samples, repeats) for samples, repeats in ((1, 60), (10, 60), (100, 30))}
    gaps = {samples: limit - mean for samples, (mean, _) in found.items()}
    print("nats below the limit:", {samples: round(gap, 3) for samples, gap in gaps.items()})
    assert gaps[1] > 5 * gaps[10] > 0 and gaps[10] > 3 * gaps[100]
    assert gaps[10] > 5 * found[10][1] and gaps[100] > -3 * (found[100][1] + error)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words, says",
    [
        (["model=dgp2", "inference.samples=1"], "use at least 10"),
        (["model=lv_gp"], "latent variables"),
        (["model=dgp2", "precision=float32"], "precision=mixed or float64"),
        (["model=dgp2", "inference.alpha=0"], "at least 0.0001 and at most 1"),
        (["model=dgp2", "inference.alpha=1.5"], "at most 1"),
        (["model=dgp2", "inference.importance_samples=5"], "importance_samples"),
        (["model=sgp", "model.output_gps=1"], "output_gps"),
    ],
)
def test_a_config_that_does_not_fit_is_refused_in_one_line(words, says):
    with pytest.raises(UserError, match=says) as error:
        compose(["inference=alpha", *words])
    assert "\n" not in str(error.value)
