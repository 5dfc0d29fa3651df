"""A tiny real measurement: dgpbench beside GPflow's SVGP, and a short run beside its bare step."""

import json
import math
import sys
from dataclasses import replace

import pytest

from benchmarks.cases import Case
from benchmarks.client import Worker
from benchmarks.measure import Turns
from benchmarks.overhead import Clock, Overhead, check_run_overhead
from benchmarks.steps import ours
from benchmarks.systems import SYSTEMS
from dgpbench.inference.updates.adam import Adam
from dgpbench.inference.updates.natural import NaturalAdam

CASE = Case("tiny", batch=60, inputs=3, width=2, num_inducing=10, depth=1)


@pytest.mark.slow
@pytest.mark.long
def test_dgpbench_beside_gpflow(tmp_path):
    for name in ("dgpbench-mixed", "gpflow-float64"):
        system = SYSTEMS[name]
        with Worker.of(sys.executable, system.library, system.precision, 1, tmp_path / "log") as worker:
            assert worker.hello["threads"] == 1
            assert worker.hello["versions"]["tensorflow"].startswith("2.")
            one = Turns(CASE, system, worker)
            one.start(turn_seconds=0.05)
            one.turn()
        cell = json.loads(json.dumps(one.cell, allow_nan=False))
        assert cell["status"] == "ok", cell["reason"]
        assert 0 < cell["step_ms"][0] < 1e4 and math.isfinite(cell["loss"][0])
        assert cell["compile_seconds"] > 0 and cell["peak_mb"] > 100


@pytest.mark.slow
def test_run_overhead_is_measured():
    small = ["dataset.n=200", "model=sgp", "model.num_inducing=10", "inference.batch=60", "engine.xla=false"]
    found = check_run_overhead([*small, "engine.block_seconds=0.1"], seconds=0.4, turns=1)
    assert 0 < found.recorded < 1e6 and 0 < found.bare < 1e6 and 0 < found.wall < 1e6
    assert found.recorded_ratio == found.recorded / found.bare


def test_overhead_verdict():
    assert Overhead(bare=100.0, recorded=98.0, wall=96.0).met
    assert not Overhead(bare=100.0, recorded=98.0, wall=94.0).met
    assert not Overhead(bare=100.0, recorded=94.0, wall=96.0).met


def test_clock_counts_after_the_first_block(monkeypatch):
    times = iter([10.0, 11.0, 14.0])
    monkeypatch.setattr("benchmarks.overhead.time.perf_counter", lambda: next(times))
    clock = Clock()
    for step in (1, 21, 81):
        clock.update(step, 0.0, 0.0, None)
    assert clock.rate == 80 / 4


LATENT = replace(CASE, latent=1, depth=2, importance=2)


@pytest.mark.parametrize(("case", "natural"), [(CASE, None), (LATENT, (2,))])
def test_a_dgp_is_timed_as_the_peers_train_it(monkeypatch, case, natural):
    """DSVI by Adam alone, whatever the default inference is; latent variables with natural steps."""
    made = []

    class Seen(ours.Trainer):
        def __init__(self, spec):
            made.append(spec)
            super().__init__(spec)

    monkeypatch.setattr(ours, "Trainer", Seen)
    ours.build(case, "float64")
    update = made[0].update
    assert type(update) is (NaturalAdam if natural else Adam) and made[0].batch == case.batch
    assert not natural or update.layers == natural
