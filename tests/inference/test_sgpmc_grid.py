"""Variational MCMC on grids: density against the plain form and GPflow's, chains against closed forms."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from inference_tools import JITTER, columns, rbf, tensors, trainer_of, whitened_posterior

from dgpbench.config import compose
from dgpbench.engine.trainer import Trainer
from dgpbench.errors import UserError
from dgpbench.gp.likelihoods.distributions import Poisson
from dgpbench.gp.parameters import scope, unconstrain
from dgpbench.inference.gradients import lower_bound
from dgpbench.inference.mixing import effective_samples, split_rhat

GRID = ["model.inducing=grid", "model.kronecker=true", "inference.start.inducing=fixed", "precision=float64"]
PRIORS = ["model.priors.lengthscale=[gamma,1.75,1.0]", "model.priors.kernel_variance=[gamma,1.2,1.0]"]
NAMES = ["layer0/q_mu", "layer0/kernel/rbf/lengthscales", "layer0/kernel/rbf/variance"]


def bins(n, seed=0):
    """n x n rows on a square, in no order, and counts."""
    rng, axis = np.random.RandomState(seed), np.linspace(-2.0, 2.0, n)
    X = rng.permutation(np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2))
    return X, rng.poisson(np.exp(0.5 * np.sin(2 * X[:, :1]))).astype(float)


def words(M, *more, start=40, burn_in=100, steps=900):
    chain = [f"inference.start.steps={start}", f"inference.burn_in={burn_in}", f"budget.steps={steps}"]
    own = ["model=sgp", "inference=sgpmc", f"model.num_inducing={M}", "model.ard=false", "threads=1"]
    return [*own, *GRID, *chain, *more]


def on_rows(trainer, X, xla=True, likelihood=None):
    """The same trainer with the form for these rows, and whether there is one."""
    bound = trainer.spec.bound
    if likelihood:
        bound = replace(bound, model=replace(bound.model, likelihood=likelihood))
    bound = bound.on_rows(trainer.values(), X)
    shapes = tuple((n, s) for n, s in trainer.spec.shapes if not likelihood or n != "likelihood/variance")
    return Trainer(replace(trainer.spec, bound=bound, shapes=shapes, xla=xla)), bound.places is not None


def random_values(trainer, lengthscale=0.9, seed=0):
    values = {n: v for n, v in trainer.values().items() if n not in ("jitter", "likelihood/variance")}
    v = np.random.RandomState(seed).randn(*values["layer0/q_mu"].shape)
    return values | {NAMES[0]: v, NAMES[1]: np.asarray(lengthscale), NAMES[2]: np.asarray(1.7)}


def reset(trainer, values, X, Y):
    raw = unconstrain(values, trainer.spec.bound.constraints())
    rates = dict.fromkeys(trainer.oracle.rates, 0.1)
    trainer.reset(raw, rates, seed=0, num_data=len(X), jitter=JITTER, data=(X, Y))


@pytest.mark.slow
@pytest.mark.parametrize("xla", [False, True])
def test_density_and_slopes_are_those_of_the_plain_form(xla):
    """The same jitter in both: a whole K_zz under autodiff, and factors of it as chains ask for them."""
    X, Y = bins(7)
    plain = trainer_of(words(16, *PRIORS), X, Y)
    trainer, found = on_rows(plain, X, xla, Poisson())
    assert found and not plain.spec.bound.places
    bound, values = trainer.spec.bound, random_values(plain)
    reset(trainer, values, X, Y)
    oracle = trainer.oracle
    density = oracle.fused(lambda oracle, batch: oracle(batch, NAMES)[:2])
    value, slopes = density(oracle.full_batch(tf.constant(0))._replace(rows=None))
    raw, (Xc, Yc) = tensors(bound, values), columns(X, Y)
    with tf.GradientTape() as tape:
        tape.watch(raw)
        exact = lower_bound(
            replace(bound, places=None), raw, Xc, Yc, tf.zeros((0, len(X))), num_data=len(X), jitter=JITTER
        )
    assert float(value) == pytest.approx(float(exact), abs=1e-8)
    for name, slope in tape.gradient(exact, {name: raw[name] for name in NAMES}).items():
        np.testing.assert_allclose(slopes[name], slope, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("lengthscale", [0.7, 1.5])
def test_density_is_that_of_gpflow_up_to_the_jitter(lengthscale):
    """At the same function: GPflow has jitter on the diagonal of K_zz, so that its factor, and with it what v
    means, is another; the rotation of v that brings the two nearest leaves the jitter's share."""
    import gpflow
    from scipy.linalg import polar
    from tensorflow_probability import bijectors, distributions

    X, Y = bins(7)
    plain = trainer_of(words(16, *PRIORS), X, Y)
    bound = replace(plain.spec.bound, model=replace(plain.spec.bound.model, likelihood=Poisson()))
    values = random_values(plain, lengthscale)
    Z = values["layer0/Z"]
    kernel = gpflow.kernels.SquaredExponential()
    for name, prior in (("lengthscales", (1.75, 1.0)), ("variance", (1.2, 1.0))):
        own = distributions.Gamma(*map(np.float64, prior))
        value = values[f"layer0/kernel/rbf/{name}"]
        setattr(kernel, name, gpflow.Parameter(value, transform=bijectors.Exp(), prior=own))
    theirs = gpflow.models.SGPMC((X, Y), kernel, gpflow.likelihoods.Poisson(), inducing_variable=Z)
    p = scope({name: tf.constant(v) for name, v in values.items()}, "layer0")
    ours = np.linalg.cholesky(bound.model.layers[0].gram(p, JITTER))
    diagonal = np.linalg.cholesky(rbf(values, Z, Z) + JITTER * np.eye(16))
    rotation, _ = polar(np.linalg.solve(diagonal, ours))
    theirs.V.assign(rotation @ values["layer0/q_mu"].T)
    exact = float(theirs.log_posterior_density()) + np.log(values[NAMES[1]]) + np.log(values[NAMES[2]])
    raw, (Xc, Yc) = tensors(bound, values), columns(X, Y)
    found = lower_bound(bound, raw, Xc, Yc, tf.zeros((0, len(X))), num_data=len(X), jitter=JITTER)
    assert float(found) == pytest.approx(exact, abs=100 * JITTER * len(X))


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["hmc", "nuts"])
def test_chains_on_a_grid_have_the_posterior_of_a_conjugate_model(sampler):
    """Gaussian noise, hyperparameters fixed: SGPR's q(u), with the same jitter. Trajectories of hmc stay a
    quarter of a period long: half a period would mirror a state, whose square then never moves."""
    X, counts = bins(6)
    Y = counts - 1.0
    more = ["inference.hyperparameters=fixed", "model.likelihood_variance=0.3", "inference.kept=800"]
    more += [
        f"inference.sampler={sampler}",
        "inference.leapfrog=4",
        "inference.step=0.4",
        "inference.depth=4",
    ]
    more += ["inference.precondition=true", *(["inference.accept=null"] if sampler == "hmc" else [])]
    plain = trainer_of(words(9, *more, steps=940), X, Y)
    trainer, found = on_rows(plain, X)
    assert found
    raw, rates = ({n: v.numpy() for n, v in d.items()} for d in (plain.oracle.raw, plain.oracle.rates))
    trainer.reset(raw, rates, seed=0, num_data=len(X), jitter=JITTER, data=(X, Y))
    trainer.run(0, np.zeros((940, 0), np.int32))
    values, chain = trainer.values(), trainer.draws(940)["layer0/q_mu"][:, 0]
    p = scope({name: tf.constant(v) for name, v in values.items()}, "layer0")
    L = np.linalg.cholesky(trainer.spec.bound.model.layers[0].gram(p, JITTER))
    A = np.linalg.solve(L, rbf(values, values["layer0/Z"], X))
    mean, S = whitened_posterior(A, Y[:, 0], 0.3 * np.ones(len(X)))
    effective = effective_samples(chain.reshape(2, -1, 9))
    assert effective.min() > 1000 and split_rhat(chain.reshape(2, -1, 9)).max() < 1.02
    assert np.all(np.abs(chain.mean(0) - mean) < 4 * np.sqrt(np.diag(S) / effective))
    np.testing.assert_allclose(chain.std(0), np.sqrt(np.diag(S)), rtol=0.1)


@pytest.mark.slow
def test_rows_off_the_grid_take_the_plain_form_and_one_input_needs_none():
    X, Y = bins(7)
    trainer = trainer_of(words(16, *PRIORS), X, Y)
    bound, values = trainer.spec.bound, trainer.values()
    assert bound.on_rows(values, X[:40]).places.cells is not None  # nine cells without a row
    assert bound.on_rows(values, X + 0.01 * np.random.RandomState(0).randn(49, 2)).places is None
    assert replace(bound, held=False).on_rows(values, X).places is None
    line = trainer_of([w for w in words(5, *PRIORS) if "kronecker" not in w], X[:, :1], Y)
    assert line.spec.bound.on_rows(line.values(), X[:, :1]).tallest == 5


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("model.inducing=kmeans", "set model.inducing=grid$"),
        ("model.kernel=matern52", "set model.kernel=rbf$"),
        ("inference.start.inducing=trained", "set inference=sgpmc inference.start.inducing=fixed$"),
    ],
)
def test_what_is_no_grid_is_said_in_one_line(changed, said):
    with pytest.raises(UserError, match=said) as error:
        compose(words(16, changed))
    assert "\n" not in str(error.value)
    with pytest.raises(UserError, match="inference=sgpmc"):
        compose(["model=sgp", "inference=dsvi", "model.inducing=grid", "model.kronecker=true"])
