"""Monotone warps: against SciPy's solution of the equation, and a GP behind them against GPflow's SVGP."""

from dataclasses import replace

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from inference_tools import JITTER, columns, data, gradient_gap, tensors, trainer_of
from scipy.integrate import solve_ivp

from dgpbench.config import compose
from dgpbench.data.synthetic import SHIFTS, sincs_draw
from dgpbench.errors import UserError
from dgpbench.gp import start
from dgpbench.gp.deep_gp import prepare
from dgpbench.gp.kernels import parse
from dgpbench.gp.layer import kl_divergence
from dgpbench.gp.propagation import Preparation
from dgpbench.gp.warp import WarpLayer
from dgpbench.inference.bounds import VI
from dgpbench.inference.gradients import lower_bound
from dgpbench.report.layers_plot import distance

M = 6
x = np.linspace(-2, 2, 301)


def _values(scale=1.0, seed=0, warps=1):
    rng = np.random.RandomState(seed)
    return {
        "kernel/rbf/variance": np.asarray(1.5),
        "kernel/rbf/lengthscales": np.array([0.8]),
        "Z": np.linspace(-2, 2, M)[:, None],
        "q_mu": scale * rng.randn(warps, M),
        "q_sqrt": scale * 0.5 * np.tile(np.eye(M), (warps, 1, 1)),
    }


def _prepared(values, layer):
    return layer.prepare({name: tf.constant(v) for name, v in values.items()}, Preparation(JITTER))[0]


def _velocity(values, eps):
    """w as a function of h, in NumPy, by the inverse of K."""
    k = lambda a, b: 1.5 * np.exp(-0.5 * ((a[:, None] - b[None]) / 0.8) ** 2)  # noqa: E731
    Z = values["Z"][:, 0]
    K = k(Z, Z) + JITTER * np.eye(M)
    u = np.linalg.cholesky(K) @ (values["q_mu"][0] + values["q_sqrt"][0] @ eps)
    return lambda h: k(np.atleast_1d(h), Z) @ np.linalg.solve(K, u)


LAYER = WarpLayer(parse("rbf", 1), M)


def test_a_warp_is_the_flow_of_its_velocity():
    """Euler's 20 steps come near it, and more steps as near as wanted: the error falls with their number."""
    values, eps = _values(0.5), np.random.RandomState(1).randn(M, 1)
    w = _velocity(values, eps[:, 0])
    exact = solve_ivp(lambda t, h: w(h), (0, 1), x, rtol=1e-10, atol=1e-10).y[:, -1]
    assert np.abs(exact - x).max() > 1.0
    gaps = []
    for layer in (LAYER, replace(LAYER, steps=100)):
        g = layer.warp(_prepared(values, layer), tf.constant(x[None]), tf.constant(np.tile(eps, len(x))))
        gaps.append(np.abs(g.numpy()[0] - exact).max())
    assert gaps[0] < 0.1 and gaps[0] / gaps[1] == pytest.approx(5, rel=0.2)


def test_no_velocity_is_the_identity():
    batch = _prepared(_values(0.0) | {"q_sqrt": np.zeros((1, M, M))}, LAYER)
    eps = tf.constant(np.random.RandomState(0).randn(M, len(x)))
    np.testing.assert_array_equal(LAYER.warp(batch, tf.constant(x[None]), eps)[0], x)


@pytest.mark.parametrize("values", [_values(0.5), _values(2.0), None])
def test_draws_are_monotone(values):
    """Gentle, steep, and of the prior that model=warped_gp has; and they are no identities."""
    prior = {"q_mu": np.zeros((1, M)), "q_sqrt": np.eye(M)[None], "kernel/rbf/variance": np.asarray(0.1)}
    batch = _prepared(values or _values() | prior | {"kernel/rbf/lengthscales": np.ones(1)}, LAYER)
    eps = np.repeat(np.random.RandomState(2).randn(M, 50), len(x), axis=1)  # 50 warps, each at all of x
    g = LAYER.warp(batch, tf.constant(np.tile(x, 50)[None]), tf.constant(eps)).numpy().reshape(50, -1)
    assert (np.diff(g) > 0).all()
    assert (np.abs(g - x).max(1) > 0.05).all()


def _model(words, X, Y, noise=0.05):
    cfg = compose([*words, "inference=fast", "precision=float64", "model.num_inducing=6", "dataset=step"])
    model, values, fixed, _ = start.build(cfg, X, Y, 0)
    return model, values | {"likelihood/variance": np.asarray(noise)}, fixed


def test_a_gp_behind_a_known_warp_is_gpflows_svgp_at_warped_inputs():
    X, Y = data()
    model, values, _ = _model(["model=warped_gp"], X, Y)
    rng = np.random.RandomState(0)
    values["layer0/q_mu"], values["layer1/q_mu"] = 0.5 * rng.randn(1, 15), rng.randn(1, 6)
    values["layer0/q_sqrt"] = 1e-9 * np.eye(15)[None]
    raw, noise = tensors(VI(model), values), tf.zeros((15, 20), tf.float64)
    ours = lower_bound(VI(model), raw, *columns(X, Y), noise, num_data=20)
    batch = prepare(model, {n: tf.constant(v) for n, v in values.items()}, JITTER)[0]["layer0"]
    warped = model.layers[0].warp(batch, tf.constant(X.T), noise).numpy().T
    assert np.abs(warped - X).max() > 0.05
    kernel = gpflow.kernels.SquaredExponential(1.0, values["layer1/kernel/rbf/lengthscales"])
    svgp = gpflow.models.SVGP(
        kernel,
        gpflow.likelihoods.Gaussian(0.05),
        values["layer1/Z"].copy(),
        q_mu=values["layer1/q_mu"].T.copy(),
        q_sqrt=values["layer1/q_sqrt"].copy(),
    )
    kl = float(kl_divergence(values["layer0/q_mu"], values["layer0/q_sqrt"]))
    assert float(ours) + kl == pytest.approx(float(svgp.elbo((warped, Y))), rel=1e-7)


def test_every_input_has_a_warp_of_its_own():
    X, Y = data(D=2)
    model, values, _ = _model(["model=warped_gp"], X, Y)
    layer, own = model.layers[0], {n.removeprefix("layer0/"): v for n, v in values.items() if "layer0" in n}
    own["q_mu"] = np.random.RandomState(0).randn(2, 15)
    eps = np.random.RandomState(1).randn(30, len(X))
    together = layer.warp(_prepared(own, layer), tf.constant(X.T), tf.constant(eps))
    for j in range(2):
        alone = WarpLayer(layer.kernel, 15)
        batch = _prepared(own | {"q_mu": own["q_mu"][j : j + 1], "q_sqrt": own["q_sqrt"][j : j + 1]}, alone)
        g = alone.warp(batch, tf.constant(X[:, j : j + 1].T), tf.constant(eps[15 * j : 15 * j + 15]))
        np.testing.assert_allclose(together[j], g[0], atol=1e-12)
    assert layer.width == layer.input_dim == model.layers[1].input_dim == 2


def _sequences(n=90, seed=0):
    X, Y = sincs_draw(np.random.RandomState(seed), n, 0.05)
    return X, (Y - Y.mean()) / Y.std()


def test_every_sequence_has_the_warp_of_its_own_q():
    X, Y = _sequences()
    model, values, fixed = _model(["model=alignment"], X, Y)
    assert "layer0/levels" in fixed and values["layer0/levels"].tolist() == [0, 1, 2]
    values["layer0/q_mu"] = np.random.RandomState(0).randn(3, 15)
    eps = tf.constant(np.random.RandomState(1).randn(15, len(X)))
    tensor = {n: tf.constant(v) for n, v in values.items()}
    together = model.layers[0].warp(prepare(model, tensor, JITTER)[0]["layer0"], tf.constant(X.T), eps)[0]
    for j in range(3):
        mine = X[:, 1] == j
        own = {n.removeprefix("layer0/"): v for n, v in values.items() if n.startswith("layer0/")}
        own |= {"q_mu": own["q_mu"][j : j + 1], "q_sqrt": own["q_sqrt"][j : j + 1]}
        alone = WarpLayer(model.layers[0].kernel, 15)
        g = alone.warp(_prepared(own, alone), tf.constant(X[mine, :1].T), tf.boolean_mask(eps, mine, axis=1))
        np.testing.assert_allclose(together.numpy()[mine], g[0], atol=1e-12)


@pytest.mark.slow
def test_gradients_against_finite_differences():
    X, Y = _sequences(12)
    model, values, _ = _model(["model=alignment", "model.layer_overrides.0.num_inducing=2"], X, Y)
    values["layer0/q_mu"] = 0.5 * np.random.RandomState(0).randn(3, 2)
    names = [name for name in values if name != "layer0/levels" and "layer1/q" not in name]
    assert gradient_gap(VI(model), values, X, Y, names) < 1e-5


def test_distance_of_sequences():
    """Two straight lines that are 0.5 apart."""
    t = np.linspace(0, 1, 11)
    one = np.concatenate([t, t]), np.concatenate([t, t + 0.5]), np.repeat([0, 1], 11)
    assert distance(*one) == pytest.approx(0.25)
    moved = np.concatenate([t, t + 0.5]), *one[1:]
    assert distance(*moved) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.slow
def test_three_shifted_sequences_are_aligned():
    """Peaks that are half a unit apart come to one place; the distance between sequences falls tenfold."""
    X, Y = _sequences(150)
    words = ["model=alignment", "dataset=shifted_sincs", "inference=dsvi", "precision=float64"]
    trainer = trainer_of([*words, "inference.adam.learning_rate=0.02", "model.num_inducing=15"], X, Y)
    trainer.run(0, np.zeros((300, 0), np.int32))
    values = {n: tf.constant(v) for n, v in trainer.values().items() if n != "jitter"}
    layer = trainer.spec.bound.model.layers[0]
    batch = prepare(trainer.spec.bound.model, values, JITTER)[0]["layer0"]

    def warped(X):
        return layer.warp(batch, tf.constant(X.T), tf.zeros((15, len(X)), tf.float64)).numpy()[0]

    before, after = (distance(t, Y[:, 0], X[:, 1]) for t in (X[:, 0], warped(X)))
    assert before > 0.5 and after < 0.1 * before
    peaks = warped(np.stack([SHIFTS, np.arange(3.0)], 1))
    assert np.ptp(SHIFTS) == 1.0 and np.ptp(peaks) < 0.15


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model.layers=[gp,warp,gp]"], "warp warps the inputs: it can only come first"),
        (["model=alignment", "model.layers=[align,lv,gp]"], "align warps the inputs"),
        (
            ["model=warped_gp", "inference=sghmc", "budget.steps=20000"],
            "a monotone warp: use inference=dsvi",
        ),
    ],
)
def test_what_does_not_fit_is_refused(words, message):
    with pytest.raises(UserError, match=message):
        compose(words)


def test_data_that_do_not_fit_are_refused():
    with pytest.raises(UserError, match="this has 60 values"):
        _model(["model=alignment"], np.random.RandomState(0).randn(60, 2), np.ones((60, 1)))
    with pytest.raises(UserError, match="this has 1 columns"):
        _model(["model=alignment"], *data())
