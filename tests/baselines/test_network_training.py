"""Networks in the engine's loop: the first steps by hand, resuming, streaming, precision, divergence."""

import os
import signal

import numpy as np
import pytest
from baseline_tools import context, linear_data, make, terms

from dgpbench.engine import checkpoint
from dgpbench.engine.batches import Batches
from dgpbench.engine.context import Silent
from dgpbench.engine.platform import tf
from dgpbench.engine.spec import StepSpec
from dgpbench.engine.trainer import Trainer
from dgpbench.errors import Diverged, Interrupted
from dgpbench.gp.parameters import unconstrain
from dgpbench.inference.gradients import whole_term
from dgpbench.inference.updates.adam import Adam
from dgpbench.models.baselines.cvae import ConditionalVAE

NAMES = ("cvae_50", "mdn")
BATCH = "inference.batch=64"


class StopAt(Silent):
    """Sends this process a signal once training has passed a step."""

    def __init__(self, step):
        self.step = step

    def update(self, step, bound, rate, left):
        if step >= self.step:
            self.step = 1 << 60
            os.kill(os.getpid(), signal.SIGTERM)


def fit(folder, *overrides, split=None, **kwargs):
    model = make(BATCH, *overrides)
    result = model.fit(split or linear_data(), context(folder, **kwargs))
    return model.parameters(), result


def same(a, b):
    return all(np.array_equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("samples", [1, 3])
def test_two_steps_by_hand(samples):
    """Minibatch, noise and scale of the bound, and Adam with its decay, written again in numpy."""
    split, network = linear_data(N=40), ConditionalVAE(samples, dim=2, hidden=(3,))
    batches = Batches(40, 8, seed=5)
    raw = unconstrain(network.initial(np.random.RandomState(0)), network.constraints())
    shapes = tuple((name, v.shape) for name, v in raw.items())
    trainer = Trainer(StepSpec(network, Adam(), shapes, frozenset(), 8, full_batch=False, xla=False))
    adam = {"learning_rate": 0.1, "lr_decay": 0.5, "lr_decay_steps": 1.0, "lr_staircase": 1.0}
    trainer.reset(raw, adam, seed=5, num_data=40, data=(split.X_train, split.Y_train))
    slots = {name: (0.0, 0.0) for name in raw}
    for step in range(2):
        rows = batches.rows(step, 1)
        X, Y = split.take_train(rows[0])
        noise = tf.random.stateless_normal((1, samples * 8), (5, step), dtype=tf.float32, alg="philox")
        noise = noise.numpy().astype(float).T
        tile = [np.tile(A, (samples, 1)) for A in (X, Y)]
        bound = 40 / (8 * samples) * terms(network, trainer.values(), *tile, noise).sum()
        tensors = {name: tf.constant(v) for name, v in raw.items()}
        columns = [tf.constant(A.T) for A in (X, Y, noise)]
        scale = tf.constant(40 / (8 * samples), tf.float64)
        gradients = whole_term(network)(tensors, *columns, scale)[1]
        for name, g in gradients.items():
            m, v = slots[name]
            m, v = 0.9 * m + 0.1 * g.numpy(), 0.999 * v + 0.001 * g.numpy() ** 2
            slots[name] = m, v
            correction = np.sqrt(1 - 0.999 ** (step + 1)) / (1 - 0.9 ** (step + 1))
            raw[name] = raw[name] + 0.1 * 0.5**step * correction * m / (np.sqrt(v) + 1e-8)
        report = trainer.run(step, rows)
        assert report["bound_last"] == report["bound_mean"] == pytest.approx(bound, rel=1e-12)
        for (
            name,
            variable,
        ) in trainer.oracle.raw.items():  # Adam's beta2 is rounded to float32: 1 - beta2 by 1e-5
            np.testing.assert_allclose(variable.numpy(), raw[name], atol=3e-6)
            raw[name] = variable.numpy()


@pytest.mark.parametrize("name", NAMES)
def test_interrupted_and_resumed_equals_uninterrupted_bitwise(name, tmp_path):
    whole, _ = fit(tmp_path / "a", f"model={name}")
    with pytest.raises(Interrupted):
        fit(tmp_path / "b", f"model={name}", reporter=StopAt(10))
    assert (tmp_path / "b" / checkpoint.NAME).exists()
    resumed, result = fit(tmp_path / "b", f"model={name}")
    assert 10 <= result.resumed_from[0] < 60 and result.steps == 60
    assert same(whole, resumed)


@pytest.mark.parametrize("name", NAMES)
def test_streaming_and_blocks_do_not_matter_bitwise(name, tmp_path):
    resident, _ = fit(tmp_path / "a", f"model={name}")
    streamed, _ = fit(tmp_path / "b", f"model={name}", "engine.memory_limit_gb=1e-9")
    blocks, _ = fit(tmp_path / "c", f"model={name}", block_seconds=1e-6)
    assert same(resident, streamed) and same(resident, blocks)


def test_full_batches_streamed_or_not(tmp_path):
    resident, _ = fit(tmp_path / "a", "model=cvae_50", "inference.batch=1000", steps=10)
    streamed, _ = fit(
        tmp_path / "b", "model=cvae_50", "inference.batch=1000", "engine.memory_limit_gb=1e-9", steps=10
    )
    assert same(resident, streamed)


def test_a_reused_trainer_starts_afresh(tmp_path):
    first, _ = fit(tmp_path / "a", "model=mdn", steps=20)
    other, _ = fit(tmp_path / "b", "model=mdn", split=linear_data(seed=1), steps=20)
    again, _ = fit(tmp_path / "c", "model=mdn", steps=20)
    assert same(first, again) and not same(first, other)


@pytest.mark.parametrize("name", NAMES)
def test_float32_follows_float64(name, tmp_path):
    """Same minibatches and noise: after 60 steps they differ by rounding, and not by nothing."""
    double, a = fit(tmp_path / "a", f"model={name}")
    single, b = fit(tmp_path / "b", f"model={name}", "precision=float32")
    assert not same(double, single)
    assert b.bound == pytest.approx(a.bound, rel=1e-3)
    for key in double:
        np.testing.assert_allclose(single[key], double[key], atol=2e-3)
    mixed, _ = fit(tmp_path / "c", f"model={name}", "precision=mixed")
    assert same(double, mixed)


@pytest.mark.slow
def test_xla_gives_the_same_numbers(tmp_path):
    plain, _ = fit(tmp_path / "a", "model=cvae_50", steps=20)
    compiled, _ = fit(tmp_path / "b", "model=cvae_50", "engine.xla=true", steps=20)
    for key in plain:
        np.testing.assert_allclose(compiled[key], plain[key], rtol=1e-8, atol=1e-10)


def test_a_hopeless_run_diverges_at_once_with_the_reason(tmp_path):
    split = linear_data()
    split.Y[7] = 1e200  # the square overflows
    notes, run = [], context(tmp_path)
    run.note = notes.append
    with pytest.raises(Diverged, match=r"the bound is not finite, within \d+ steps of step \d+$"):
        make("model=cvae_50", "inference.batch=1000").fit(split, run)
    assert run.recoveries == [] and notes == []
