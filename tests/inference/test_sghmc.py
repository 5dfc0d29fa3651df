"""SGHMC: the posterior that its chain has, against closed forms and a density on a grid."""

import numpy as np
import pytest
import tensorflow as tf
from inference_tools import columns, data, rbf, tensors, trainer_of, whitened_design

from dgpbench.config import compose
from dgpbench.errors import UserError
from dgpbench.inference.gradients import lower_bound
from dgpbench.inference.mixing import effective_samples

STEP, FRICTION = 0.1, 0.1


def _words(M, steps, *more):
    chain = [f"inference.step={STEP}", f"inference.friction={FRICTION}", "inference.burn_in=3000"]
    keep = ["inference.thinning=4", "inference.kept=20000", f"budget.steps={steps}"]
    fixed = ["inference.hyperparameters=fixed", "precision=float64", f"model.num_inducing={M}"]
    return ["inference=sghmc", *chain, *keep, *fixed, *more]


def _chain(words, X, Y, steps, values=None, seed=0):
    """Kept draws of v of each layer after so many full-batch steps, all but q(u) fixed, and the values."""
    trainer = trainer_of(words, X, Y, values, seed=seed)
    trainer.run(0, np.zeros((steps, 0), np.int32))
    return trainer.draws(steps), trainer


def _grid_density(X, Y, Z, noise, scale, axis):
    """exp(-U) of two layers with one inducing point each on a grid of (v1, v2), up to a factor. In each step
    the inner layer's noise is new, so that U is the mean over it: by Gauss-Hermite nodes."""
    kernel = lambda x, z: np.exp(-0.5 * (x - z) ** 2 / scale**2)  # noqa: E731
    root = np.sqrt(1 + 1e-6)
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    weights = (weights / weights.sum())[:, None, None]
    a1 = kernel(X[:, 0], Z[0]) / root
    v1 = axis[None, :, None]
    f1 = X[:, 0] + a1 * v1 + np.sqrt(1 - a1**2) * nodes[:, None, None]  # K, v1, N
    a2 = kernel(f1, Z[1]) / root
    out = []
    for v2 in axis:
        each = -0.5 * (np.log(2 * np.pi * noise) + ((Y[:, 0] - a2 * v2) ** 2 + 1 - a2**2) / noise)
        out.append((weights * each).sum((0, 2)))
    log_p = np.stack(out, 1) - 0.5 * (axis[:, None] ** 2 + axis**2)
    p = np.exp(log_p - log_p.max())
    return p / p.sum()


@pytest.mark.slow
def test_two_layers_of_one_inducing_point_against_a_grid():
    X, Y = data(6)
    more = (
        "model=dgp2",
        "model.likelihood_variance=0.5",
        "model.inner_noise=1e-9",
        "model.kernel_variance=1",
    )
    words = [*_words(1, 43_000, *more), "inference.step=0.02", "inference.thinning=10"]
    draws, trainer = _chain(words, X, Y, 83_000)
    values = trainer.values()
    Z = [values[f"layer{i}/Z"][0, 0] for i in (0, 1)]
    axis = np.linspace(-5, 5, 201)
    p = _grid_density(X, Y, Z, 0.5, 2.0, axis)
    for other, name in ((1, "layer0/q_mu"), (0, "layer1/q_mu")):
        marginal, chain = p.sum(other), draws[name][:, 0, 0]
        mean = marginal @ axis
        sd = np.sqrt(marginal @ (axis - mean) ** 2)
        effective = float(effective_samples(chain[None]))
        print(name, mean, chain.mean(), sd, chain.std(), effective)
        assert effective > 300
        assert abs(chain.mean() - mean) < 4 * sd / np.sqrt(effective)
        assert chain.std() == pytest.approx(sd, rel=0.1)


def test_potential_and_prior_are_those_of_numpy():
    """-U for given v: the expected log-likelihood of the conditional, and -|v|^2 / 2."""
    X, Y = data(15)
    trainer = trainer_of(_words(4, 3100, "model=sgp"), X, Y)
    bound, rng = trainer.spec.bound, np.random.RandomState(0)
    values = {n: v for n, v in trainer.values().items() if n != "jitter"} | {"layer0/q_mu": rng.randn(1, 4)}
    A, noise = whitened_design(values, X), float(values["likelihood/variance"])
    mean, var = A.T @ values["layer0/q_mu"][0], np.diag(rbf(values, X, X)) - (A**2).sum(0)
    expected = -0.5 * (np.log(2 * np.pi * noise) + ((Y[:, 0] - mean) ** 2 + var) / noise).sum()
    expected -= 0.5 * (values["layer0/q_mu"] ** 2).sum()
    zero = tf.zeros((1, 15), tf.float64)
    found = lower_bound(bound, tensors(bound, values), *columns(X, Y), zero, num_data=15)
    assert float(found) == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_hyperparameters_move_in_burn_in_only_and_the_scale_is_frozen_after():
    X, Y = data(30)
    words = [
        "inference=sghmc",
        "model=dgp2",
        "model.num_inducing=4",
        "inference.burn_in=10",
        "budget.steps=40",
    ]
    words += ["inference.thinning=3", "inference.kept=5", "inference.window=4"]
    trainer = trainer_of(words, X, Y, batch=8)
    rows = np.random.RandomState(0).randint(0, 30, (40, 8)).astype(np.int32)

    def state():
        return {n: v for n, v in trainer.state().items() if n.startswith(("raw/", "slot/g2"))}

    first = state()
    trainer.run(0, rows[:10])
    burnt = state()
    trainer.run(10, rows[10:])
    last = state()
    moved = lambda a, b: {n for n in a if not np.array_equal(a[n], b[n])}  # noqa: E731
    q = {n for n in first if n.endswith("q_mu") and n.startswith("raw/")}
    assert {"raw/likelihood/variance", "raw/layer0/Z"} | q <= moved(first, burnt)
    assert moved(burnt, last) == q
    draws = trainer.draws(40)
    assert draws["layer1/q_mu"].shape == (5, 1, 4)  # ten samples at steps 13, 16, ..., 40; the last five
    assert np.array_equal(draws["layer1/q_mu"][-1], trainer.oracle.raw["layer1/q_mu"].numpy())
    assert trainer.draws(12) == {} and trainer.spec.update.incomplete(12)


@pytest.mark.slow
def test_blocks_and_checkpoints_do_not_matter_bitwise():
    X, Y = data(30)
    words = [
        "inference=sghmc",
        "model=dgp2",
        "model.num_inducing=4",
        "inference.burn_in=6",
        "budget.steps=20",
    ]
    words += ["inference.thinning=2"]
    rows = np.random.RandomState(0).randint(0, 30, (16, 8)).astype(np.int32)
    whole, parts = (trainer_of(words, X, Y, batch=8) for _ in range(2))
    whole.run(0, rows)
    parts.run(0, rows[:5])
    state = parts.state()
    parts.run(5, rows[5:9])
    parts.restore(state)
    for start, end in ((5, 8), (8, 16)):
        parts.run(start, rows[start:end])
    assert all(np.array_equal(a, parts.state()[name]) for name, a in whole.state().items())


@pytest.mark.slow
@pytest.mark.parametrize(
    "words, says",
    [
        (["model=lv_gp"], "latent variables"),
        (["model=cvae_50"], "use inference=adam"),
        (
            ["model=dgp2", "budget.steps=100", "inference.burn_in=2500", "inference.thinning=25"],
            "at least 2525",
        ),
        (["model=dgp2", "budget.steps=null", "budget.seconds=10"], "set budget.steps"),
        (["model=dgp2", "likelihood=softmax", "inference.potential=marginal"], "robustmax"),
        (["model=dgp2", "inference.natgrad.gamma=0.1"], "natgrad"),
        (["model=dgp2", "inference.friction=1"], "below 1"),
        (["model=dgp2", "inference.compat=release"], "one of none, released"),
        (["model=dgp2", "inference.size_mb=0"], "above 0"),
    ],
)
def test_a_config_that_does_not_fit_is_refused_in_one_line(words, says):
    from dgpbench.models.base import create

    with pytest.raises(UserError, match=says) as error:
        create(compose(["inference=sghmc", *words]))
    assert "\n" not in str(error.value)
