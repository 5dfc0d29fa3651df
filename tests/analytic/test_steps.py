"""Single training steps against gradients of the defining bound: gradient ascent, joint and alternating."""

import numpy as np
import pytest
import tensorflow as tf
from gp_tools import columns, raw_tensors
from test_natgrad import _gradients, _problem, _q, _with

from dgpbench.engine.spec import StepSpec
from dgpbench.engine.trainer import get_trainer
from dgpbench.gp.parameters import unconstrain
from dgpbench.inference import natgrad
from dgpbench.inference.bounds import VI
from dgpbench.inference.gradients import lower_bound
from dgpbench.inference.updates.adam import GradientAscent
from dgpbench.inference.updates.natural import NaturalAdam

RATE, GAMMA = 1e-4, 0.3


def _after_one_step(update_of):
    X, Y, model, values, _ = _problem()
    raw, update = unconstrain(values, model.constraints()), update_of(model)
    spec = StepSpec(
        bound=VI(model),
        update=update,
        shapes=tuple((name, v.shape) for name, v in raw.items()),
        fixed=frozenset(),
        batch=len(X),
        full_batch=True,
        xla=False,
    )
    trainer = get_trainer(spec)
    rates = dict.fromkeys(update.rates, 1.0) | {"learning_rate": RATE, "gamma": GAMMA, "gamma_ramp": 0.0}
    trainer.reset(raw, rates, seed=0, num_data=len(X), jitter=1e-6, data=(X, Y))
    trainer.run(0, np.zeros((1, 0), np.int32))
    return trainer, (X, Y, model, values)


def _gradient(X, Y, model, values):
    """Of the bound as it is defined, by plain differentiation."""
    raw, noise = raw_tensors(values, model), tf.zeros((0, len(X)), tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(raw)
        bound = lower_bound(VI(model), raw, *columns(X, Y), noise, num_data=len(X))
    return {name: g.numpy() for name, g in tape.gradient(bound, raw).items()}


def test_gradient_ascent_is_rate_times_gradient():
    trainer, (X, Y, model, values) = _after_one_step(lambda model: GradientAscent())
    gradient, start = _gradient(X, Y, model, values), unconstrain(values, model.constraints())
    for name, variable in trainer.oracle.raw.items():
        moved = variable.numpy() - start[name]
        np.testing.assert_allclose(moved, RATE * gradient[name], rtol=1e-6, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("alternate", [False, True])
def test_adam_takes_its_gradient_before_or_after_the_natural_step(alternate):
    """Jointly, both updates come from one gradient; in turn, Adam's is taken at the new q(u)."""
    trainer, (X, Y, model, values) = _after_one_step(
        lambda model: NaturalAdam(model, (0,), alternate=alternate)
    )
    m, L = natgrad.natural_step(*_q(values), *_gradients(X, Y, model, values), tf.constant(GAMMA, tf.float64))
    np.testing.assert_allclose(trainer.oracle.raw["layer0/q_mu"].numpy(), m, atol=1e-8)
    moved = _with(values, m, L)
    expected = _gradient(X, Y, model, moved if alternate else values)
    other = _gradient(X, Y, model, values if alternate else moved)
    for name in ("likelihood/variance", "layer0/kernel/rbf/variance", "layer0/Z"):
        moment = trainer.oracle.slots[f"m/{name}"].numpy() / -0.1  # 1 - beta_1 times the descent direction
        np.testing.assert_allclose(moment, expected[name], rtol=1e-5, atol=1e-7, err_msg=name)
        assert not np.allclose(moment, other[name], rtol=1e-2)
