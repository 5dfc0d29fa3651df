"""A kernel for each output where inducing points pass through the layers: equal kernels are the shared layer,
different ones are GPs of their own in NumPy; gradients, training, checkpoints and what is refused."""

import numpy as np
import pytest
import tensorflow as tf
from inference_tools import (
    JITTER,
    columns,
    data,
    gaussian_kl,
    gradient_gap,
    mean_of_draws,
    resumes_bitwise,
    tensors,
)

from dgpbench.api.fitted import train
from dgpbench.config import compose
from dgpbench.config.classes import create_method
from dgpbench.data import Split
from dgpbench.errors import UserError
from dgpbench.gp.layer import SeparateLayer
from dgpbench.gp.parameters import scope
from dgpbench.gp.propagation import Preparation
from dgpbench.gp.start import build
from dgpbench.inference.base import Numerics
from dgpbench.inference.drawn import normals, stream
from dgpbench.inference.gradients import batch_term, lower_bound, value_and_gradients
from dgpbench.models.base import create

METHODS = ("global_inducing", "locations")
KEY = tf.constant([3, 4])


def _words(method, own, *more, M=4):
    words = ["model=dgp2", f"inference={method}", f"model.per_output={own}", f"model.num_inducing={M}"]
    return [*words, "model.inner_noise=0.05", *more]


def _bound(method, own, X, Y, *more, M=4, differ=False):
    """Bound and values with a random q away from its start, the same numbers whatever `own` is; with `differ`
    the kernels of the outputs are different."""
    cfg = compose(_words(method, own, "precision=float64", *more, M=M))
    model, values, *_ = build(cfg, X, Y, 0)
    bound, rng = create_method(cfg).bound(model), np.random.RandomState(1)
    values = bound.initial(values)
    for name in sorted(n for n in values if "/q_" in n):
        v = rng.randn(*values[name].shape)
        is_root = v.shape[-2:] == (M, M)
        values[name] = 0.4 * np.eye(M) + 0.1 * np.tril(v) if is_root else values[name] + 0.3 * v
    if differ:
        for name in sorted(n for n in values if n.startswith("layer0/kernel")):
            values[name] = values[name] * rng.uniform(0.6, 1.6, values[name].shape)
    return bound, values


def _trained_step(bound, values, X, Y, dtype=tf.float64):
    """Value and gradients as a training step takes them, on one key and noise."""
    raw, arrays = tensors(bound, values), columns(X, Y)
    noise = tf.constant(np.random.RandomState(2).randn(bound.noise_dim, bound.columns * len(X)))
    exact = dtype == tf.float64
    numerics = Numerics(JITTER, bound.forms(len(X), exact), dtype, (), tf.constant(2.0 * len(X), tf.float64))
    chunks = [(*(tf.cast(A, dtype) for A in (*arrays, noise)), tf.constant(0))]
    weight, term = tf.constant(2.0 / bound.repeats, tf.float64), batch_term(bound)
    return value_and_gradients(bound, raw, chunks, weight, term, numerics, trainable=list(raw), key=KEY)[:2]


CASES = [(method, D, ()) for method in METHODS for D in (2, 3)]
CASES += [("global_inducing", 3, ("model.inner_gps=2",)), ("locations", 2, ("model.mean=linear_trained",))]


@pytest.mark.parametrize("method, D, more", CASES)
def test_equal_kernels_are_the_shared_layer(method, D, more):
    """Bound and gradients on the same noise; those of the copies add up to that of the shared one."""
    X, Y = data(15, D=D)
    steps = []
    for own in ("none", "kernel"):
        bound, values = _bound(method, own, X, Y, *more, "inference.samples=2")
        assert isinstance(bound.model.layers[0], SeparateLayer) == (own == "kernel")
        steps.append(_trained_step(bound, values, X, Y))
    (shared, d_shared), (ours, d_ours) = steps
    assert float(ours) == pytest.approx(float(shared), rel=1e-9)
    assert d_ours.keys() == d_shared.keys()
    for name, gradient in d_ours.items():
        expected = d_shared[name].numpy()
        total = gradient if gradient.shape == expected.shape else tf.reduce_sum(gradient, 0)
        scale = np.abs(expected).max()
        assert scale > 0 or name == "layer1/Z"  # which only tells a shape
        np.testing.assert_allclose(total, expected, rtol=1e-9, atol=1e-9 * scale, err_msg=name)


def test_equal_kernels_start_as_the_shared_layer():
    X, Y = data(9, D=2)
    for method in METHODS:
        starts = []
        for own in ("none", "kernel"):
            cfg = compose(_words(method, own, "precision=float64", "model.inner_q_scale=0.3"))
            model, values, *_ = build(cfg, X, Y, 0)
            values["layer0/q_mu"] = np.random.RandomState(0).randn(2, 4)
            starts.append(create_method(cfg).bound(model).initial(values))
        for name in (n for n in starts[0] if "/q_" in n):
            np.testing.assert_allclose(starts[1][name], starts[0][name], atol=1e-12, err_msg=name)


# ---- different kernels, in NumPy ---------------------------------------------------------------------------


def _rbf(variance, lengthscales, A, B):
    """k(A, B) for rows."""
    return variance * np.exp(-0.5 * (((A[:, None] - B[None]) / lengthscales) ** 2).sum(-1))


def _kernels(values):
    """k(A, B) of each output of the first layer, and their white noise."""
    own = scope(values, "layer0/kernel")
    each = zip(own["rbf/variance"], own["rbf/lengthscales"], strict=True)
    return [lambda A, B, v=v, ls=ls: _rbf(v, ls, A, B) for v, ls in each], own["white/variance"]


def _first_posterior(method, values, p, K):
    """Mean and covariance of output p's u in the first layer, with the identity as mean function."""
    m, Z = values["layer0/q_mu"][p], values["layer0/Z"]
    if method == "locations":
        R = values["layer0/q_sqrt"][p]
        return m - Z[:, p], R @ R.T
    return _regression(K, m, values["layer0/q_noise"])


def _regression(K, v, R):
    gain = np.linalg.solve(K + R @ R.T, K).T
    return gain @ v, K - gain @ K


def _first_layer(method):
    """A bound with different kernels, its values, and the first layer: parameters, K and K in NumPy."""
    X, Y = data(7, D=2)
    bound, values = _bound(method, "kernel", X, Y, differ=True)
    held = {name: tf.constant(v) for name, v in values.items()}
    layer, p = bound.model.layers[0], scope(held, "layer0")
    K = layer.gram(p, JITTER)
    kernels, white = _kernels(values)
    Z, eye = values["layer0/Z"], np.eye(4)
    grams = [k(Z, Z) + (JITTER + w) * eye for k, w in zip(kernels, white, strict=True)]
    np.testing.assert_allclose(K, grams, rtol=1e-12)
    assert not np.allclose(grams[0], grams[1], atol=0.05)
    return bound, values, layer, p, K, grams


@pytest.mark.parametrize("method", METHODS)
def test_a_layer_given_its_inducing_pairs_is_a_gp_for_each_output(method):
    """Mean and variance at new inputs, from the inputs and outputs of one draw, in every form."""
    bound, values, layer, p, K, grams = _first_layer(method)
    found = bound.given(layer, p, K, tf.transpose(p["Z"]), KEY)
    Z, H = values["layer0/Z"], np.random.RandomState(5).randn(9, 2)
    u = found.outputs.numpy() - Z.T
    kernels, white = _kernels(values)
    for form in ("white", "half", "quad"):
        prepared, _ = layer.prepare(p, Preparation(tf.constant(JITTER, tf.float64), form, q=found.q))
        mean, var = layer.conditional(prepared, *columns(H))
        for i, (k, gram) in enumerate(zip(kernels, grams, strict=True)):
            a = np.linalg.solve(gram, k(Z, H))
            np.testing.assert_allclose(mean[i], H[:, i] + a.T @ u[i], rtol=1e-9, atol=1e-9)
            expected = np.diag(k(H, H)) + white[i] - (k(Z, H) * a).sum(0)
            np.testing.assert_allclose(var[i], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_the_posterior_of_a_layer_is_that_of_each_output(method):
    """q(u) before a draw, its KL, and the draw that its normals make."""
    bound, values, layer, p, K, grams = _first_layer(method)
    q, kl, _ = bound.given(layer, p, K, tf.transpose(p["Z"]), None)
    drawn = bound.given(layer, p, K, tf.transpose(p["Z"]), KEY)
    total, Z, eye = 0.0, values["layer0/Z"], np.eye(4)
    for i, gram in enumerate(grams):
        L = np.linalg.cholesky(gram)
        m, S = _first_posterior(method, values, i, gram)
        white = q.root[i] @ tf.transpose(q.root[i]) if q.excess is None else eye + q.excess[i]
        np.testing.assert_allclose(L @ q.mean[i].numpy(), m, atol=1e-10)
        np.testing.assert_allclose(L @ white.numpy() @ L.T, S, atol=1e-10)
        total += gaussian_kl(m, S, gram)
        np.testing.assert_allclose(drawn.outputs[i], Z[:, i] + _draw(method, values, i, gram), atol=1e-10)
    assert float(kl) == pytest.approx(total, rel=1e-10)
    assert float(drawn.kl) == float(kl)


def _draw(method, values, p, K, key=KEY):
    """u of output p of the first layer that a key makes: m + R e, or a prior draw that v corrects."""
    P, M = values["layer0/q_mu"].shape
    if method == "locations":
        m, e = values["layer0/q_mu"][p] - values["layer0/Z"][:, p], normals(key, (P, M), tf.float64)[p]
        return m + values["layer0/q_sqrt"][p] @ e.numpy()
    w, e = normals(key, (2, M, P), tf.float64).numpy()[:, :, p]
    R, prior = values["layer0/q_noise"], np.linalg.cholesky(K) @ w
    return prior + K @ np.linalg.solve(K + R @ R.T, values["layer0/q_mu"][p] - prior - R @ e)


@pytest.mark.parametrize("method", METHODS)
def test_the_bound_of_two_layers_is_that_of_numpy(method):
    """On the same noise: the first layer output by output, the last one shared."""
    X, Y = data(7, D=2)
    bound, values = _bound(method, "kernel", X, Y, differ=True)
    noise = np.random.RandomState(6).randn(bound.noise_dim, len(X))
    raw = tensors(bound, values)
    found = lower_bound(bound, raw, *columns(X, Y), tf.constant(noise), num_data=len(X), key=KEY)
    own, (kernels, white) = stream(stream(KEY, 0), 0), _kernels(values)
    Z, eye, H, upper, kl = values["layer0/Z"], np.eye(4), X.copy(), values["layer0/Z"].copy(), 0.0
    for i, (k, w) in enumerate(zip(kernels, white, strict=True)):
        K = k(Z, Z) + (JITTER + w) * eye
        kl += gaussian_kl(*_first_posterior(method, values, i, K), K)
        u, a = _draw(method, values, i, K, own), np.linalg.solve(K, k(Z, X))
        var = np.diag(k(X, X)) + w - (k(Z, X) * a).sum(0)
        H[:, i] += a.T @ u + np.sqrt(var) * noise[i]
        upper[:, i] += u
    last = scope(values, "layer1/kernel/rbf")
    K, k = (_rbf(last["variance"], last["lengthscales"], upper, A) for A in (upper, H))
    K = K + JITTER * eye
    if method == "locations":
        m, S = values["layer1/q_mu"][0], values["layer1/q_sqrt"][0] @ values["layer1/q_sqrt"][0].T
    else:
        m, S = _regression(K, values["layer1/q_mu"][0], values["layer1/q_noise"])
    a, s2 = np.linalg.solve(K, k), float(values["likelihood/variance"])
    var = float(last["variance"]) - (k * a).sum(0) + (a * (S @ a)).sum(0)
    terms = -0.5 * (np.log(2 * np.pi * s2) + ((Y[:, 0] - a.T @ m) ** 2 + var) / s2)
    assert float(found) == pytest.approx(terms.sum() - kl - gaussian_kl(m, S, K), rel=1e-8)


# ---- gradients, training, checkpoints ----------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_gradient_against_finite_differences(method):
    X, Y = data(6, D=2)
    bound, values = _bound(method, "kernel", X, Y, M=3, differ=True)
    names = [n for n in values if "/q_" in n or n.endswith(("lengthscales", "variance", "layer0/Z"))]
    assert gradient_gap(bound, values, X, Y, names) < 1e-5


@pytest.mark.parametrize("method", METHODS)
def test_mixed_precision_keeps_the_gradient(method):
    X, Y = data(15, D=2)
    bound, values = _bound(method, "kernel", X, Y, differ=True)
    exact, d_exact = _trained_step(bound, values, X, Y)
    mixed, d_mixed = _trained_step(bound, values, X, Y, tf.float32)
    assert float(mixed) == pytest.approx(float(exact), rel=1e-5)
    for name, gradient in d_exact.items():
        assert float(tf.norm(d_mixed[name] - gradient)) <= 1e-3 * float(tf.norm(gradient)), name


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_training_raises_the_bound_and_predictions_are_finite(method):
    """And a model made from the stored parameters predicts the same."""
    X, Y = data(30, D=2)
    more = ["budget.steps=150", "model.jitter=1e-3", "engine.xla=false", "threads=1"]
    cfg = compose(_words(method, "kernel", "precision=float64", *more, M=6))
    model, start, *_ = build(cfg, X, Y, 0)
    bound = create_method(cfg).bound(model)
    made = train(cfg, Split.from_arrays(X, Y))
    values = made.parameters()
    (before, low), (after, high) = (
        mean_of_draws(bound, v, X, Y, 20, jitter=1e-3) for v in (bound.initial(start), values)
    )
    assert after - before > 10 * np.hypot(low, high)
    scales = values["layer0/kernel/rbf/lengthscales"]
    assert scales.shape == (2, 2) and not np.allclose(scales[0], scales[1], rtol=1e-3)
    other = create(cfg)
    other.load_parameters(values)
    new = np.random.RandomState(7).uniform(-3, 3, (11, 2))
    found, again = (one.predict(new, 20, 0) for one in (made, other))
    assert found.problem() is None and np.isfinite(found.mean).all() and np.all(found.var > 0)
    assert np.array_equal(again.mean, found.mean) and np.array_equal(again.var, found.var)


@pytest.mark.parametrize("method", METHODS)
def test_minibatches_checkpoints_and_blocks_end_in_the_same_bits(method):
    X, Y = data(20, D=2)
    assert resumes_bitwise(_words(method, "kernel", "precision=mixed"), X, Y)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("field", ["model.per_output", "model.layer_overrides.0.per_output"])
def test_inducing_inputs_of_their_own_are_refused_in_one_line(method, field):
    words = ["model=dgp2", f"inference={method}"]
    assert compose([*words, f"{field}=kernel"])
    with pytest.raises(
        UserError, match=f"^inference={method} takes model.per_output=kernel, not all"
    ) as error:
        compose([*words, f"{field}=all"])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("method", ["joint", "star"])
def test_one_gaussian_over_all_layers_still_needs_one_kernel(method):
    with pytest.raises(UserError, match="one kernel for all outputs; set model.per_output=none"):
        compose(["model=dgp2", f"inference={method}", "precision=float64", "model.per_output=kernel"])
