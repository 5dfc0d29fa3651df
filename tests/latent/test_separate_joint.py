"""K samples of a point from one draw of a layer with a kernel for each output, or each GP that is mixed."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from latent_tools import columns, conditional, data, fast, model, noise_for, raw

from dgpbench.config import compose
from dgpbench.data import Split
from dgpbench.engine.context import RunContext, Silent
from dgpbench.gp.deep_gp import prepare
from dgpbench.gp.fast.joint_samples import enough_jitter, pairs, sample
from dgpbench.inference.base import Numerics
from dgpbench.inference.bounds import IWVI
from dgpbench.inference.gradients import batch_term, lower_bound, value_and_gradients
from dgpbench.models.gp import GPModel

N, D, LAYER = 8, 2, "layer1"
CASES = [("mixed", 3, False), ("apart", 3, True), ("apart", 10, False)]
MIXING = {"mixed": "model.inner_gps=2", "apart": "model.inner_gps=null"}


def _build(own, mixing="mixed", *more):
    """LV-GP-GP with random parameters; each output of the inner layer has others, where it has its own."""
    rng = np.random.RandomState(0)
    X, Y = data(rng, N, D)
    words = ["model=lv_gp_gp", f"model.per_output={own}", MIXING[mixing], "model.inner_noise=0.02", *more]
    structure, values, fixed = model(rng, X, Y, *words)
    for name in [name for name in values if name.startswith(f"{LAYER}/kernel")]:
        values[name] = values[name] * (0.7 + 0.6 * rng.rand(*values[name].shape))
    return X, Y, structure, values, fixed


def _copied(own, mixing):
    """The values of a shared layer, and the same kernel and Z for each output."""
    X, Y, shared, values, fixed = _build("none", mixing)
    *_, separate, start, _ = _build(own, mixing)
    copies = {name: np.broadcast_to(v, start[name].shape).copy() for name, v in values.items()}
    return X, Y, fixed, (shared, values), (separate, copies)


@pytest.mark.parametrize("own", ["kernel", "all"])
@pytest.mark.parametrize("form", ["half", "quad"])
@pytest.mark.parametrize(("mixing", "K", "dreg"), CASES)
def test_equal_kernels_are_the_shared_layer(own, form, mixing, K, dreg):
    """Bound, natural gradients, and gradients: those of the copies add up to that of the shared one."""
    X, Y, fixed, *both = _copied(own, mixing)
    results = []
    for structure, values in both:
        bound = IWVI(structure, 2, K, dreg=dreg)
        noise = noise_for(np.random.RandomState(1), bound, N)
        results.append(fast(bound, values, fixed, X, Y, noise, [3, 5], 30, natural=(1, 2), form=form))
    (shared, d_shared, n_shared), (ours, d_ours, n_ours) = results
    assert float(ours) == pytest.approx(float(shared), rel=1e-11)
    assert d_ours.keys() == d_shared.keys()
    for name, gradient in d_ours.items():
        extra = gradient.shape.rank - d_shared[name].shape.rank
        total, scale = tf.reduce_sum(gradient, 0) if extra else gradient, np.abs(d_shared[name]).max()
        np.testing.assert_allclose(total, d_shared[name], rtol=1e-9, atol=1e-9 * scale, err_msg=name)
    for i in (1, 2):
        for mine, theirs in zip(n_ours[i], n_shared[i], strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9 * np.abs(theirs).max())


def _alone(values, p):
    """The values of a shared layer whose kernel and Z are those of output p."""
    own = {f"{LAYER}/kernel/{name}" for name in ("rbf/variance", "rbf/lengthscales", "white/variance")}
    own |= {f"{LAYER}/Z"} if values[f"{LAYER}/Z"].ndim == 3 else set()
    return {name: v[p] if name in own else v for name, v in values.items()}


@pytest.mark.parametrize("own", ["kernel", "all"])
@pytest.mark.parametrize("form", ["half", "quad"])
def test_mean_and_covariance_of_each_output_in_numpy(own, form):
    """Of the K inputs of each point; white noise is on the diagonals of both."""
    *_, structure, values, _ = _build(own, "apart")
    layer, K, C, jitter = structure.layers[1], 3, 4, 1e-8
    batch = prepare(structure, {n: tf.constant(v) for n, v in values.items()}, jitter, (form,) * 3)[0][LAYER]
    H = np.random.RandomState(2).randn(D + 1, K * C)
    mean, form, among = (part.numpy() for part in layer.joint_moments(batch, tf.constant(H), K))
    assert among.shape == form.shape == (len(pairs(K)), D + 1, C)
    assert len({float(v) for v in values[f"{LAYER}/kernel/rbf/variance"]}) == D + 1
    for p in range(D + 1):
        alone = _alone(values, p)
        white = float(alone[f"{LAYER}/kernel/white/variance"])
        for c in range(C):
            expected, covariance = conditional(alone, 1, H[:, c::C].T, p, jitter + white)
            covariance = covariance + white * np.eye(K)
            np.testing.assert_allclose(mean[p, c::C], expected, rtol=1e-7, atol=1e-9)
            found = (form + among)[:, p, c]
            np.testing.assert_allclose(found, [covariance[k, j] for k, j in pairs(K)], rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("own", ["kernel", "all"])
@pytest.mark.parametrize("form", ["half", "quad"])
def test_gradients_against_finite_differences(own, form):
    """Of the definition, in a random direction for each parameter, and in each number of the kernels."""
    X, Y, structure, values, fixed = _build(own)
    bound, tensors = IWVI(structure, 2, 3), raw(values, structure)
    rng = np.random.RandomState(3)
    noise = noise_for(rng, bound, N)
    flat, (Xc, Yc) = tf.constant(noise.reshape(bound.noise_dim, -1)), columns(X, Y)
    at = tf.function(lambda tensors: lower_bound(bound, tensors, Xc, Yc, flat, num_data=30))
    value, gradients, _ = fast(bound, values, fixed, X, Y, noise, [3, 5], 30, form=form)
    assert float(value) == pytest.approx(float(at(tensors)), rel=1e-9)
    for name, gradient in gradients.items():
        shape, ways = gradient.shape, [rng.randn(*gradient.shape)]
        if name.startswith(f"{LAYER}/kernel"):
            ways += list(np.eye(gradient.numpy().size).reshape(-1, *shape))
        for way in ways:
            ends = [float(at(tensors | {name: tensors[name] + step * way})) for step in (1e-5, -1e-5)]
            slope = (ends[0] - ends[1]) / 2e-5
            assert np.sum(gradient * way) == pytest.approx(slope, rel=1e-5, abs=1e-4), name


@pytest.mark.parametrize("K", [3, 10])
def test_jitter_in_float32_follows_the_variance_of_each_output(K):
    """Nearly equal inputs give one draw for each output, however different their variances are."""
    rng, C, variances = np.random.RandomState(4), 50, np.array([0.1, 30.0])
    x, error = 0.01 * rng.randn(K, C), 1e-6 * rng.randn(K, K, C)
    full = np.exp(-0.5 * (x[:, None] - x[None]) ** 2) + error
    entries = np.stack([full[k, j] for k, j in pairs(K)])[:, None] * variances[:, None]  # T, P, C
    entries, eps = tf.constant(entries, tf.float32), rng.randn(2, K, C)
    flat = tf.constant(eps.reshape(2, -1), tf.float32)
    draws = sample(tf.zeros_like(flat), entries, flat, K, enough_jitter(1e-6, entries))
    scaled = draws.numpy().reshape(2, K, C) / np.sqrt(variances)[:, None, None]
    np.testing.assert_allclose(scaled, np.tile(eps[:, :1], (1, K, 1)), atol=0.2)


@pytest.mark.parametrize("own", ["kernel", "all"])
@pytest.mark.parametrize("xla", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_mixed_precision_and_xla_keep_the_gradient(own, xla):
    X, Y, structure, values, fixed = _build(own)
    bound, tensors = IWVI(structure, 1, 3), raw(values, structure)
    flat = tf.constant(noise_for(np.random.RandomState(5), bound, N).reshape(bound.noise_dim, -1))
    names, weight = [n for n in tensors if n not in fixed], tf.constant(4.0, tf.float64)

    def look(dtype, term):
        chunk = (*(tf.cast(A, dtype) for A in (*columns(X, Y), flat)), tf.constant(0))
        numerics = Numerics(tf.constant(1e-4, tf.float64), ("half",) * 3, dtype)
        return value_and_gradients(bound, tensors, [chunk], weight, term, numerics, trainable=names)

    term = tf.function(batch_term(bound), jit_compile=True) if xla else batch_term(bound)
    exact, d_exact, _ = look(tf.float64, batch_term(bound))
    for dtype, tolerance in ((tf.float64, 1e-10), (tf.float32, 1e-3)):
        value, gradients, _ = look(dtype, term)
        assert float(value) == pytest.approx(float(exact), rel=tolerance)
        for name, gradient in d_exact.items():
            gap = float(tf.norm(gradients[name] - gradient)) / (float(tf.norm(gradient)) + 1e-6)
            assert gap < tolerance, name


@pytest.mark.slow
@pytest.mark.parametrize(("own", "precision"), [("all", "mixed"), ("kernel", "mixed"), ("all", "float64")])
def test_trained_by_compiled_steps_the_bound_rises(own, precision):
    """In chunks of a batch; predictions and the posterior of w are there afterwards."""
    words = ["model=lv_gp_gp", f"model.per_output={own}", "inference=iwvi", "inference.importance_samples=3"]
    words += ["model.num_inducing=8", "inference.batch=60", f"precision={precision}", "threads=1"]
    cfg = compose([*words, "engine.xla=true", "engine.chunk_rows=20", "budget.steps=200"])
    rng = np.random.RandomState(0)
    X = rng.randn(60, D)
    Y = np.sin(2 * X[:, :1]) + rng.choice([-1.0, 1.0], (60, 1)) + 0.1 * rng.randn(60, 1)
    made, run = GPModel(cfg), RunContext("0" * 64, Path("none"), 0, 200, None, Silent(), lambda note: None)
    result = made.fit(Split.from_arrays(X, Y), run)
    bounds = [line[2] for line in result.trace]
    assert np.isfinite(bounds).all() and bounds[-1] > bounds[0] + 20.0
    assert all(np.isfinite(v).all() for v in made.parameters().values())
    kernels = made.parameters()[f"{LAYER}/kernel/rbf/lengthscales"]
    assert np.ptp(kernels, 0).max() > 0.01  # equal at the start, each by itself since
    assert np.isfinite(made.predict(X[:5], 20, 0).mean).all()
    assert np.isfinite(made.posterior_latents(X[:5], Y[:5], 4, 0)).all()
