"""The stop rules: the step at which they end a run, its bits with kills in between, and what they look at."""

import signal

import numpy as np
import pytest
from test_loop import BASE, StopAt, _fit, _same, _split

from dgpbench.config import compose
from dgpbench.config.derived import budget_text, planned_steps
from dgpbench.engine.context import Stopping, StopRule
from dgpbench.errors import Interrupted, UserError

RULE = StopRule("converged", window=20, tolerance=0.05, patience=2)


class Scripted:
    """A trainer whose bound sums are those of a list."""

    num_data = 10

    def __init__(self, means):
        self.sums = [mean * 10 * 20 for mean in means]
        self.w = 0.0

    def take_bound_sum(self):
        self.w += 1.0
        return self.sums.pop(0)

    def state(self):
        return {"raw/w": np.asarray(self.w), "slot/m": np.zeros(2)}

    def restore(self, state):
        self.w = float(state["raw/w"])


def _look(stopping, trainer, count):
    for step in range(1, 20 * count + 1):
        stopping.after(step, trainer)
        if stopping.over:
            return step
    return None


def test_the_end_is_two_looks_after_the_last_gain():
    stopping = Stopping(RULE)
    trainer = Scripted([-3.0, -2.0, -1.96, -1.97, 0.0])
    assert _look(stopping, trainer, 5) == 80  # gains at 20 and 40; 0.04 and 0.03 are none
    assert stopping.gained == 40


def test_slow_gains_add_up():
    """0.03 is no gain and 0.06 in two looks is one."""
    stopping = Stopping(RULE)
    assert _look(stopping, Scripted([-3.0 + 0.03 * i for i in range(7)]), 7) is None
    assert stopping.gained == 140


def test_validation_keeps_the_best_parameters():
    values = iter([-3.0, -1.0, -2.0, -2.5])
    stopping = Stopping(StopRule("validation", 20, 0.0, 2), lambda step: next(values))
    trainer = Scripted([0.0] * 4)
    assert _look(stopping, trainer, 4) == 80
    found = stopping.finish(trainer)
    assert trainer.w == 2.0  # as it was at the second look
    assert found["best_step"] == 40 and found["stopped"] and len(found["looks"]) == 4


def test_killed_and_resumed_stops_at_the_same_step_with_the_same_bits(tmp_path):
    rule = StopRule("converged", window=30, tolerance=0.5, patience=1)
    whole, result = _fit(tmp_path / "a", steps=2000, stop=rule)
    assert result.stopping["stopped"] and result.steps < 2000 and result.steps % 30 == 0
    for step in (25, 55):
        with pytest.raises(Interrupted):
            _fit(
                tmp_path / "b",
                steps=2000,
                stop=rule,
                reporter=StopAt(step, signal.SIGTERM),
                block_seconds=0.003,
            )
    resumed, again = _fit(tmp_path / "b", steps=2000, stop=rule)
    assert len(again.resumed_from) == 2 and again.steps == result.steps
    assert again.stopping == result.stopping
    assert _same(whole, resumed)


def test_a_look_is_the_mean_bound_of_its_window_per_row(tmp_path):
    """Against the trace of a run in blocks of one step."""
    rule = StopRule("converged", window=20, tolerance=1e9, patience=2)
    _, result = _fit(tmp_path, steps=200, stop=rule, block_seconds=1e-9)
    assert result.steps == 60  # the first look is a gain; then two without
    ends = np.array([line[0] for line in result.trace])
    totals = np.cumsum(np.diff(ends, prepend=0) * [line[2] for line in result.trace])  # of the blocks
    expected = np.diff(totals[np.isin(ends, (20, 40, 60))], prepend=0.0) / (20 * 240)
    np.testing.assert_allclose([value for _, value in result.stopping["looks"]], expected, rtol=1e-12)


def test_validation_stop_on_the_rows_of_the_protocol(tmp_path):
    from dataclasses import replace

    split = _split()
    held = replace(split, rows_train=np.arange(200), rows_valid=np.arange(200, 240))
    cfg = BASE | {"protocol": {"validation": 0.1, "test_samples": 5}}
    notes = []
    rule = StopRule("validation", window=10, tolerance=0.0, patience=1)
    values, result = _fit(tmp_path, cfg, held, steps=60, stop=rule, note=notes.append)
    assert notes[0].startswith("validation stop: 40 training rows are looked at, not trained on")
    assert "rows 200, 201, 202, 203, 204, ... of the source" in notes[0]
    looks = result.stopping["looks"]
    best = max(looks, key=lambda look: look[1])
    assert result.stopping["best_step"] == best[0]
    shorter, _ = _fit(tmp_path / "other", cfg, held, steps=int(best[0]))
    assert _same(shorter, values)


def test_budgets():
    assert planned_steps(compose(["budget=scaled"])["budget"], 300) == 5000
    assert planned_steps(compose(["budget=scaled"])["budget"], 9000) == 15_000
    assert planned_steps(compose([])["budget"], 300) == 5000
    assert planned_steps(compose([])["budget"], 9000) == 15_000
    assert planned_steps(compose([])["budget"], 10**6) == 20_000  # budget.max_steps
    assert planned_steps(compose(["inference=dsvi"])["budget"], 9000) == 5000
    converged = compose(["budget=converged"])["budget"]
    assert budget_text(converged) == "at most 100,000 steps, until the bound has converged"
    assert StopRule.of(converged) == StopRule("converged", 1000, 0.002, 2)
    assert budget_text(compose(["budget=scaled"])["budget"], 4000) == "10,000 steps"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["budget.stop=validation"], "set protocol.validation"),
        (["budget.stop=converged", "model=gpr"], "trains in its own way"),
        (["budget.stop=validation", "model=cvae_50", "protocol.validation=0.1"], "is for GP models"),
        (["budget.stop=converged", "inference=sghmc"], "set budget.stop=none"),
        (["budget=converged", "inference=sgpmc", "model=sgp"], "set budget.stop=none"),
        (["budget.window=1", "budget.stop=converged"], "budget.window must be"),
    ],
)
def test_stops_that_do_not_fit_are_refused(words, told):
    chosen = [] if any(word.startswith("model=") for word in words) else ["model=dgp2"]
    with pytest.raises(UserError, match=told):
        compose([*chosen, *words])
