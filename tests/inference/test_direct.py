"""q(u) that is not whitened: the same bound at u = L v, GPflow's SVGP, natural steps that do not notice."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from inference_tools import (
    JITTER,
    columns,
    data,
    gradient_gap,
    model_of,
    rbf,
    resumes_bitwise,
    tensors,
    trainer_of,
)

from dgpbench.config import compose
from dgpbench.errors import UserError
from dgpbench.inference import natgrad
from dgpbench.inference.base import Numerics
from dgpbench.inference.bounds import VI, DirectVI
from dgpbench.inference.gradients import batch_term, lower_bound, value_and_gradients
from dgpbench.inference.natgrad import Direct

SMALL = ["model=sgp", "model.num_inducing=5", "dataset=step", "precision=float64"]
DEEP = [*SMALL, "model=dgp2", "model.num_inducing=4"]
FIXED = "inference.hyperparameters=fixed"
DIRECT = "model.whiten=false"


def _model(words=DEEP, D=1):
    X, Y = data(D=D)
    return X, Y, *model_of(compose(["inference=fast", *words]), X, Y)


def _root(values, layer):
    Z = values[f"layer{layer}/Z"]
    white = float(values.get(f"layer{layer}/kernel/white/variance", 0.0))
    return np.linalg.cholesky(rbf(values, Z, Z, layer) + (JITTER + white) * np.eye(len(Z)))


def _out(model, values):
    """The same q(u) in direct coordinates, by NumPy."""
    out = dict(values)
    for i in model.gps:
        L, (mean, root) = _root(values, i), model.parameter_names(i)
        out |= {mean: values[mean] @ L.T, root: L @ values[root]}
    return out


def _bound(bound, values, X, Y):
    noise = tf.constant(np.random.RandomState(0).randn(max(bound.noise_dim, 1), len(X)))
    return float(lower_bound(bound, tensors(bound, values), *columns(X, Y), noise, num_data=3 * len(X)))


def test_the_bound_at_u_is_that_at_v():
    X, Y, model, values, _ = _model()
    ours, white = _bound(DirectVI(model), _out(model, values), X, Y), _bound(VI(model), values, X, Y)
    assert ours == pytest.approx(white, rel=1e-10)
    assert _bound(DirectVI(model), values, X, Y) != pytest.approx(white, rel=1e-3)


def test_the_start_is_the_same_distribution():
    _, _, model, values, _ = _model()
    start, expected = DirectVI(model).initial(values), _out(model, values)
    for name in expected:
        np.testing.assert_allclose(start[name], expected[name], atol=1e-12)


def test_one_layer_is_gpflows_unwhitened_svgp():
    X, Y, model, values, _ = _model(SMALL, D=2)
    kernel = gpflow.kernels.SquaredExponential(
        values["layer0/kernel/rbf/variance"], values["layer0/kernel/rbf/lengthscales"]
    )
    theirs = gpflow.models.SVGP(
        kernel,
        gpflow.likelihoods.Gaussian(0.1),
        values["layer0/Z"].copy(),
        q_mu=values["layer0/q_mu"].T.copy(),
        q_sqrt=np.tril(values["layer0/q_sqrt"]),
        whiten=False,
        num_data=3 * len(X),
    )
    assert _bound(DirectVI(model), values, X, Y) == pytest.approx(float(theirs.elbo((X, Y))), rel=1e-8)


@pytest.mark.slow
def test_gradients_of_everything_against_finite_differences():
    X, Y, model, values, _ = _model()
    names = [name for name in values if "white" not in name]
    assert gradient_gap(DirectVI(model), _out(model, values), X, Y, names) < 1e-5


def test_gradients_of_the_kernel_beside_a_natural_layer():
    """The KL of a natural layer keeps its gradient in the kernel and Z, and has none in m and S."""
    X, Y, model, values, _ = _model(SMALL)
    bound, names = DirectVI(model), ["layer0/Z", "layer0/kernel/rbf/variance"]
    raw, noise = tensors(bound, _out(model, values)), tf.zeros((1, len(X)), tf.float64)
    chunks, one = [(*columns(X, Y), noise, tf.constant(0))], tf.constant(1.0, tf.float64)

    def look(bound, raw, natural):
        numerics = Numerics(JITTER, ("white",), tf.float64, natural)
        return value_and_gradients(bound, raw, chunks, one, batch_term(bound), numerics, trainable=names)

    _, beside, pairs = look(bound, raw, (0,))
    _, alone, _ = look(bound, raw, ())
    white = look(VI(model), tensors(VI(model), values), (0,))
    for name in names:
        np.testing.assert_allclose(beside[name], alone[name], rtol=1e-9)
        assert np.abs(beside[name] - white[1][name]).max() > 1e-3  # at fixed u, not at fixed v
    for ours, theirs in zip(pairs[0], white[2][0], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)


@pytest.mark.slow
def test_natural_steps_do_not_notice():
    """Six natural steps of both layers are the same in both coordinates."""
    X, Y = data()
    words = [*DEEP, "inference=ngd_all", FIXED, "inference.natgrad.gamma=0.1", "model.inner_q_scale=0.3"]
    found = []
    for more in ((), (DIRECT,)):
        trainer = trainer_of([*words, *more], X, Y)
        found.append((trainer.run(0, np.zeros((6, 0), np.int32))["bound_last"], trainer.values()))
    (white, v), (direct, u) = found
    assert direct == pytest.approx(white, rel=1e-9)
    for name in ("layer0/q_mu", "layer1/q_mu"):
        np.testing.assert_allclose(u[name], v[name] @ _root(v, int(name[5])).T, atol=1e-7)
    assert np.abs(v["layer1/q_mu"]).max() > 0.1


@pytest.mark.parametrize("name", ["natural", "meanvar", "meanvar_sqrt"])
def test_parameters_of_u_and_the_gradient_in_them(name):
    """xi of u by its definition, from N(L m, L S L'); and what a step in xi of u adds, by differences."""
    rng = np.random.RandomState(1)
    m, R = tf.constant(rng.randn(2, 4)), tf.constant(np.tril(rng.randn(2, 4, 4)) * 0.2 + np.eye(4))
    L = tf.constant(np.tril(rng.randn(4, 4)) * 0.3 + np.eye(4))
    where = Direct(L)
    x = where.outward(name, *natgrad.xi(name, m, R))
    for ours, theirs in zip(x, natgrad.xi(name, tf.linalg.matvec(L, m), L @ R), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
    for back, first in zip(where.inward(name, *x), natgrad.xi(name, m, R), strict=True):
        np.testing.assert_allclose(back, first, atol=1e-12)
    d2 = tf.constant(rng.randn(2, 4, 4))
    lower, both = tf.linalg.band_part(d2, -1, 0), d2 + tf.linalg.matrix_transpose(d2)
    d = tf.constant(rng.randn(2, 4)), lower if name.endswith("sqrt") else both
    step = tf.constant(rng.randn(2, 4)), R if name.endswith("sqrt") else R @ tf.linalg.matrix_transpose(R)
    inside = where.inward(name, *step)  # linear: <gradient in xi of u, step> = <gradient in xi of v, inside>
    ours = sum(float(tf.reduce_sum(a * b)) for a, b in zip(where.gradient(name, *d), step, strict=True))
    assert ours == pytest.approx(sum(float(tf.reduce_sum(a * b)) for a, b in zip(d, inside, strict=True)))


@pytest.mark.slow
def test_line_searches():
    """Along the natural gradient they are the same; the ordinary gradient is that of what is stored."""
    X, Y = data()
    words = [*SMALL, "inference=ngd_adam", FIXED, "inference.natgrad.step=linesearch"]
    found = []
    for more in ((), (DIRECT,)):
        trainer = trainer_of([*words, "inference.natgrad.parameterisation=meanvar_sqrt", *more], X, Y)
        found.append([trainer.run(k, np.zeros((1, 0), np.int32))["bound_last"] for k in range(2)])
    assert found[0][1] > found[0][0] + 1.0
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)
    _, x, _, ordinary = trainer.driver._look(tf.constant(0))
    bound, noise = trainer.spec.bound, tf.zeros((1, len(X)), tf.float64)
    raw = {name: v.read_value() for name, v in trainer.oracle.raw.items()}
    names = ["layer0/q_mu", "layer0/q_sqrt"]
    with tf.GradientTape() as tape:
        tape.watch(raw)
        value = lower_bound(bound, raw, *columns(X, Y), noise, num_data=len(X))
    expected = tape.gradient(value, [raw[name] for name in names])
    for ours, theirs, place, name in zip(ordinary, expected, x, names, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(place, raw[name], rtol=1e-9, atol=1e-9)  # xi is what is stored


@pytest.mark.slow
def test_resumed_runs_end_in_the_same_bits():
    X, Y = data()
    assert resumes_bitwise([*DEEP, DIRECT, "inference=ngd_adam", "inference.natgrad.alternate=true"], X, Y)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["inference=sghmc", "budget.steps=20000"], "model.whiten=false is for inference=dsvi, gd"),
        (["inference=joint", "precision=float64"], "inference=joint has coordinates of its own"),
        (
            ["inference=ngd_adam", "inference.natgrad.parameterisation=natural_sqrt"],
            "natural_sqrt needs a whitened",
        ),
        (["inference=iwvi", "model=lv_gp"], "needs inference.bound=vi; it is iwvi"),
        (["inference=dsvi", "precision=float32"], "use precision=mixed or float64"),
    ],
)
def test_what_does_not_fit_is_refused(words, message):
    with pytest.raises(UserError, match=message):
        compose([DIRECT, *words])
