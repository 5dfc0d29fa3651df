"""SIGKILLs over a sweep: nothing finished is lost or run twice, no number changes."""

import os

import pytest
from kills import done_units, harass
from sweep_tools import data, metrics, records, sweep, write_data

from dgpbench.store import read
from dgpbench.store.scan import scan

UNITS, KILLS = 40, 30


def check(folder, units, kills, pause, rows, count) -> dict:
    """Harass a sweep, let it end, and compare it with one that nobody disturbed."""
    disturbed, calm = folder / "disturbed", folder / "calm"
    for place in (disturbed, calm):
        place.mkdir()
        write_data(place, rows=rows)
    told = harass(disturbed, [*data(disturbed), *units], kills, pause)
    assert len(told["done"]) < count, "all was done before the kills were over: they proved nothing"

    last = sweep(disturbed, *units, seconds=900)
    assert last.returncode == 0 and f"{count} units: {count} done" in last.stdout, last.stderr
    after = done_units(disturbed)
    assert len(after) == count
    for place, seen in told["done"].items():
        assert after[place] == seen, f"{place} was done and was run again"
    for unit in scan(disturbed / "results"):
        assert read.predictions(unit)["row"].size and read.parameters(unit)  # whole, by their sha256
    assert "0 to run" in sweep(disturbed, *units).stderr and done_units(disturbed) == after

    assert sweep(calm, *units, seconds=900).returncode == 0
    assert metrics(disturbed) == metrics(calm)
    return told


def test_thirty_kills_over_forty_units(tmp_path):
    units = ["model=linear", "seed=0,1", "launcher.workers=2", "protocol.draws=6000"]  # about a second each
    told = check(tmp_path, units, KILLS, (0.05, 0.5), 5000, UNITS)
    assert told["sweep"] >= 5 and told["worker"] >= 5


@pytest.mark.skipif(not os.environ.get("DGPBENCH_TEST_KILL"), reason="minutes: `make test-kill` runs it")
def test_five_kills_over_a_sweep_of_dgp2(tmp_path):
    units = [
        "model=dgp2",
        "model.num_inducing=20",
        "budget.steps=4000",
        "engine.checkpoint_seconds=1",
        "protocol.draws=100",
        "split=range(6)",
        "launcher.workers=2",
        "inference.batch=300",
    ]
    told = check(tmp_path, units, 5, (4.0, 12.0), 400, 6)
    resumed = [r["training"]["resumed_from"] for r in records(tmp_path / "disturbed").values()]
    steps = sorted(step for several in resumed for step in several)
    print(
        f"\n{told['worker']} workers and {told['sweep']} sweeps killed, {len(told['done'])} of 6 units "
        f"done by then; resumed from steps {steps}"
    )
    assert any(resumed)
