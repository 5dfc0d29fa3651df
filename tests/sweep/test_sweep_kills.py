"""SIGKILLs over a sweep: nothing finished is lost or run twice, no number changes, no unit is blamed."""

import os
import signal
import time

import pytest
from kills import Harassed, done_units, harass, interrupted_without_checkpoint
from sweep_tools import MODELS, TINY, data, dgpbench, metrics, records, sweep, write_data

from dgpbench.store import read
from dgpbench.store.scan import scan

KILLS = int(os.environ.get("DGPBENCH_KILLS", "100"))
SOAK = float(os.environ.get("DGPBENCH_SOAK_MINUTES", "0"))
WALKER = ["--config-dir", str(MODELS), "model=walker", *TINY, "launcher.workers=2", "launcher.retries=20"]


def check(folder, units, kills, rows, count, settle=False):
    """Harass a sweep, let it end, and compare it with one that nobody disturbed."""
    disturbed, calm = folder / "disturbed", folder / "calm"
    for place in (disturbed, calm):
        place.mkdir()
        write_data(place, rows=rows)
    began = time.monotonic()
    assert sweep(calm, *units, seconds=1800).returncode == 0
    spread = 2 * (time.monotonic() - began) / count  # two workers: about the time of a unit on this machine
    told = harass(disturbed, [*data(disturbed), *units], kills, spread, settle=settle)

    last = sweep(disturbed, *units, seconds=1800)
    assert last.returncode == 0 and f"{count} units: {count} done" in last.stdout, last.stderr
    after = done_units(disturbed)
    assert len(after) == count
    for place, seen in told.before.items():
        assert after[place] == seen, f"{place} was done and was run again"
    for unit in scan(disturbed / "results"):
        assert read.predictions(unit)["row"].size and read.parameters(unit)  # whole, by their sha256
    assert "0 to run" in sweep(disturbed, *units).stderr and done_units(disturbed) == after
    assert metrics(disturbed) == metrics(calm)
    assert dgpbench(disturbed, "verify").returncode == 0
    return told


@pytest.mark.slow
@pytest.mark.long
def test_kills_over_a_sweep_without_checkpoints(tmp_path):
    units = ["model=linear", "split=range(12)", "protocol.draws=2000"]
    units += ["launcher.workers=2", "launcher.retries=20"]
    told = check(tmp_path, units, 8, 2000, 12)
    assert sum(told.hits.values()) >= 4, told.hits


@pytest.mark.skipif(not os.environ.get("DGPBENCH_TEST_KILL"), reason="minutes: `make test-kill` runs it")
def test_a_hundred_kills_over_units_that_resume(tmp_path):
    count = 20 * max(1, KILLS // 20)
    units = [*WALKER, f"seed=range({count // 20})"]
    told = check(tmp_path, units, KILLS, 40, count, settle=True)
    resumed = [r["training"]["resumed_from"] for r in records(tmp_path / "disturbed").values()]
    print(
        f"\n{told.hits['worker']} workers and {told.hits['sweep']} sweeps killed over {count} units, "
        f"{len(told.before)} done by then; {sum(map(bool, resumed))} resumed from a checkpoint"
    )
    assert any(resumed) and min(told.hits.values()) >= KILLS // 10


@pytest.mark.skipif(not os.environ.get("DGPBENCH_TEST_KILL"), reason="minutes: `make test-kill` runs it")
def test_five_kills_over_a_sweep_of_dgp2(tmp_path):
    units = [
        *("model=dgp2", "model.num_inducing=20", "budget.steps=4000", "engine.checkpoint_seconds=1"),
        *("protocol.draws=100", "split=range(6)", "launcher.workers=2", "inference.batch=300"),
        "launcher.retries=5",
    ]
    told = check(tmp_path, units, 5, 400, 6)
    resumed = [r["training"]["resumed_from"] for r in records(tmp_path / "disturbed").values()]
    steps = sorted(step for several in resumed for step in several)
    print(f"\n{told.hits} killed, {len(told.before)} of 6 units done by then; resumed from steps {steps}")


@pytest.mark.skipif(not SOAK, reason="as long as you like: `make soak MINUTES=10` runs it")
def test_soak(tmp_path):
    """Sweeps of 200 tiny units under random faults until the time is over; then all is done and verified."""
    write_data(tmp_path)
    end, rounds, total = time.monotonic() + 60 * SOAK, 0, {"sweep": 0, "worker": 0, "lease": 0, "rival": 0}
    while time.monotonic() < end or not rounds:
        units = [*data(tmp_path), *WALKER, "model.length=40", f"seed=range({10 * rounds},{10 * rounds + 10})"]
        it = Harassed(tmp_path, units, seed=rounds)
        try:
            while it.wait_for_a_start(it.started_units()) and time.monotonic() < end:
                time.sleep(it.rng.uniform(0.0, 1.0))
                it.check()
                deed = it.rng.choice(["worker", "worker", "kill", "stop", "hang up", "lease", "rival"])
                if deed == "worker":
                    it.kill_worker()
                elif deed == "lease":
                    for path in list((tmp_path / "results/.leases").glob("*.json"))[:1]:
                        path.unlink(missing_ok=True)
                        total["lease"] += 1
                elif deed == "rival":
                    other = Harassed(tmp_path, units)
                    other.wait_for_a_start(it.started_units())
                    other.close()
                    total["rival"] += 1
                else:
                    number = {"kill": signal.SIGKILL, "stop": signal.SIGTERM, "hang up": signal.SIGHUP}[deed]
                    it.kill_sweep(number, settle=True)
                    assert not interrupted_without_checkpoint(tmp_path)
                    it.start()
        finally:
            it.close()
        for name in it.hits:
            total[name] += it.hits[name]
        rounds += 1
        last = dgpbench(tmp_path, "sweep", *units, seconds=3600)
        assert last.returncode == 0 and "200 units: 200 done" in last.stdout, last.stderr
    assert dgpbench(tmp_path, "gc", "--days", "0", seconds=600).returncode == 0
    verified = dgpbench(tmp_path, "verify", seconds=600)
    assert verified.returncode == 0, verified.stdout
    print(f"\n{rounds} rounds of 200 units in {SOAK:g} minutes, faults {total}; {verified.stdout.strip()}")
