"""Thirty SIGKILLs over a sweep of forty units: nothing finished is lost or run twice, no number changes."""

from kills import done_units, harass
from sweep_tools import data, metrics, sweep, write_data

from dgpbench.store import read
from dgpbench.store.scan import scan

UNITS, KILLS = 40, 30


def test_thirty_kills_over_forty_units(tmp_path):
    disturbed, calm = tmp_path / "disturbed", tmp_path / "calm"
    for folder in (disturbed, calm):
        folder.mkdir()
        write_data(folder, rows=5000)
    units = ["model=linear", "seed=0,1", "launcher.workers=2"]
    told = harass(disturbed, [*data(disturbed), *units], KILLS, pause=(0.05, 0.9))
    assert told["sweep"] >= 5 and told["worker"] >= 5
    assert len(told["done"]) < UNITS, "all was done before the kills were over: they proved nothing"

    last = sweep(disturbed, *units)
    assert last.returncode == 0 and f"{UNITS} units: {UNITS} done" in last.stdout, last.stderr
    after = done_units(disturbed)
    assert len(after) == UNITS
    for place, seen in told["done"].items():
        assert after[place] == seen, f"{place} was done and was run again"
    for unit in scan(disturbed / "results"):
        assert read.predictions(unit)["row"].size and read.parameters(unit)  # whole, by their sha256
    assert "0 to run" in sweep(disturbed, *units).stderr and done_units(disturbed) == after

    assert sweep(calm, *units).returncode == 0
    assert metrics(disturbed) == metrics(calm)
