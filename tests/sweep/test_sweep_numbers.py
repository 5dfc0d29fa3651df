"""Units that share a process, TensorFlow and compiled steps have the numbers of units that have their own."""

import numpy as np
import pytest
from sweep_tools import GP, data, dgpbench, records, sweep

from dgpbench.store import read
from dgpbench.store.scan import scan

UNITS = [*GP, "model=dgp2", "seed=0,3", "threads=1"]


def parameters(folder, split, seed):
    (unit,) = [u for u in scan(folder / "results") if (u.record["split"], u.record["seed"]) == (split, seed)]
    return read.parameters(unit)


@pytest.mark.slow
def test_numbers_equal_those_of_fresh_processes(tmp_path):
    shared, fresh = tmp_path / "shared", tmp_path / "fresh"
    shared.mkdir()
    fresh.mkdir()
    done = sweep(shared, *UNITS, "split=0,1", "launcher.workers=1", "--verbose")
    assert done.returncode == 0, done.stderr
    processes = {line.split()[-1] for line in done.stderr.splitlines() if line.startswith("started")}
    assert len(processes) == 1  # all four in one, the steps compiled once
    found = records(shared)
    order = [found["dgp2", split, seed] for split in (0, 1) for seed in (0, 3)]
    compiled = [record["training"]["compile_seconds"] for record in order]
    assert max(compiled[1:]) < compiled[0] / 3
    alone = [word for word in UNITS if not word.startswith("seed")]
    run = dgpbench(fresh, "run", *data(fresh), *alone, "split=1", "seed=3", "-q")
    assert run.returncode == 0, run.stderr
    one, other = records(fresh)["dgp2", 1, 3], found["dgp2", 1, 3]
    assert one["key"] == other["key"] and one["metrics"] == other["metrics"]
    ours, theirs = parameters(shared, 1, 3), parameters(fresh, 1, 3)
    assert ours.keys() == theirs.keys() and all(np.array_equal(ours[name], theirs[name]) for name in ours)
