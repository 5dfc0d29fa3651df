"""Variational MCMC: its density against GPflow's, its chains against closed forms and grids."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from inference_tools import columns, data, rbf, tensors, trainer_of, whitened_design, whitened_posterior

from dgpbench.config import compose
from dgpbench.engine.trainer import Trainer
from dgpbench.errors import UserError
from dgpbench.gp.likelihoods.distributions import Poisson
from dgpbench.gp.parameters import unconstrain
from dgpbench.inference.gradients import lower_bound
from dgpbench.inference.hyperpriors import log_prior
from dgpbench.inference.mixing import effective_samples, split_rhat
from dgpbench.models.gp import GPModel

PRIORS = [
    "model.priors.lengthscale=[gamma,2.0,1.5]",
    "model.priors.kernel_variance=[lognormal,0.3,0.7]",
    "model.priors.likelihood_variance=[inverse_gamma,3.0,0.5]",
]


def _words(M, *more, start=50, burn_in=20, steps=200):
    chain = [f"inference.start.steps={start}", f"inference.burn_in={burn_in}", f"budget.steps={steps}"]
    return ["model=sgp", "inference=sgpmc", f"model.num_inducing={M}", "precision=float64", *chain, *more]


def _density(bound, values, X, Y):
    """Ours at constrained values."""
    Xc, Yc = columns(X, Y)
    return float(
        lower_bound(
            bound, tensors(bound, values), Xc, Yc, tf.zeros((0, len(X))), num_data=len(X), jitter=1e-6
        )
    )


def _theirs(kind, values, X, Y, likelihood, priors, **inducing):
    """GPflow's model at the same values, hyperparameters in log space."""
    import gpflow
    import tensorflow_probability as tfp

    exp = tfp.bijectors.Exp()
    kernel = gpflow.kernels.SquaredExponential()
    own = "layer0/kernel/rbf/"
    parts = {"lengthscales": values[own + "lengthscales"], "variance": values[own + "variance"]}
    for name, value in parts.items():
        setattr(kernel, name, gpflow.Parameter(value, transform=exp, prior=priors.get(name)))
    if "likelihood/variance" in values:
        noise = gpflow.Parameter(values["likelihood/variance"], transform=exp, prior=priors["noise"])
        likelihood.variance = noise
    model = getattr(gpflow.models, kind)((X, Y), kernel, likelihood, **inducing)
    model.V.assign(values["layer0/q_mu"].T)
    return model


def _in_logs(model):
    """GPflow's log_posterior_density, a density of theta, as one of log theta."""
    scales = [p for p in model.trainable_parameters if p.prior is not None and p is not model.V]
    return float(model.log_posterior_density()) + sum(float(np.log(p.numpy()).sum()) for p in scales)


def _random(trainer, seed=0):
    rng = np.random.RandomState(seed)
    values = {name: v for name, v in trainer.values().items() if name != "jitter"}
    return values | {
        "layer0/q_mu": rng.randn(*values["layer0/q_mu"].shape),
        "layer0/kernel/rbf/lengthscales": np.array([0.8]),
        "layer0/kernel/rbf/variance": np.asarray(1.7),
    }


def _their_priors():
    from tensorflow_probability import distributions as d

    f = lambda *numbers: [np.float64(x) for x in numbers]  # noqa: E731
    noise = d.InverseGamma(*f(3, 0.5))
    return {"lengthscales": d.Gamma(*f(2, 1.5)), "variance": d.LogNormal(*f(0.3, 0.7)), "noise": noise}


def test_density_is_that_of_gpflow():
    """log p(theta) with its Jacobian, log N(v; 0, I) and the expected log-likelihood: SGPMC's."""
    import gpflow

    X, Y = data(15)
    trainer = trainer_of(_words(4, *PRIORS), X, Y)
    values = _random(trainer)
    likelihood = gpflow.likelihoods.Gaussian()
    Z = values["layer0/Z"]
    theirs = _theirs("SGPMC", values, X, Y, likelihood, _their_priors(), inducing_variable=Z)
    assert _density(trainer.spec.bound, values, X, Y) == pytest.approx(_in_logs(theirs), abs=1e-8)


@pytest.mark.slow
def test_density_of_the_compiled_trajectory_is_that_of_gpflow():
    """As chains ask for it, in one program of XLA: the value to 1e-8, the slope by GPflow's own gradient."""
    import gpflow

    X, Y = data(15)
    trainer = trainer_of(_words(4, *PRIORS), X, Y)
    trainer = Trainer(replace(trainer.spec, xla=True))
    bound, values = trainer.spec.bound, _random(trainer_of(_words(4, *PRIORS), X, Y))
    raw = unconstrain(values, bound.constraints())
    trainer.reset(
        raw, dict.fromkeys(trainer.oracle.rates, 0.1), seed=0, num_data=15, jitter=1e-6, data=(X, Y)
    )
    oracle, names = trainer.oracle, ["layer0/q_mu", *(name for name, _ in bound.priors)]
    assert trainer.spec.forms == ("point",)
    density = oracle.fused(lambda oracle, batch: oracle(batch, names)[:2])
    value, slopes = density(oracle.full_batch(tf.constant(0))._replace(rows=None))
    Z = values["layer0/Z"]
    theirs = _theirs(
        "SGPMC", values, X, Y, gpflow.likelihoods.Gaussian(), _their_priors(), inducing_variable=Z
    )
    assert float(value) == pytest.approx(_in_logs(theirs), abs=1e-8)
    own = (theirs.V, theirs.kernel.lengthscales, theirs.kernel.variance, theirs.likelihood.variance)
    with tf.GradientTape() as tape:
        density = theirs.log_posterior_density()
        for p in own[1:]:
            density += tf.reduce_sum(p.unconstrained_variable)  # the Jacobian of a density of log theta
    for name, slope in zip(
        names, tape.gradient(density, [p.unconstrained_variable for p in own]), strict=True
    ):
        np.testing.assert_allclose(np.ravel(slopes[name]), np.ravel(slope), rtol=1e-6, atol=1e-7)


def test_density_at_inducing_points_on_the_data_is_that_of_gpmc():
    """Z = X: the full model's density, up to the jitter's share."""
    import gpflow

    X = np.linspace(-2, 2, 6)[:, None]
    Y = np.array([[0.0, 1.0, 3.0, 2.0, 5.0, 1.0]]).T
    trainer = trainer_of(_words(6, *PRIORS[:2]), X, Y)
    values = _random(trainer) | {"layer0/Z": X, "layer0/kernel/rbf/lengthscales": np.array([0.5])}
    del values["likelihood/variance"]
    bound = trainer.spec.bound
    bound = replace(bound, model=replace(bound.model, likelihood=Poisson()))
    theirs = _theirs("GPMC", values, X, Y, gpflow.likelihoods.Poisson(), _their_priors())
    assert _density(bound, values, X, Y) == pytest.approx(_in_logs(theirs), abs=1e-4)


@pytest.mark.parametrize(
    "prior",
    [
        ("gamma", (1.1, 0.1)),
        ("inverse_gamma", (3.0, 2.0)),
        ("lognormal", (0.3, 2.0)),
        ("half_normal", (0.4,)),
    ],
)
def test_priors_of_log_theta_are_those_of_scipy(prior):
    from scipy import stats

    family, a = prior
    theirs = {
        "gamma": lambda: stats.gamma(a[0], scale=1 / a[1]),
        "inverse_gamma": lambda: stats.invgamma(a[0], scale=a[1]),
        "lognormal": lambda: stats.lognorm(a[1], scale=np.exp(a[0])),
        "half_normal": lambda: stats.halfnorm(scale=a[0]),
    }[family]()
    t = np.array([-1.3, 0.2])
    exact = (theirs.logpdf(np.exp(t)) + t).sum()
    assert float(log_prior(prior, tf.constant(t))) == pytest.approx(exact, rel=1e-12)


def _run(words, X, Y, steps, values=None, fixed=None):
    trainer = trainer_of(words, X, Y, values, fixed)
    trainer.run(0, np.zeros((steps, 0), np.int32))
    return trainer


def _compiled(words, X, Y):
    """A trainer whose trajectories are programs of XLA, as those of runs are."""
    plain = trainer_of(words, X, Y)
    trainer = Trainer(replace(plain.spec, xla=True))
    oracle = plain.oracle
    raw, rates = ({name: v.numpy() for name, v in named.items()} for named in (oracle.raw, oracle.rates))
    trainer.reset(raw, rates, seed=0, num_data=len(X), jitter=1e-6, data=(X, Y))
    return trainer


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["hmc", "nuts"])
def test_chains_resume_to_the_bit_and_keep_what_they_say(sampler):
    X, Y = data(12)
    more = [f"inference.sampler={sampler}", "inference.depth=3", "inference.leapfrog=3", "inference.kept=5"]
    words = _words(3, *PRIORS, *more, start=5, burn_in=4, steps=30)
    trainer = trainer_of(words, X, Y)
    first, rows = trainer.state(), np.zeros((30, 0), np.int32)
    trainer.run(0, rows[:4])
    trainer.run(4, rows[4:7])
    kept = trainer.state()
    trainer.run(7, rows[7:20])
    whole, draws = trainer.state(), trainer.draws(20)
    trainer.restore(first)
    trainer.restore(kept)
    for a, b in ((7, 8), (8, 13), (13, 20)):
        trainer.run(a, rows[a:b])
    again = trainer.state()
    assert all(np.array_equal(v, again[name]) for name, v in whole.items())
    assert draws["layer0/q_mu"].shape == (10, 1, 3) and draws["layer0/kernel/rbf/variance"].shape == (10,)
    assert np.unique(draws["layer0/kernel/rbf/lengthscales"]).size > 2
    assert set(trainer.draws(11)) and trainer.draws(11)["layer0/q_mu"].shape[0] == 4 and not trainer.draws(9)
    facts = trainer.facts(20)["chains"]
    assert facts["chains"] == 2 and facts["draws"] == 5 and 0 < facts["accepted"] <= 1


@pytest.mark.slow
@pytest.mark.parametrize("N", [20, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.parametrize("sampler", ["hmc", "nuts"])
def test_chains_have_the_posterior_of_a_conjugate_model(sampler, N):
    """Gaussian noise, hyperparameters fixed: SGPR's q(u). Leapfrog steps have no bias: proposals are accepted
    by their density."""
    X, Y = data(N)
    more = ["inference.hyperparameters=fixed", "model.likelihood_variance=0.3", "inference.kept=700"]
    more += [f"inference.sampler={sampler}", "inference.leapfrog=4", "inference.step=0.4"]
    words = _words(3, *more, "inference.precondition=true", start=60, burn_in=100, steps=860)
    trainer = _compiled(words, X, Y)
    trainer.run(0, np.zeros((860, 0), np.int32))
    values, chain = trainer.values(), trainer.draws(860)["layer0/q_mu"][:, 0]
    A = whitened_design(values, X)
    mean, S = whitened_posterior(A, Y[:, 0], 0.3 * np.ones(len(X)))
    np.testing.assert_allclose(values["layer0/q_mu"][0], mean, atol=1e-6)  # the fit is exact here
    effective = effective_samples(chain.reshape(2, -1, 3))
    assert effective.min() > 1000 and split_rhat(chain.reshape(2, -1, 3)).max() < 1.02
    assert np.all(np.abs(chain.mean(0) - mean) < 4 * np.sqrt(np.diag(S) / effective))
    np.testing.assert_allclose(chain.std(0), np.sqrt(np.diag(S)), rtol=0.1)


@pytest.mark.slow
def test_marginal_of_hyperparameters_against_a_grid_of_the_collapsed_bound():
    """Gaussian noise: q(theta) is proportional to prior times exp(SGPR's bound)."""
    from scipy import stats

    X, Y = data(20)
    noise = {"likelihood/variance": np.asarray(0.3)}
    more = [*PRIORS[:2], "inference.start.inducing=fixed", "inference.kept=600", "inference.leapfrog=8"]
    words = _words(4, *more, start=100, burn_in=100, steps=800)
    trainer = _run(words, X, Y, 800, noise, {"likelihood/variance", "layer0/Z"})
    values, draws = trainer.values(), trainer.draws(800)
    names = ["layer0/kernel/rbf/lengthscales", "layer0/kernel/rbf/variance"]
    chain = np.log(np.stack([draws[name].reshape(2, -1) for name in names], -1))  # C, S, 2
    axes = np.linspace(-2.2, 2.2, 41), np.linspace(-2.5, 3.5, 41)
    log_p = np.empty((41, 41))
    for i, a in enumerate(axes[0]):
        for j, b in enumerate(axes[1]):
            at = values | {names[0]: np.exp([a]), names[1]: np.exp(b)}
            A = whitened_design(at, X)
            cov = A.T @ A + 0.3 * np.eye(len(X))
            trace = (np.diag(rbf(at, X, X)) - (A**2).sum(0)).sum() / 0.6
            log_p[i, j] = stats.multivariate_normal(cov=cov).logpdf(Y[:, 0]) - trace + a + b
            log_p[i, j] += stats.gamma(2, scale=1 / 1.5).logpdf(np.exp(a))
            log_p[i, j] += stats.lognorm(0.7, scale=np.exp(0.3)).logpdf(np.exp(b))
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    effective = effective_samples(chain)
    assert effective.min() > 150
    for k in (0, 1):
        marginal = p.sum(1 - k)
        mean = marginal @ axes[k]
        sd = np.sqrt(marginal @ (axes[k] - mean) ** 2)
        flat = chain[..., k].ravel()
        assert abs(flat.mean() - mean) < 4 * sd / np.sqrt(effective[k])
        assert flat.std() == pytest.approx(sd, rel=0.15)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["inference=sgpmc", "model=sgp", "inference.burn_in=99", "budget.steps=100"], "leaves no sample"),
        (["inference=sgpmc", "model=dgp2"], "one GP layer"),
        (["model=sgp", "inference=alpha", PRIORS[0]], "inference=alpha has no use for them"),
        (["inference=sgpmc", "model=sgp", "model.priors.lengthscale=[gama,1,1]"], "a prior is one of"),
        (["inference=sgpmc", "model=sgp", "model.priors.lengthscale=[gamma,-1,1]"], "positive number"),
        (["inference=sgpmc", "model=sgp", "model.priors.lengthscale=[gamma,1]"], "shape and rate"),
        (["inference=sgpmc", "model=sgp", "model.priors.lengthscales=[gamma,1,1]"], "lengthscale"),
        (["inference=sgpmc", "model=sgp", "likelihood=softmax"], "robustmax"),
        (["inference=sgpmc", "model=sgp", "precision=float32"], "mixed or float64"),
    ],
)
def test_bad_settings_are_one_line(words, said):
    with pytest.raises(UserError, match=said) as error:
        compose(words)
    assert "\n" not in str(error.value)


def test_predictions_of_draws_do_not_depend_on_how_rows_are_grouped():
    X, Y = data(12)
    values = trainer_of(_words(3), X, Y).values()
    del values["likelihood/variance"]
    draws = np.random.RandomState(0).randn(4, 1, 3)
    model = GPModel(compose([*_words(3), "likelihood=poisson", "threads=1"]))
    model.load_parameters(values | {"likelihood/bin_size": np.asarray(0.5), "draws/layer0/q_mu": draws})
    Y = np.abs(Y).round()
    whole = model.log_density(X, Y, 4, 0)
    parts = [model.log_density(X[a:b], Y[a:b], 4, 0) for a, b in ((0, 7), (7, 12))]
    assert whole.shape == (4, 12)
    np.testing.assert_allclose(np.concatenate(parts, 1), whole, atol=1e-8)
    assert model.predict(X[:7], 40, 0).rates.shape == (40, 7, 1)
