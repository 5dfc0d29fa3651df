"""A stored measurement with known numbers."""

from __future__ import annotations

from benchmarks.cases import CASES
from benchmarks.measure import SCHEMA
from benchmarks.systems import SYSTEMS

STEP_MS = {  # with one layer; another costs as much again, and SGP500 twelve times as much
    "dgpbench-float64": 10.0,
    "dgpbench-mixed": 5.0,
    "dgpbench-float32": 4.0,
    "iwvi-float64": 25.0,
    "iwvi-mixed": 20.0,
    "own-mixed": 5.0,
    "own-float32": 4.0,
    "gpflow-float64": 30.0,
    "gpflux-float64": 20.0,
    "gpflux-float32": 15.0,
    "gpytorch-float64": 40.0,
    "gpytorch-float32": 12.0,
}


def cell(case: str, system: str, step_ms: list[float], status: str = "ok") -> dict:
    return {
        "case": case,
        "system": system,
        "status": status,
        "reason": None if status == "ok" else "the bound is not finite",
        "steps": 10,
        "step_ms": step_ms if status == "ok" else [],
        "loss": [1.0] * len(step_ms),
        "build_seconds": 1.0,
        "compile_seconds": 3.25,
        "peak_mb": 812.0,
    }


def stored() -> dict:
    """All cases and systems; GPflux in float32 is not finite with inner layers of width 1."""
    cells = []
    for case in CASES.values():
        for name, system in SYSTEMS.items():
            if system.takes(case):
                middle = STEP_MS[name] * (case.depth if case.num_inducing < 500 else 12)
                bad = name == "gpflux-float32" and case.name.startswith("a-dgp")
                times = [2 * middle, middle, 0.5 * middle]
                cells.append(cell(case.name, name, times, "nan" if bad else "ok"))
    return {
        "schema": SCHEMA,
        "started": "2020-01-01T00:00:00+00:00",
        "machine": {"processor": "some processor", "cores": 2, "git_commit": None},
        "settings": {"rounds": 3, "turn_seconds": 0.5, "threads": 2, "malloc": {}},
        "versions": {name: {"python": "3.11.0"} for name in SYSTEMS},
        "malloc_kept": dict.fromkeys(SYSTEMS, True),
        "peak_gflops": {
            case: {
                "float64": {"tensorflow": [20.0, 25.0, 21.0], "numpy": [50.0, 60.0, 95.0]},
                "float32": {"tensorflow": [110.0, 120.0, 180.0], "numpy": [90.0]},
            }
            for case in CASES
        },
        "cases": {case.name: case.to_dict() for case in CASES.values()},
        "cells": cells,
        "notes": [],
    }
