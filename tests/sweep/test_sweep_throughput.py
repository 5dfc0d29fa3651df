"""Twenty units of ten seconds and more: what a sweep costs beyond their training and evaluation.

Takes minutes of an idle machine: `make test-throughput`. Prints the lines that docs/clusters.md has.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from sweep_tools import data, dgpbench, metrics, records, sweep, write_data

UNITS = ["model=dgp2", "model.num_inducing=50", "protocol.draws=100", "inference.batch=900"]
STEPS = int(os.environ.get("DGPBENCH_THROUGHPUT_STEPS", "5000"))


@pytest.mark.skipif(
    not os.environ.get("DGPBENCH_TEST_THROUGHPUT"),
    reason="takes minutes of an idle machine: `make test-throughput` runs it",
)
def test_a_sweep_costs_little_more_than_its_units(tmp_path):
    write_data(tmp_path, rows=1000)
    units = [*data(tmp_path), *UNITS, f"budget.steps={STEPS}"]
    began = time.perf_counter()
    done = sweep(tmp_path, *UNITS, f"budget.steps={STEPS}", seconds=1800)
    wall = time.perf_counter() - began
    assert done.returncode == 0, done.stderr
    seconds = sorted(record["wall_seconds"] for record in records(tmp_path).values())
    cores = len(os.sched_getaffinity(0))
    ideal = sum(seconds) / cores
    span = f"{seconds[0]:.1f} to {seconds[-1]:.1f} s"
    print(
        f"\n{len(seconds)} units of {span} on {cores} cores: sweep {wall:.1f} s, (training + evaluation) / "
        f"cores {ideal:.1f} s, {100 * (wall / ideal - 1):.1f} % more"
    )
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    began = time.perf_counter()

    def one(split: int) -> int:
        return dgpbench(fresh, "run", *units, "threads=1", f"split={split}", "-q", seconds=900).returncode

    with ThreadPoolExecutor(cores) as pool:
        assert set(pool.map(one, range(len(seconds)))) == {0}
    alone = time.perf_counter() - began
    more = 100 * (alone / ideal - 1)
    print(f"one fresh process per unit, {cores} at a time: {alone:.1f} s, {more:.1f} % more")
    assert metrics(fresh) == metrics(tmp_path)
    assert seconds[0] >= 10.0, "the units are too short to measure: raise DGPBENCH_THROUGHPUT_STEPS"
    assert wall < 1.15 * ideal
