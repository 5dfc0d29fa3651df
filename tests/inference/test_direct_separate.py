"""q(u) that is not whitened, in layers with a kernel for each output."""

import numpy as np
import pytest
import tensorflow as tf
from inference_tools import JITTER, columns, data, gradient_gap, tensors, trainer_of

from dgpbench.config import compose
from dgpbench.gp import start
from dgpbench.inference import natgrad
from dgpbench.inference.base import Numerics
from dgpbench.inference.bounds import VI, DirectVI
from dgpbench.inference.gradients import batch_term, lower_bound, value_and_gradients
from dgpbench.inference.natgrad import Direct

N, D, M, NOISE = 20, 2, 4, 0.05
DEEP = ["model=dgp2", f"model.num_inducing={M}", "model.whiten=false", f"model.inner_noise={NOISE}"]


def _deep(own, spread=0.0):
    """Two layers with random q(u), whatever `own` is; kernels and Z of the outputs differ by `spread`."""
    X, Y = data(N, D)
    model, values, *_ = start.build(compose(["inference=fast", *DEEP, f"model.per_output={own}"]), X, Y, 0)
    rng = np.random.RandomState(1)
    for i in (0, 1):
        values[f"layer{i}/q_mu"] = 0.5 * rng.randn(*values[f"layer{i}/q_mu"].shape)
        shape = values[f"layer{i}/q_sqrt"].shape
        values[f"layer{i}/q_sqrt"] = np.tril(rng.randn(*shape)) * 0.1 + 0.5 * np.eye(M)
    for name in ("kernel/rbf/variance", "kernel/rbf/lengthscales", "Z"):
        first = values[f"layer0/{name}"]
        values[f"layer0/{name}"] = first * (1.0 + spread * rng.rand(*first.shape))
    return X, Y, model, values


def _roots(values):
    """L of each output of the first layer (D, M, M), in NumPy."""
    roots = []
    for p in range(D):
        Z = values["layer0/Z"][p] if values["layer0/Z"].ndim == 3 else values["layer0/Z"]
        gap = (Z[:, None] - Z[None]) / values["layer0/kernel/rbf/lengthscales"][p]
        K = values["layer0/kernel/rbf/variance"][p] * np.exp(-0.5 * (gap**2).sum(-1))
        roots.append(np.linalg.cholesky(K + (JITTER + NOISE) * np.eye(M)))
    return np.stack(roots)


def _look(bound, values, X, Y, form, natural=()):
    """Value, gradients and natural pairs, on the same noise for every bound."""
    raw, noise = tensors(bound, values), tf.constant(np.random.RandomState(2).randn(D, N))
    numerics = Numerics(tf.constant(JITTER, tf.float64), (form,) * 2, tf.float64, natural)
    chunks, weight = [(*columns(X, Y), noise, tf.constant(0))], tf.constant(3.0, tf.float64)
    return value_and_gradients(bound, raw, chunks, weight, batch_term(bound), numerics, trainable=list(raw))


@pytest.mark.parametrize("own", ["kernel", "all"])
@pytest.mark.parametrize("form", ["half", "quad"])
def test_equal_kernels_are_the_shared_layer(own, form):
    """Bound, natural gradients, and gradients: those of the copies add up to that of the shared one."""
    results = []
    for kind in ("none", own):
        X, Y, model, values = _deep(kind)
        results.append(_look(DirectVI(model), values, X, Y, form, natural=(0, 1)))
    (shared, d_shared, n_shared), (ours, d_ours, n_ours) = results
    assert float(ours) == pytest.approx(float(shared), rel=1e-11)
    for name, gradient in d_ours.items():
        extra = gradient.shape.rank - d_shared[name].shape.rank
        total = tf.reduce_sum(gradient, 0) if extra else gradient
        scale = np.abs(d_shared[name]).max()
        np.testing.assert_allclose(total, d_shared[name], rtol=1e-9, atol=1e-9 * scale, err_msg=name)
    for i in (0, 1):
        for mine, theirs in zip(n_ours[i], n_shared[i], strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9 * np.abs(theirs).max())


@pytest.mark.parametrize("own", ["kernel", "all"])
def test_the_bound_at_u_is_that_at_v_and_the_start_too(own):
    X, Y, model, values = _deep(own, spread=1.0)
    noise, bounds = tf.constant(np.random.RandomState(2).randn(D, N)), []
    stored = DirectVI(model).initial(values)
    L = _roots(values)
    np.testing.assert_allclose(stored["layer0/q_sqrt"], L @ values["layer0/q_sqrt"], atol=1e-12)
    for p in range(D):
        np.testing.assert_allclose(stored["layer0/q_mu"][p], L[p] @ values["layer0/q_mu"][p], atol=1e-12)
    for bound, given in ((VI(model), values), (DirectVI(model), stored), (DirectVI(model), values)):
        raw = tensors(bound, given)
        bounds.append(float(lower_bound(bound, raw, *columns(X, Y), noise, num_data=3 * N)))
    assert bounds[1] == pytest.approx(bounds[0], rel=1e-10)
    assert bounds[2] != pytest.approx(bounds[0], rel=1e-3)


@pytest.mark.parametrize("own", ["kernel", "all"])
def test_gradients_against_finite_differences(own):
    X, Y, model, values = _deep(own, spread=1.0)
    bound = DirectVI(model)
    names = [f"layer0/{n}" for n in ("Z", "q_mu", "kernel/rbf/variance", "kernel/rbf/lengthscales")]
    assert gradient_gap(bound, bound.initial(values), X, Y, names) < 1e-5


@pytest.mark.parametrize("name", ["natural", "meanvar", "meanvar_sqrt"])
def test_parameters_of_u_with_a_root_for_each_output(name):
    """As with one root, output by output, out and back."""
    rng = np.random.RandomState(1)
    m, R = tf.constant(rng.randn(D, M)), tf.constant(np.tril(rng.randn(D, M, M)) * 0.2 + np.eye(M))
    L = tf.constant(np.tril(rng.randn(D, M, M)) * 0.3 + np.eye(M))
    x = natgrad.xi(name, m, R)
    for turn in ("outward", "inward", "gradient"):
        found = getattr(Direct(L), turn)(name, *x)
        for p in range(D):
            alone = getattr(Direct(L[p]), turn)(name, *(part[p : p + 1] for part in x))
            for ours, theirs in zip(found, alone, strict=True):
                np.testing.assert_allclose(ours[p], theirs[0], atol=1e-12)


@pytest.mark.slow
def test_natural_steps_do_not_notice():
    """Four natural steps of both layers are the same in both coordinates."""
    X, Y, _, values = _deep("all", spread=1.0)
    own = {name: v for name, v in values.items() if "q_" not in name}
    words = [*DEEP, "model.per_output=all", "inference=ngd_all", "inference.hyperparameters=fixed"]
    words += ["inference.natgrad.gamma=0.1", "model.inner_q_scale=0.3", "precision=float64"]
    found = []
    for white in ("true", "false"):
        trainer = trainer_of([*words, f"model.whiten={white}"], X, Y, own)
        found.append((trainer.run(0, np.zeros((4, 0), np.int32))["bound_last"], trainer.values()))
    (white, v), (direct, u) = found
    assert direct == pytest.approx(white, rel=1e-9)
    back = np.einsum("pij,pj->pi", _roots(v), v["layer0/q_mu"])
    np.testing.assert_allclose(u["layer0/q_mu"], back, rtol=1e-6, atol=1e-9)
    assert np.abs(v["layer0/q_mu"]).max() > 1e-3


def test_training_in_mixed_precision_raises_the_bound():
    X, Y = data(N, D)
    trainer = trainer_of([*DEEP, "model.per_output=all", "inference=fast", "precision=mixed"], X, Y)
    bounds = [trainer.run(k, np.zeros((20, 0), np.int32))["bound_last"] for k in (0, 20, 40)]
    assert np.isfinite(bounds).all() and bounds[-1] > bounds[0] + 1.0
    assert all(np.isfinite(v).all() for v in trainer.values().values())
