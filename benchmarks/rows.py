"""One process of the rows study: `python -m benchmarks.rows OVERRIDES`, its answer as JSON on stdout.

DGP2 at batch 1000 trains for the seconds of the budget; what is not training is timed apart. `own_mb` is the
memory that the process holds itself, `peak_mb` its largest resident set, mapped pages of data files included.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from dgpbench.engine.context import RunContext, Silent

SETTINGS = ("model=dgp2", "inference=dsvi", "inference.batch=1000", "precision=mixed", "budget.steps=null")
PROTOCOL = ("protocol.max_test=100",)


def measure(overrides: list[str]) -> dict:
    from benchmarks.serve import peak_memory_mb
    from dgpbench.config import compose
    from dgpbench.data import load_split
    from dgpbench.models.base import create

    cfg = compose([*SETTINGS, *PROTOCOL, *overrides])
    began = time.perf_counter()
    split = load_split(cfg)
    loaded = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="dgpbench-perf-") as folder:
        run = RunContext(
            key="",
            folder=Path(folder),
            seed=0,
            steps=None,
            seconds=cfg["budget"]["seconds"],
            reporter=Silent(),
            note=lambda text: None,
            checkpoint_seconds=float("inf"),
        )
        result = create(cfg).fit(split, run)
    return {
        "steps_per_second": result.steps_per_second,
        "steps": result.steps,
        "load_seconds": loaded - began,
        "compile_seconds": result.compile_seconds,
        "own_mb": own_memory_mb(),
        "peak_mb": peak_memory_mb(),
    }


def own_memory_mb() -> float:
    """Resident memory that belongs to no file. Buffers stay in the heap (engine/platform.py), so that after
    training this is the most there was."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) / 1024


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1:])))
