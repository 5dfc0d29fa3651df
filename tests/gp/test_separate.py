"""A layer with a kernel for each output: equal kernels are the shared layer, different ones are GPflow's."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf

from dgpbench.config import compose
from dgpbench.errors import UserError
from dgpbench.gp import start
from dgpbench.gp.deep_gp import DeepGP, prepare, propagate
from dgpbench.gp.kernels import parse
from dgpbench.gp.layer import SeparateLayer
from dgpbench.gp.parameters import scope, unconstrain
from dgpbench.inference.alpha import PowerEP
from dgpbench.inference.base import Numerics
from dgpbench.inference.bounds import VI
from dgpbench.inference.gradients import batch_term, lower_bound, value_and_gradients
from dgpbench.inference.sghmc import LogJoint

N, D, M, P = 30, 3, 8, 3


def _tensors(values, model):
    return {name: tf.constant(v) for name, v in unconstrain(values, model.constraints()).items()}


def _deep(own, *more):
    """A two-layer model of a config with random q(u), the same numbers whatever `own` is."""
    X = np.random.RandomState(0).randn(N, D)
    words = ["model=dgp2", f"model.num_inducing={M}", f"model.per_output={own}", "model.inner_noise=0.01"]
    model, values, fixed, _ = start.build(compose([*words, *more]), X, X[:, :1], seed=0)
    rng = np.random.RandomState(1)
    for i in (0, 1):
        values[f"layer{i}/q_mu"] = rng.randn(*values[f"layer{i}/q_mu"].shape)
        shape = values[f"layer{i}/q_sqrt"].shape
        values[f"layer{i}/q_sqrt"] = np.tril(rng.randn(*shape)) * 0.1 + 0.6 * np.eye(M)
    return model, values, fixed


def _fast(bound, raw, chunks, form, dtype=tf.float64, natural=()):
    """Value, gradients and natural pairs of 7 N rows of which `chunks` are a batch."""
    jitter, num_data = (tf.constant(v, tf.float64) for v in (1e-6, 7.0 * N))
    numerics = Numerics(jitter, (form,) * 2, dtype, natural, num_data)
    weight, term = tf.constant(7.0, tf.float64), batch_term(bound)
    return value_and_gradients(bound, raw, chunks, weight, term, numerics, trainable=list(raw))


def _halves(X, Y, noise, dtype=tf.float64):
    half = N // 2
    parts = [(slice(0, half), 0), (slice(half, N), half)]
    return [
        tuple(tf.cast(A[:, part], dtype) for A in (X, Y, noise)) + (tf.constant(at),) for part, at in parts
    ]


def _copies_add_up(d_ours, d_shared):
    """Gradients of the copies add up to that of the shared one."""
    assert d_ours.keys() == d_shared.keys()
    for name, gradient in d_ours.items():
        extra = gradient.shape.rank - d_shared[name].shape.rank
        total = tf.reduce_sum(gradient, 0) if extra else gradient
        np.testing.assert_allclose(total, d_shared[name], rtol=1e-8, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("own", ["kernel", "all"])
@pytest.mark.parametrize("form", ["half", "quad"])
def test_equal_kernels_are_the_shared_layer(own, form):
    """Bound, natural gradients, and gradients: those of the copies add up to that of the shared one."""
    rng = np.random.RandomState(2)
    chunks = _halves(*(tf.constant(rng.randn(k, N)) for k in (D, 1, D)))
    results = []
    for kind in ("none", own):
        model, values, _ = _deep(kind, "model.kernel=matern52")
        results.append(_fast(VI(model), _tensors(values, model), chunks, form, natural=(0, 1)))
    (shared, d_shared, n_shared), (ours, d_ours, n_ours) = results
    assert float(ours) == pytest.approx(float(shared), rel=1e-11)
    _copies_add_up(d_ours, d_shared)
    for i in (0, 1):
        for mine, theirs in zip(n_ours[i], n_shared[i], strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-8, atol=1e-8)


OTHERS = {
    "tied": lambda model: PowerEP(model, 2, 0.5),
    "simplified": lambda model: PowerEP(model, 2, 0.5, tied=False),
    "expected": LogJoint,
    "marginal": lambda model: LogJoint(model, marginal=True),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("form", ["half", "quad"])
def test_equal_kernels_under_power_ep_and_a_sampled_point(name, form):
    """Cavities (S - I is given) and points (S = 0): value and gradients of the shared layer."""
    rng = np.random.RandomState(2)
    results = []
    X, Y = (tf.constant(rng.randn(k, N)) for k in (D, 1))
    for kind in ("none", "all"):
        model, values, _ = _deep(kind, "model.kernel=matern52")
        bound = OTHERS[name](model)
        raw = {n: tf.constant(v) for n, v in unconstrain(bound.initial(values), model.constraints()).items()}
        noise = tf.constant(np.random.RandomState(3).randn(model.noise_dim, bound.samples * N))
        results.append(_fast(bound, raw, [(X, Y, noise, tf.constant(0))], form))
    (shared, d_shared, _), (ours, d_ours, _) = results
    assert float(ours) == pytest.approx(float(shared), rel=1e-10)
    _copies_add_up(d_ours, d_shared)


def _different(own):
    """One layer of P outputs whose kernels, and by choice Z, all differ."""
    rng = np.random.RandomState(3)
    Z = rng.randn(P, M, D) if own == "all" else rng.randn(M, D)
    values = {
        "layer0/kernel/rbf/variance": 0.5 + rng.rand(P),
        "layer0/kernel/rbf/lengthscales": 0.7 + rng.rand(P, D),
        "layer0/Z": Z,
        "layer0/q_mu": rng.randn(P, M),
        "layer0/q_sqrt": np.tril(rng.randn(P, M, M)) * 0.1 + 0.6 * np.eye(M),
        "likelihood/variance": np.asarray(0.3),
    }
    return DeepGP((SeparateLayer(parse("rbf", D), M, P, "zero"),)), values


def _gpflow(values, own):
    hyper = scope(values, "layer0/kernel/rbf")
    kernels = [
        gpflow.kernels.SquaredExponential(variance=v, lengthscales=ls)
        for v, ls in zip(hyper["variance"], hyper["lengthscales"], strict=True)
    ]
    variables = gpflow.inducing_variables
    Z = values["layer0/Z"]
    if own == "all":
        inducing = variables.SeparateIndependentInducingVariables(
            [variables.InducingPoints(one) for one in Z.copy()]
        )
    else:
        inducing = variables.SharedIndependentInducingVariables(variables.InducingPoints(Z.copy()))
    return gpflow.models.SVGP(
        gpflow.kernels.SeparateIndependent(kernels),
        gpflow.likelihoods.Gaussian(float(values["likelihood/variance"])),
        inducing,
        num_latent_gps=P,
        q_mu=values["layer0/q_mu"].T.copy(),
        q_sqrt=values["layer0/q_sqrt"].copy(),
        whiten=True,
        num_data=2 * N,
    )


@pytest.mark.slow
@pytest.mark.parametrize("own", ["kernel", "all"])
def test_different_kernels_are_those_of_gpflow(own):
    """Bound and predictions of SeparateIndependent, and GPflow's gradients by automatic differentiation."""
    rng = np.random.RandomState(4)
    X, Y = rng.randn(N, D), rng.randn(N, P)
    model, values = _different(own)
    theirs, raw = _gpflow(values, own), _tensors(values, model)
    none = tf.zeros((0, N), tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(raw)
        ours = lower_bound(VI(model), raw, tf.constant(X.T), tf.constant(Y.T), none, num_data=2 * N)
    wanted = [k.lengthscales.unconstrained_variable for k in theirs.kernel.kernels]
    wanted += [k.variance.unconstrained_variable for k in theirs.kernel.kernels]
    inducing = theirs.inducing_variable
    parts = inducing.inducing_variables if own == "all" else [inducing.inducing_variable]
    wanted += [part.Z.unconstrained_variable for part in parts]
    with tf.GradientTape() as other:
        elbo = theirs.elbo((X, Y))
    assert float(ours) == pytest.approx(float(elbo), rel=1e-9)
    found = tape.gradient(ours, raw)
    expected = other.gradient(elbo, wanted)
    np.testing.assert_allclose(found["layer0/kernel/rbf/lengthscales"], expected[:P], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found["layer0/kernel/rbf/variance"], expected[P : 2 * P], rtol=1e-6, atol=1e-8)
    d_Z = np.stack(expected[2 * P :]) if own == "all" else expected[2 * P]
    np.testing.assert_allclose(found["layer0/Z"], d_Z, rtol=1e-6, atol=1e-8)
    for form in ("half", "quad"):
        made, _ = prepare(model, {n: tf.constant(v) for n, v in values.items()}, 1e-6, (form,))
        moments = propagate(model, made, tf.constant(X.T), none)
        for mine, other_one in zip(moments, theirs.predict_f(X), strict=True):
            np.testing.assert_allclose(mine.numpy().T, other_one, rtol=1e-8, atol=1e-9)


def test_mixed_precision_keeps_the_gradient():
    rng = np.random.RandomState(5)
    X, Y, noise = (tf.constant(rng.randn(k, N)) for k in (D, 1, D))
    model, values, _ = _deep("all")
    raw = _tensors(values, model)
    exact, d_exact, _ = _fast(VI(model), raw, _halves(X, Y, noise), "half")
    halves = _halves(X, Y, noise, tf.float32)
    mixed, d_mixed, _ = _fast(VI(model), raw, halves, "half", tf.float32)
    assert float(mixed) == pytest.approx(float(exact), rel=1e-5)
    for name, gradient in d_exact.items():
        scale = float(tf.norm(gradient)) + 1e-6
        assert float(tf.norm(d_mixed[name] - gradient)) / scale < 1e-3, name


def test_trained_linear_mean_starts_as_the_identity():
    X = np.random.RandomState(0).randn(N, D)
    plain, fixed_mean, _ = _deep("none")
    model, values, fixed = _deep("none", "model.mean=linear_trained")
    np.testing.assert_array_equal(values["layer0/W"], np.eye(D))
    assert "layer0/W" not in fixed
    noise = tf.constant(np.random.RandomState(6).randn(D, N))
    bounds = [
        lower_bound(VI(m), _tensors(v, m), tf.constant(X.T), tf.constant(X[:, :1].T), noise, num_data=N)
        for m, v in ((plain, fixed_mean), (model, values))
    ]
    assert float(bounds[0]) == pytest.approx(float(bounds[1]), rel=1e-12)


@pytest.mark.parametrize("own", ["none", "all"])
def test_the_gradient_of_a_trained_linear_mean(own):
    """Against differences of the plain bound, away from the identity."""
    rng = np.random.RandomState(7)
    X, Y, noise = (tf.constant(rng.randn(k, N)) for k in (D, 1, D))
    model, values, _ = _deep(own, "model.mean=linear_trained")
    values["layer0/W"] = values["layer0/W"] + 0.3 * rng.randn(D, D)
    raw, name = _tensors(values, model), "layer0/W"
    value, gradients, _ = _fast(VI(model), raw, _halves(X, Y, noise), "half")

    def bound(step):
        moved = raw | {name: raw[name] + step}
        return float(lower_bound(VI(model), moved, X, Y, noise, num_data=7 * N))

    assert float(value) == pytest.approx(bound(0.0), rel=1e-10)
    for i in np.ndindex(D, D):
        step = np.zeros((D, D))
        step[i] = 1e-5
        slope = (bound(step) - bound(-step)) / 2e-5
        assert float(gradients[name][i]) == pytest.approx(slope, rel=1e-5, abs=1e-3)


@pytest.mark.parametrize("method", ["locations", "joint", "star", "global_inducing", "aep", "analytic"])
@pytest.mark.parametrize("field", ["model.per_output", "model.layer_overrides.0.per_output"])
def test_methods_that_need_one_kernel_refuse(method, field):
    words = ["model=dgp2", f"inference={method}", "precision=float64", "model.inner_noise=0.01"]
    compose([*words, f"{field}=none"])
    with pytest.raises(UserError, match=f"^inference={method} takes .* set model.per_output=none"):
        compose([*words, f"{field}=all"])


def test_kernels_that_cannot_be_stacked_are_refused():
    with pytest.raises(UserError, match=r"model\.kernel=periodic\+white is another"):
        _deep("kernel", "model.kernel=periodic")
