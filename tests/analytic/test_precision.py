"""Mixed precision: gradients near those of float64, and the same final bound; float32 strays, by how much."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from dgpbench.engine.spec import StepSpec
from dgpbench.engine.trainer import Trainer
from dgpbench.gp.deep_gp import prepare, propagate
from dgpbench.gp.parameters import unconstrain
from dgpbench.gp.start import build
from dgpbench.inference.base import Numerics
from dgpbench.inference.bounds import VI
from dgpbench.inference.gradients import batch_term, value_and_gradients
from dgpbench.inference.updates.adam import Adam
from dgpbench.inference.updates.natural import NaturalAdam

RATES = {
    "learning_rate": 0.01,
    "lr_decay": 1.0,
    "lr_decay_steps": 1000,
    "lr_staircase": 1,
    "gamma": 0.1,
    "inner_gamma": 0.1,
    "gamma_initial": 1e-4,
    "gamma_ramp": 40,
    "gamma_decay": 1.0,
    "gamma_decay_steps": 1000,
}
MODEL = {
    "layers": ["gp", "gp"],
    "num_inducing": 30,
    "width": None,
    "max_width": 30,
    "kernel": "rbf",
    "ard": True,
    "kernel_variance": 2.0,
    "lengthscale": 2.0,
    "mean": "auto",
    "inner_noise": 1e-5,
    "inner_noise_trainable": True,
    "inner_q_scale": 1e-5,
    "likelihood_variance": 0.01,
    "layer_overrides": {},
}
JITTER = {"float64": 1e-6, "mixed": 1e-6, "float32": 1e-5}


def _data(N=400, D=4):
    rng = np.random.RandomState(0)
    X = rng.randn(N, D)
    return X, np.sin(X[:, :1] * 2) + 0.3 * np.cos(3 * X[:, 1:2]) + 0.1 * rng.randn(N, 1)


def _trainer(precision, width=None, optimiser="adam", batch=400):
    X, Y = _data()
    model, values, fixed, _ = build({"model": MODEL | {"width": width}}, X, Y, 0)
    raw = unconstrain(values, model.constraints())
    spec = StepSpec(
        VI(model),
        Adam() if optimiser == "adam" else NaturalAdam(model, (1,)),
        tuple((n, v.shape) for n, v in raw.items()),
        frozenset(fixed),
        batch,
        batch == 400,
        precision=precision,
        xla=False,
    )
    trainer = Trainer(spec)
    trainer.reset(raw, RATES, seed=0, num_data=400, jitter=JITTER[precision], data=(X, Y))
    return trainer


def _gradients(trainer, precision, forms=None, jitter=None):
    """Bound and gradients at the point where `trainer` is, in another precision."""
    spec = replace(trainer.spec, precision=precision)
    X, Y = _data()
    noise = np.random.RandomState(1).randn(spec.bound.noise_dim, 400)
    chunk = [tf.constant(a, spec.batch_dtype) for a in (X.T, Y.T, noise)]
    raw = {name: tf.cast(v.read_value(), spec.param_dtype) for name, v in trainer.oracle.raw.items()}
    jitter = tf.constant(jitter or JITTER[precision], spec.param_dtype)
    return value_and_gradients(
        spec.bound,
        raw,
        [(*chunk, tf.constant(0))],
        tf.constant(1.0, spec.param_dtype),
        batch_term(spec.bound),
        Numerics(jitter, forms or spec.forms, spec.batch_dtype),
        trainable=trainer.oracle.trainable,
    )


def _relative_error(ours, reference):
    """|g - g_64| / |g_64| over all parameters together."""
    difference = tf.linalg.global_norm([tf.cast(ours[n], tf.float64) - reference[n] for n in reference])
    return float(difference / tf.linalg.global_norm(list(reference.values())))


# With 1-D inner layers 30 inducing points on a line make K_zz as ill-conditioned as the jitter allows.
@pytest.mark.parametrize("width, limit", [(None, 1e-3), (1, 5e-2)])
@pytest.mark.parametrize("steps", [1, 500])
def test_mixed_gradient_is_near_that_of_float64(width, limit, steps):
    trainer = _trainer("float64", width)
    trainer.run(0, np.zeros((steps, 0), np.int32))
    bound, reference, _ = _gradients(trainer, "float64")
    mixed_bound, mixed, _ = _gradients(trainer, "mixed")
    assert _relative_error(mixed, reference) < limit
    assert float(mixed_bound) == pytest.approx(float(bound), rel=max(limit / 10, 1e-3))


def test_the_quad_form_would_be_wrong_in_mixed_precision():
    """Why `form` is not a free choice: the same gradient through `quad` is off by more than half."""
    trainer = _trainer("float64", 1)
    trainer.run(0, np.zeros((500, 0), np.int32))
    _, reference, _ = _gradients(trainer, "float64")
    _, mixed, _ = _gradients(trainer, "mixed", forms=("quad", "quad"))
    assert _relative_error(mixed, reference) > 0.5


def test_how_far_float32_strays():
    """Everything in float32, at the same jitter: usable gradients, an order of magnitude worse than mixed."""
    trainer = _trainer("float64")
    trainer.run(0, np.zeros((300, 0), np.int32))
    _, reference, _ = _gradients(trainer, "float64", jitter=JITTER["float32"])
    _, single, _ = _gradients(trainer, "float32")
    assert 1e-6 < _relative_error(single, reference) < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("optimiser", ["adam", "ngd_adam"])
def test_mixed_training_ends_at_the_float64_bound(optimiser):
    """Common noise: the same 1000 steps end within a small fraction of the bound's own step-to-step noise."""
    ends = {}
    for precision in ("float64", "mixed"):
        trainer = _trainer(precision, optimiser=optimiser)
        trainer.run(0, np.zeros((800, 0), np.int32))
        ends[precision] = trainer.run(800, np.zeros((200, 0), np.int32))["bound_mean"]
    start = _trainer("float64", optimiser=optimiser).run(0, np.zeros((1, 0), np.int32))["bound_mean"]
    assert abs(ends["mixed"] - ends["float64"]) < 1e-3 * abs(ends["float64"] - start)


@pytest.mark.parametrize("form", ["white", "half"])
def test_a_variance_that_rounding_leaves_below_zero_is_none(form):
    """One input, close inducing points, a q(u) that is sure: a bound must not grow by a negative variance."""
    X = np.linspace(-1, 1, 400)[:, None]
    one = {"layers": ["gp"], "num_inducing": 100, "lengthscale": 1.0}
    model, values, _, _ = build({"model": MODEL | one}, X, X, 0)
    values["layer0/q_sqrt"] = 1e-3 * np.eye(100)[None]
    tensors = {name: tf.constant(v) for name, v in values.items()}
    x, none = tf.constant(X.T, tf.float32), tf.zeros((0, 400))
    prepared, _ = prepare(model, tensors, tf.constant(1e-6, tf.float64), (form,), tf.float32)
    prepared = tf.nest.map_structure(lambda t: tf.cast(t, tf.float32), prepared)
    _, rounded = model.layers[0].conditional(prepared["layer0"], x)
    assert tf.reduce_min(rounded) < 0.0
    assert tf.reduce_min(propagate(model, prepared, x, none)[1]) > 0.0
    exact, _ = prepare(model, tensors, tf.constant(1e-6, tf.float64))
    assert tf.reduce_min(propagate(model, exact, tf.constant(X.T), tf.cast(none, tf.float64))[1]) > 0.0
