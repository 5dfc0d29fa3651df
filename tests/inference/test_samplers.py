"""What every sampler must do: in a conjugate model its chain has the posterior; and what a step size and a
minibatch add to it for SGHMC, whose stationary covariance is known there."""

import numpy as np
import pytest
import tensorflow_probability as tfp
import yaml
from inference_tools import data, rbf, trainer_of, whitened_design, whitened_posterior
from scipy.linalg import solve_discrete_lyapunov

from dgpbench.config import compose
from dgpbench.config.classes import create_method, method_class
from dgpbench.config.tree import options
from dgpbench.errors import UserError
from dgpbench.inference.mixing import effective_samples, split_rhat

M, NOISE, BURN_IN = 3, 0.3, 1000
FIXED = ["model=sgp", "inference.hyperparameters=fixed", "precision=float64", f"model.num_inducing={M}"]
FIXED += [f"model.likelihood_variance={NOISE}"]
SGHMC = ["inference=sghmc", "inference.step=0.1", "inference.friction=0.1", f"inference.burn_in={BURN_IN}"]
SGHMC += ["inference.thinning=4", "inference.kept=20000"]
SGPMC = ["inference=sgpmc", "inference.start.steps=60", "inference.burn_in=100", "inference.kept=1500"]
SGPMC += ["inference.chains=1", "inference.precondition=true", "inference.leapfrog=4", "inference.step=0.4"]
SAMPLERS = {  # a new sampler adds its line: its words, steps, and the potential that they sample
    "sghmc, expected": (SGHMC, 31_000, "expected"),
    "sghmc, marginal": ([*SGHMC, "inference.potential=marginal"], 31_000, "marginal"),
    "sgpmc, hmc": ([*SGPMC, "inference.accept=null"], 1660, "expected"),  # a quarter of a period
    "sgpmc, nuts": ([*SGPMC, "inference.sampler=nuts", "inference.depth=3"], 1660, "expected"),
}


def chain_of(words, N, steps, batch=None, seed=0):
    """Kept states (S, M) of v, and the trainer, all but v fixed."""
    X, Y = data(N)
    trainer = trainer_of([*words, *FIXED, f"budget.steps={steps}"], X, Y, batch=batch, seed=seed)
    rows = np.random.RandomState(1).randint(0, N, (steps, batch or 0)).astype(np.int32)
    trainer.run(0, rows)
    return trainer.draws(steps)["layer0/q_mu"][:, 0], trainer


def truth(trainer, N, potential="expected"):
    """Mean and covariance of v: SGPR's q(u), or FITC's posterior; and the design and variances behind it."""
    values, (X, Y) = trainer.values(), data(N)
    A = whitened_design(values, X)
    rest = np.diag(rbf(values, X, X)) - (A**2).sum(0)
    variances = NOISE + (rest if potential == "marginal" else 0.0 * rest)
    return *whitened_posterior(A, Y[:, 0], variances), A, variances


@pytest.mark.slow
@pytest.mark.parametrize("N", [20, 200])
@pytest.mark.parametrize("name", SAMPLERS)
def test_the_chain_has_the_posterior_of_a_conjugate_model(name, N):
    """The expected log recovers SGPR's q(u), the log of the expectation FITC's posterior. A temperature that
    depends on N would show in the variance."""
    words, steps, potential = SAMPLERS[name]
    chain, trainer = chain_of(words, N, steps)
    mean, S, *_ = truth(trainer, N, potential)
    effective = effective_samples(chain[None])
    print(name, N, effective, chain.std(0) / np.sqrt(np.diag(S)))
    assert effective.min() > 1000
    assert np.all(np.abs(chain.mean(0) - mean) < 4 * np.sqrt(np.diag(S) / effective))
    np.testing.assert_allclose(chain.std(0), np.sqrt(np.diag(S)), rtol=0.1)
    correlation = np.corrcoef(chain.T) - S / np.sqrt(np.outer(np.diag(S), np.diag(S)))
    assert np.abs(correlation).max() < 0.1
    assert trainer.facts(steps)["chains"]["effective"] == pytest.approx(effective.min())


def test_no_sampler_goes_without_that_check():
    """Methods that keep samples, and each sampler and potential that they offer."""
    found = set()
    for name, file in options("inference").items():
        kinds = method_class(yaml.safe_load(file.read_text())).fields
        if "kept" in kinds:
            offered = kinds["sampler"] if "sampler" in kinds else kinds["potential"]
            found |= {f"{name}, {kind}" for kind in offered.choices}
    assert found == set(SAMPLERS)


def stationary(S, inverse_mass, N, step, friction, gradient_noise=0.0):
    """Covariance of v under SGHMC's linear recursion: U = v' S^-1 v / 2, noise of grad(U / N) as given."""
    eye, h = np.eye(len(S)), step**2 * np.diag(inverse_mass)
    pull = h @ np.linalg.inv(S) / N
    F = np.block([[(1 - friction) * eye, -pull], [(1 - friction) * eye, eye - pull]])  # (p, v) -> (p, v)
    noise = 2 * friction * h / N + h @ (gradient_noise + 0.0 * eye) @ h
    return solve_discrete_lyapunov(F, np.tile(noise, (2, 2)))[len(S) :, len(S) :]


def test_the_recursion_in_one_dimension_is_the_closed_form():
    """An AR(2) process: 1 / (1 - h c / (4 - 2 friction)) of the posterior's variance, c its curvature."""
    N, h, friction, variance = 50, 0.3, 0.1, 0.04
    found = stationary(np.array([[variance]]), np.array([h]), N, 1.0, friction)
    assert found[0, 0] == pytest.approx(variance / (1 - h / (variance * N) / (4 - 2 * friction)), rel=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("N", [20, 200])
def test_the_bias_of_the_step_size(N):
    """With the scales that burn-in leaves, deviations are too wide by less than 3 % at step 0.1, and by less
    than 0.03 % at the default 0.01."""
    _, trainer = chain_of(SGHMC, N, BURN_IN + 4)
    _, S, *_ = truth(trainer, N)
    inverse_mass = 1 / np.sqrt(trainer.state()["slot/g2/layer0/q_mu"][0])
    for step, bias in ((0.1, 0.03), (0.01, 3e-4)):
        ratio = np.sqrt(np.diag(stationary(S, inverse_mass, N, step, 0.1)) / np.diag(S))
        print(N, step, ratio)
        assert np.all(ratio > 1) and np.all(ratio < 1 + bias)


@pytest.mark.slow
def test_minibatches_widen_the_chain_by_no_more_than_their_noise_explains():
    N, B, steps = 200, 50, 21_000
    chain, trainer = chain_of(SGHMC, N, steps, batch=B)
    mean, S, A, variances = truth(trainer, N)
    _, Y = data(N)
    each = -A * (Y[:, 0] - mean @ A) / variances  # gradient of each row's part, at the posterior mean
    gradient_noise = np.cov(each) / B  # of grad(U / N) = v / N + mean of them
    inverse_mass = 1 / np.sqrt(trainer.state()["slot/g2/layer0/q_mu"][0])
    wide = stationary(S, inverse_mass, N, 0.1, 0.1, gradient_noise=gradient_noise)
    ratio, bound = (np.sqrt(np.diag(C) / np.diag(S)) for C in (np.cov(chain.T), wide))
    print(ratio, bound)
    assert np.all(ratio < 1.1 * bound) and np.all(ratio > 0.9 * bound) and np.all(bound < 2)


@pytest.mark.slow
def test_the_released_noise_has_temperature_one_over_n():
    N = 20
    chain, trainer = chain_of([*SGHMC, "inference.compat=released"], N, 15_000)
    mean, S, *_ = truth(trainer, N)
    np.testing.assert_allclose(chain.std(0) * np.sqrt(N), np.sqrt(np.diag(S)), rtol=0.15)
    assert np.allclose(chain.mean(0), mean, atol=0.5 * np.sqrt(np.diag(S)).max())


@pytest.mark.slow
def test_chains_are_apart_and_the_first_is_that_of_one():
    words = [*SGHMC, "inference.burn_in=20", "inference.kept=10", "inference.thinning=2"]
    one, _ = chain_of(words, 20, 60)
    two, trainer = chain_of([*words, "inference.chains=2"], 20, 60)
    assert two.shape == (20, M) and np.array_equal(one, two[:10])
    assert np.all(np.abs(two[:10] - two[10:]).max(0) > 1e-3)
    assert np.array_equal(one[-1], trainer.oracle.raw["layer0/q_mu"].numpy()[0])  # the oldest comes first
    mixed = trainer.facts(60)["chains"]
    assert mixed["chains"] == 2 and mixed["draws"] == 10
    chains = two.reshape(2, 10, M)
    assert mixed["rhat"] == pytest.approx(split_rhat(chains).max()) and np.isfinite(mixed["effective"])


def test_samples_are_kept_within_a_size():
    X, Y = data(20)
    words = [*SGHMC, *FIXED, "budget.steps=2000", "inference.kept=1000"]
    update = trainer_of(
        [*words, "inference.size_mb=0.001"], X, Y
    ).spec.update  # 1000 bytes: 41 times 3 numbers
    assert update.kept == 41
    assert update.reduced == (
        "1000 samples would take 0.024 MB of the parameters file: the last 41 are kept, as "
        "inference.size_mb=0.001 allows"
    )
    assert not trainer_of(words, X, Y).spec.update.reduced
    with pytest.raises(
        UserError, match="one sample of each chain takes 2.4e-05 MB, more than inference.size_mb=1e"
    ):
        trainer_of([*words, "inference.size_mb=1e-6"], X, Y)
    assert create_method(compose(words)).settings["chains"] == 1


def test_effective_samples_and_rhat_of_known_chains():
    """An AR(1) chain has (1 - a) / (1 + a) effective samples per state; chains apart have a large R-hat."""
    rng, a = np.random.default_rng(0), 0.8
    x = np.zeros((2, 20_000))
    for t in range(1, x.shape[1]):
        x[:, t] = a * x[:, t - 1] + rng.standard_normal(2)
    assert effective_samples(x) == pytest.approx(x.size * (1 - a) / (1 + a), rel=0.15)
    assert split_rhat(x) == pytest.approx(1.0, abs=0.01)
    apart = x + np.array([[0.0], [5.0]]) * x.std()
    m, n = 4, 10_000
    theirs = tfp.mcmc.potential_scale_reduction(
        apart.reshape(m, n).T
    ).numpy()  # (m + 1) / m R^2 - (n - 1) / (m n)
    assert split_rhat(apart) == pytest.approx(np.sqrt((theirs + (n - 1) / (m * n)) * m / (m + 1)), rel=1e-9)
    assert split_rhat(apart) > 2


def test_effective_samples_of_chains_that_swing():
    """a = -0.5 makes n states worth 3 n; where autocorrelations cancel, n log10(n) at most, not below 0."""
    rng, n = np.random.default_rng(0), 20_000
    for a, worth in ((-0.5, 3.0), (-0.99, np.log10(n))):
        x = np.zeros((1, n))
        for t in range(1, n):
            x[:, t] = a * x[:, t - 1] + rng.standard_normal(1)
        assert effective_samples(x) == pytest.approx(worth * n, rel=0.1)
    to_and_fro = np.where(np.arange(1500) % 2, 1.0, -1.0) + 0.01 * rng.standard_normal((1, 1500))
    assert effective_samples(to_and_fro) == pytest.approx(1500 * np.log10(1500), rel=1e-12)
