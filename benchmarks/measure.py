"""Interleaved measurement: in every round each system has one turn of about the same length.

A machine's speed drifts; what is compared is measured within seconds of each other, and so are the matrix
products that a step is held to. Each case starts fresh workers, so that peak memory and compilation are those
of the case.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import flops
from benchmarks.cases import Case
from benchmarks.client import Worker, WorkerError
from benchmarks.systems import MALLOC, System
from dgpbench.machine import git_commit, processor

SCHEMA = 2
PRODUCTS = {"tensorflow": "matmul", "numpy": "blas"}  # whose matrix products count for the peak: their worker
MAX_STEPS = 2000  # of one turn
PAUSE = 0.05  # seconds between turns, so that idle threads have gone to sleep
Note = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """Settings of a measurement."""

    rounds: int = 7
    turn_seconds: float = 0.7
    threads: int = 1
    device: str = "cpu"


class Turns:
    """One system at one case: its worker, and what its turns gave."""

    def __init__(self, case: Case, system: System, worker: Worker):
        self.worker = worker
        self.cell = {"case": case.name, "system": system.name, "status": "ok", "reason": None}
        self.cell |= {"steps": 0, "step_ms": [], "loss": [], "build_seconds": None, "compile_seconds": None}
        self.cell |= {"peak_mb": None}
        self.case = system.at(case)

    @property
    def alive(self) -> bool:
        return self.cell["status"] == "ok"

    def start(self, turn_seconds: float) -> None:
        """Build, compile, find the number of steps of a turn, and warm up with that number."""
        self._guard(self._start, turn_seconds)

    def turn(self) -> None:
        if self.alive:
            self._guard(self._turn)

    def _start(self, turn_seconds: float) -> None:
        built = self.worker.build(self.case)
        self.cell |= {name: built[name] for name in ("build_seconds", "compile_seconds")}
        self._finite(built)
        self.worker.run(2)  # the second call may still trace
        step = self._finite(self.worker.run(2))["seconds"] / 2
        self.cell["steps"] = steps = steps_per_turn(step, turn_seconds)
        self._finite(self.worker.run(steps))

    def _turn(self) -> None:
        answer = self._finite(self.worker.run(self.cell["steps"]))
        self.cell["step_ms"].append(1e3 * answer["seconds"] / self.cell["steps"])
        self.cell["loss"].append(answer["loss"])
        self.cell["peak_mb"] = answer["peak_mb"]

    @staticmethod
    def _finite(answer: dict) -> dict:
        if answer["loss"] is None:
            raise WorkerError("the bound is not finite", numerical=True)
        return answer

    def _guard(self, action: Callable, *args) -> None:
        try:
            action(*args)
        except WorkerError as error:
            self.cell |= {"status": "nan" if error.numerical else "failed", "reason": str(error)}


def steps_per_turn(step_seconds: float, turn_seconds: float) -> int:
    return max(1, min(MAX_STEPS, round(turn_seconds / max(step_seconds, 1e-6))))


def measure(
    cases: Sequence[Case],
    systems: Sequence[System],
    pythons: dict[str, str],
    settings: Settings,
    note: Note,
    keep: Callable[[dict], None],
) -> dict:
    """All cases by all systems that can be had; `keep` is given the results after every case."""
    results = {
        "schema": SCHEMA,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"processor": processor(), "cores": os.cpu_count(), "git_commit": git_commit()},
        "settings": asdict(settings) | {"malloc": MALLOC},
        "versions": {},
        "malloc_kept": {},
        "peak_gflops": {},  # of matrix products, by case, precision and library: one rate for each round
        "cases": {case.name: case.to_dict() for case in cases},
        "cells": [],
        "notes": [],
    }
    present = []
    for system in systems:
        if system.library in pythons:
            present.append(system)
        else:
            text = f"{system.name} is left out: no environment has it; `make perf` makes those of the peers"
            results["notes"].append(text)
            note(text)
    with tempfile.TemporaryDirectory(prefix="dgpbench-perf-") as folder, ExitStack() as stack:
        logs = Path(folder)
        products = _products(stack, pythons["dgpbench"], settings, logs, note)
        for case in cases:
            note(f"{case.name}: batch {case.batch}, M {case.num_inducing}, widths {case.widths}")
            takers = [s for s in present if s.takes(case)]
            _case(results, case, takers, products, pythons, settings, logs, note)
            keep(results)
    return results


def _case(results, case: Case, systems, products, pythons, settings: Settings, logs: Path, note: Note):
    """One case by all systems, in turns with each other and with the matrix products."""
    for one in products.values():
        one.cell["step_ms"].clear()
    with ExitStack() as stack:
        turns = []
        for system in systems:
            log = logs / f"{system.name}.log"
            python = pythons[system.library]
            worker = Worker.of(
                python, system.library, system.precision, settings.threads, log, settings.device
            )
            try:
                stack.enter_context(worker)
            except WorkerError as error:
                results["cells"].append(_missing(case, system, str(error)))
                note(f"  {system.name} cannot start: {error}")
                continue
            results["versions"][system.name] = worker.hello["versions"]
            results["malloc_kept"][system.name] = worker.hello["malloc_kept"]
            turns.append(Turns(case, system, worker))
            turns[-1].start(settings.turn_seconds)
        for number in range(settings.rounds):
            for i in range(len(turns)):
                time.sleep(PAUSE)
                turns[(i + number) % len(turns)].turn()  # nobody is always first
            for one in products.values():
                time.sleep(PAUSE)
                one.turn()
        rates = results["peak_gflops"].setdefault(case.name, {})
        for (dtype, name), one in products.items():
            found = [flops.PEAK_FLOPS / (ms * 1e6) for ms in one.cell["step_ms"]]
            rates.setdefault(dtype, {})[name] = found
        for one in turns:
            results["cells"].append(one.cell)
            if not one.alive:
                note(f"  {one.cell['system']}: {one.cell['status']}: {one.cell['reason']}")


def _missing(case: Case, system: System, reason: str) -> dict:
    return {"case": case.name, "system": system.name, "status": "failed", "reason": reason, "step_ms": []}


def _products(stack: ExitStack, python: str, settings: Settings, logs: Path, note: Note) -> dict:
    """Matrix products of both precisions by each library, ready for their turns."""
    turns = {}
    for dtype in ("float64", "float32"):
        for name, kind in PRODUCTS.items():
            if settings.device == "gpu" and kind == "blas":
                continue  # of the processor only
            log = logs / f"{name}-{dtype}.log"
            worker = Worker.of(python, kind, dtype, settings.threads, log, settings.device)
            one = Turns(flops.PEAK, System(kind, dtype), stack.enter_context(worker))
            one.start(settings.turn_seconds)
            if not one.alive:
                note(f"matrix products of {name} in {dtype}: {one.cell['reason']}")
            turns[dtype, name] = one
    return turns
