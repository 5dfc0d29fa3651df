"""Steps timed on a GPU: what reaches the workers, and what is said where there is none."""

import io
import json
import os
import sys
import types

import pytest

from benchmarks import client, measure, serve
from benchmarks.__main__ import main
from benchmarks.cases import Case
from benchmarks.systems import System, worker_environment

CASE = Case("tiny", batch=10, inputs=2, width=1, num_inducing=3, depth=1)


def test_cuda_is_hidden_unless_a_gpu_is_timed(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    assert worker_environment(1)["CUDA_VISIBLE_DEVICES"] == "-1"
    assert worker_environment(1, "gpu")["CUDA_VISIBLE_DEVICES"] == "3"


def test_the_device_reaches_the_process_and_its_step(monkeypatch, tmp_path):
    started = []
    monkeypatch.setattr(client.Worker, "__init__", lambda self, *given: started.append(given))
    client.Worker.of("python", "gpytorch", "float32", 2, tmp_path / "log", "gpu")
    command, _, environment = started[0]
    assert command[3:] == ["gpytorch", "float32", "2", "gpu"]
    assert environment["OMP_NUM_THREADS"] == "2"

    built = []
    step = types.SimpleNamespace(
        set_threads=lambda n: n,
        build=lambda case, precision, device: built.append((case.name, precision, device)) or (lambda n: 1.5),
    )
    monkeypatch.setattr(serve, "import_module", lambda name: step)
    request = {"do": "build", "case": CASE.to_dict()}
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(request) + "\n"))
    monkeypatch.setattr(os, "dup2", lambda *numbers: None)
    read, write = os.pipe()
    monkeypatch.setattr(os, "dup", lambda number: write)
    serve.serve("gpytorch", "float32", 1, "gpu")
    with os.fdopen(read) as answers:
        assert json.loads(answers.read().splitlines()[1])["loss"] == 1.5
    assert built == [("tiny", "float32", "gpu")]


def test_products_on_a_gpu_are_those_of_tensorflow(monkeypatch, tmp_path):
    asked = []

    class Stack:
        enter_context = staticmethod(lambda worker: worker)

    class Quiet:
        alive = True

        def __init__(self, case, system: System, worker):
            asked.append((system.library, system.precision, worker))

        def start(self, seconds):
            pass

    monkeypatch.setattr(measure, "Turns", Quiet)
    monkeypatch.setattr(measure.Worker, "of", lambda *given: given[-1])
    for device, kinds in (("cpu", {"matmul", "blas"}), ("gpu", {"matmul"})):
        asked.clear()
        settings = measure.Settings(device=device)
        turns = measure._products(Stack(), "python", settings, tmp_path, print)
        assert {kind for kind, _, _ in asked} == kinds and {place for _, _, place in asked} == {device}
        assert len(turns) == 2 * len(kinds)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--device", "gpu", "--cases", "b-sgp"],
            "TensorFlow sees no GPU; install dgpbench[gpu]",
        ),
        (["--device", "gpu", "--choice"], "studies run on the processor: leave one out"),
        (["--device", "gpu", "--check-run"], "studies run on the processor: leave one out"),
    ],
)
def test_no_gpu_and_no_step_are_one_line(words, said, capsys, tmp_path, monkeypatch):
    from dgpbench.engine import platform

    monkeypatch.setattr(platform, "GPUS", [])
    assert main(["-o", str(tmp_path), *words]) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.strip().splitlines()) == 1
