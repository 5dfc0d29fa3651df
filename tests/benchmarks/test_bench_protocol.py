"""Workers: the protocol with a fake one, and what happens when one fails, hangs, dies or goes astray."""

import os
import sys
import time

import pytest

from benchmarks import measure
from benchmarks.cases import CASES, Case, select
from benchmarks.client import Worker, WorkerError
from benchmarks.flops import PEAK_FLOPS
from benchmarks.measure import Settings, Turns, steps_per_turn
from benchmarks.serve import NUMERICAL
from benchmarks.systems import SYSTEMS, System, interpreters, worker_environment
from dgpbench.errors import UserError

CASE = Case("tiny", batch=10, inputs=2, width=1, num_inducing=3, depth=1)

FAKE = """
import json, sys, time
kind = sys.argv[1]
say = lambda **fields: print(json.dumps(fields), flush=True)
if kind == "absent":
    say(error="ModuleNotFoundError: No module named 'peer'", numerical=False)
    sys.exit()
say(versions={"python": "3"}, threads=1, malloc_kept=True)
turns = 0
for line in sys.stdin:
    request = json.loads(line)
    if request["do"] == "quit":
        break
    if request["do"] == "build":
        assert request["case"]["batch"] == 10
        say(build_seconds=0.5, compile_seconds=1.5, loss=1.0)
        continue
    turns += 1
    if kind == "dies" and turns > 3:
        sys.exit("out of luck")
    if kind == "hangs":
        time.sleep(60)
    if kind == "cholesky" and turns > 3:
        say(error="InvalidArgumentError: Cholesky decomposition was not successful", numerical=True)
        continue
    loss = None if kind == "nan" and turns > 4 else 2.0
    say(seconds=0.01 * request["steps"], loss=loss, peak_mb=100.0 + turns)
"""


def fake(tmp_path, kind: str, timeout: float = 20.0) -> Worker:
    script = tmp_path / "fake.py"
    script.write_text(FAKE)
    return Worker([sys.executable, str(script), kind], tmp_path / "log", dict(os.environ), timeout)


def turns_of(worker: Worker, rounds: int = 3) -> Turns:
    with worker:
        one = Turns(CASE, System("gpflux", "float64"), worker)
        one.start(turn_seconds=0.2)
        for _ in range(rounds):
            one.turn()
    return one


def test_a_worker_that_works(tmp_path):
    one = turns_of(fake(tmp_path, "well"))
    assert one.cell["step_ms"] == pytest.approx([10.0] * 3)
    assert (one.cell["steps"], one.cell["loss"], one.cell["status"]) == (20, [2.0] * 3, "ok")
    assert (one.cell["build_seconds"], one.cell["compile_seconds"]) == (0.5, 1.5)
    assert one.cell["peak_mb"] == 106.0
    assert one.worker._process.returncode == 0


@pytest.mark.parametrize(
    ("kind", "status", "reason"),
    [
        ("nan", "nan", "the bound is not finite"),
        ("cholesky", "nan", "InvalidArgumentError: Cholesky decomposition was not successful"),
        ("dies", "failed", "worker ended with code 1: out of luck"),
    ],
)
def test_a_worker_that_fails(tmp_path, kind, status, reason):
    one = turns_of(fake(tmp_path, kind))
    assert (one.cell["status"], one.cell["reason"]) == (status, reason)
    assert one.worker._process.returncode is not None


def test_a_worker_that_hangs_is_ended(tmp_path):
    began = time.perf_counter()
    one = turns_of(fake(tmp_path, "hangs", timeout=1.0))
    assert (one.cell["status"], one.cell["reason"]) == ("failed", "no answer within 1 s")
    assert one.worker._process.returncode is not None and time.perf_counter() - began < 20


def test_a_library_that_is_not_there(tmp_path):
    worker = fake(tmp_path, "absent")
    with pytest.raises(WorkerError, match="No module named 'peer'"):
        worker.__enter__()
    assert worker._process.returncode is not None


def test_systems_take_turns_and_nobody_is_always_first(tmp_path, monkeypatch):
    order = []

    class Recording(Turns):
        def turn(self):
            order.append(self.cell["system"])
            super().turn()

    monkeypatch.setattr(measure, "Turns", Recording)
    kinds = {"gpflux": "well", "gpytorch": "nan", "gpflow": "absent"}
    make = lambda python, library, *rest: fake(tmp_path, kinds[library])  # noqa: E731
    monkeypatch.setattr(measure.Worker, "of", make)
    systems = [SYSTEMS["gpflux-float64"], SYSTEMS["gpytorch-float64"], SYSTEMS["gpflow-float64"]]
    results = {"cells": [], "versions": {}, "malloc_kept": {}, "peak_gflops": {}}
    notes, pythons, settings = [], dict.fromkeys(kinds, ""), Settings(3, 0.2)
    with fake(tmp_path, "well") as worker:
        products = Recording(CASE, System("blas", "float64"), worker)
        products.start(0.2)
        products.cell["step_ms"].append(1.0)  # of a case before this one
        ready = {("float64", "numpy"): products}
        measure._case(results, CASE, systems, ready, pythons, settings, tmp_path, notes.append)
    a, b, m = "gpflux-float64", "gpytorch-float64", "blas-float64"
    assert order == [a, b, m, b, a, m, a, b, m]  # matrix products in every round, too
    assert results["peak_gflops"][CASE.name]["float64"]["numpy"] == pytest.approx([PEAK_FLOPS / 1e7] * 3)
    assert {c["system"]: c["status"] for c in results["cells"]} == {
        a: "ok",
        b: "nan",
        "gpflow-float64": "failed",
    }
    assert len(notes) == 2 and "cannot start" in notes[0]


def test_steps_of_a_turn():
    assert steps_per_turn(0.01, 0.7) == 70
    assert steps_per_turn(3.0, 0.7) == 1
    assert steps_per_turn(1e-9, 0.7) == measure.MAX_STEPS


@pytest.mark.parametrize(
    "text", ["NotPSDError: x", "NanError: cholesky", "Input is not invertible", "loss is NaN"]
)
def test_numerical_errors_are_told_from_others(text):
    assert NUMERICAL.search(text)
    assert not NUMERICAL.search("AttributeError: no attribute nanosecond")


def test_interpreters(tmp_path, monkeypatch):
    for path in ("envs/gpflux/bin/python", "mine/bin/python"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).touch()
    monkeypatch.setenv("DGPBENCH_PERF_ENVS", str(tmp_path / "envs"))
    found = interpreters([])
    assert found["dgpbench"] == found["gpflow"] == sys.executable
    assert found["gpflux"] == str(tmp_path / "envs/gpflux/bin/python") and "gpytorch" not in found
    assert interpreters([f"gpytorch={tmp_path}/mine"])["gpytorch"] == str(tmp_path / "mine/bin/python")
    assert "gpflux" not in interpreters([str(tmp_path / "mine")])
    for wrong in ("nowhere", "numpy=/x", f"gpflux={tmp_path}/nowhere"):
        with pytest.raises(UserError, match="--peers-python"):
            interpreters([wrong])


def test_selection():
    assert select([], list(CASES), "case") == list(CASES)
    assert select(["b-dgp2,a-sgp"], list(CASES), "case") == ["a-sgp", "b-dgp2"]
    assert select(["b"], list(CASES), "case") == [f"b-{m}" for m in "sgp sgp500 dgp2 dgp3 dgp4 dgp5".split()]
    assert select(["dgpbench", "gpflux-float32"], list(SYSTEMS), "system")[-1] == "gpflux-float32"
    with pytest.raises(UserError, match="unknown case 'b-dgp9'"):
        select(["b-dgp9"], list(CASES), "case")


def test_every_worker_has_the_same_malloc_settings_and_threads():
    env = worker_environment(2)
    assert {env[f"{name}_NUM_THREADS"] for name in ("OMP", "MKL", "OPENBLAS")} == {"2"}
    assert (env["MALLOC_MMAP_MAX_"], env["MALLOC_TOP_PAD_"]) == ("0", str(256 << 20))


def test_the_malloc_settings_take_effect():
    import subprocess

    code = "from benchmarks.serve import malloc_kept; print(malloc_kept())"
    run = lambda env: subprocess.run(  # noqa: E731
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    ).stdout.strip()
    path = {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    plain = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")} | path
    if run(plain) == "None":
        pytest.skip("this C library cannot say where its blocks are")
    assert run(plain) == "False"
    assert run(worker_environment(1) | path) == "True"
