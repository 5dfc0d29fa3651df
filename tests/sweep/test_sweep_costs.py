"""Expected times: from records here and elsewhere, and the time left of a sweep of several models."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from sweep_tools import TINY, data, write_data

from dgpbench import machine
from dgpbench.config import compose, config_key
from dgpbench.config.derived import planned_steps
from dgpbench.store import timing
from dgpbench.store.layout import packaged
from dgpbench.store.record import build_record
from dgpbench.store.reference import export
from dgpbench.store.scan import Unit
from dgpbench.store.write import write_unit
from dgpbench.sweep.costs import Costs
from dgpbench.sweep.launch import Watcher
from dgpbench.sweep.planner import make_plan

ENERGY = ["dataset=energy", "threads=1", "split=0"]


def plan_of(*words):
    return make_plan(list(words), fetch=False, note=print)


def record_of(plan, **measured):
    keys = {"key": plan.units[0].key, "config_key": plan.config_key(0), "data_hash": plan.hashes[0]}
    return build_record(plan.config(0), status="done", **keys, **measured)


def work_of(plan):
    cfg = plan.configs[0]
    return timing.step_work(timing.step_fields(cfg), timing.sizes_of(cfg))


def seconds(plan, known=()):
    found = Costs(plan, known).by_config[0]
    return None if found is None else found.seconds


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pack(folder, *records):
    export([Unit(record, folder) for record in records], folder / "some.jsonl.gz")
    return folder


def test_a_fresh_folder_takes_the_times_of_records_elsewhere_scaled_to_this_machine(here, monkeypatch):
    monkeypatch.setattr(timing, "pace", lambda: 1.5)
    plan = plan_of("model=dgp2", "budget.steps=1000", *ENERGY)
    measured = {
        "steps_per_second": 100.0,
        "wall_seconds": 15.0,
        "evaluate_seconds": 1.0,
        "training": {"seconds": 10.0, "cpu_seconds": 10.0, "compile_seconds": 3.0},
    }
    known = [pack(here / "elsewhere", record_of(plan, device="cpu Acme 9000", **measured))]
    longer = plan_of("model=dgp2", "budget.steps=4000", *ENERGY)
    (line,) = Costs(longer, known).lines([0])  # 4000 steps of 10 ms, 4 s of compiling, 1 s of evaluation
    assert "0.0187 core-hours (1:08 one after another)" in line  # 1.5 * 45 s
    assert line.endswith("from the same settings on Acme 9000, scaled to this machine")
    own = here / "results"
    write_unit(own, record_of(plan, **measured | {"wall_seconds": 8.0, "training": {"seconds": 5.0}}))
    (line,) = Costs(longer, known).lines([0])  # the user's own record: 4000 steps of 10 ms and 2 s and 1 s
    assert line.endswith("(0:43 one after another), from your earlier runs")


def test_the_shipped_records_estimate_runs_without_own_records(here, monkeypatch):
    monkeypatch.setattr(timing, "pace", lambda: 1.0)
    monkeypatch.setattr(timing, "processor", lambda: "another one")
    plan = plan_of("model=sgp,dgp2,random_forest,svm", "dataset=energy", "split=0", "threads=1")
    found = Costs(plan).lines(range(4))
    assert any(line.startswith("3 units: about ") and "scaled to this machine" in line for line in found)
    assert found[-1] == "1 unit: cost unknown, no record is like them: svm on energy"


def test_estimates_of_shipped_records_on_data_left_out_are_within_a_factor_of_two():
    """Of the settings timed in one go, each estimated from the records on other datasets."""
    timings = [t for t in timing._packed_timings([packaged()]).values() if t.steady and t.step]
    assert len(timings) > 400
    good = 0
    for one in timings:
        work = timing.step_work(one.fields, one.sizes)
        others = [t for t in timings if t.sizes != one.sizes]
        near = [t for t in others if (t.model, t.inference) == (one.model, one.inference)]
        near = near or [t for t in others if t.inference == one.inference]
        found = min(near or others, key=lambda t: timing._distance(t, one.fields, work))
        guess = found.step * work / timing.step_work(found.fields, found.sizes)
        good += 0.5 < guess / one.step < 2.0
    assert good / len(timings) > 0.9


def test_a_waiting_machine_and_an_interrupted_run_count_less_than_a_steady_one(here):
    plan = plan_of("model=dgp2", "budget.steps=100", *ENERGY)
    times = {"seconds": 10.0, "cpu_seconds": 0.2}
    split = record_of(plan, steps_per_second=10.0, wall_seconds=1.0, training=times | {"resumed_from": [90]})
    steady = record_of(
        plan, steps_per_second=50.0, wall_seconds=2.0, training={"seconds": 2.0, "cpu_seconds": 2.0}
    )
    folder = pack(here / "packed", split | {"finished": "2030-01-01"}, steady | {"key": "1" * 64})
    (found,) = timing._packed_timings([folder]).values()
    assert found.step == pytest.approx(1 / 50)


def test_steps_that_grow_with_the_data_are_counted(here):
    """inference=standard gives large datasets more steps than budget.steps."""
    plan = plan_of("model=dgp2", "dataset=protein", "split=0", "budget=standard", "threads=1")
    cfg = plan.configs[0]
    rows = timing.sizes_of(cfg).rows
    assert rows == 41157 and planned_steps(cfg["budget"], rows) > cfg["budget"]["steps"]
    measured = {"steps_per_second": 100.0, "wall_seconds": 11.0, "training": {"seconds": 10.0}}
    short = plan_of("model=dgp2", "dataset=protein", "split=0", "budget.steps=1000", "threads=1")
    write_unit(plan.results, record_of(short, **measured))
    sizes = {"n_train": rows, "n_test": 4573, "inputs": 9, "outputs": 1}
    write_unit(plan.results, record_of(short, **measured, sizes=sizes), force=True)
    assert seconds(plan) == pytest.approx(planned_steps(cfg["budget"], rows) / 100 + 1)


def test_the_packed_times_are_kept_and_follow_the_file(here, monkeypatch):
    monkeypatch.setenv("DGPBENCH_CACHE", str(here / "cache"))
    plan = plan_of("model=dgp2", "budget.steps=100", *ENERGY)
    times = {"steps_per_second": 50.0, "wall_seconds": 2.0, "training": {"seconds": 2.0}}
    folder = pack(here / "packed", record_of(plan, **times))
    first = timing._packed_timings([folder])
    with monkeypatch.context() as patched:
        patched.setattr(timing, "packed_units", None)  # not read again
        assert timing._packed_timings([folder]) == first
    pack(folder, record_of(plan, **times | {"steps_per_second": 5.0}))
    (again,) = timing._packed_timings([folder]).values()
    assert again.step == pytest.approx(1 / 5)


def test_the_machine_is_timed_once(here, monkeypatch):
    monkeypatch.setenv("DGPBENCH_CACHE", str(here / "cache"))
    now = SimpleNamespace(wall=0.0, cpu=0.0, date=1e9)
    clocks = {"perf_counter": lambda: now.wall, "process_time": lambda: now.cpu, "time": lambda: now.date}
    calls = []

    def measured(share):
        def round_seconds(budget):
            calls.append(budget)
            now.wall, now.cpu = now.wall + budget, now.cpu + share * budget
            return 3 * machine.ROUND

        machine.pace.cache_clear()
        with monkeypatch.context() as patched:
            patched.setattr(machine, "round_seconds", round_seconds)
            patched.setattr(machine, "time", SimpleNamespace(**clocks))
            assert machine.pace() == pytest.approx(3.0)
        machine.pace.cache_clear()
        return len(calls)

    assert [measured(0.1), measured(0.1)] == [1, 1]
    now.date += 2 * 86400  # what was taken beside other work is taken again
    assert [measured(1.0), measured(1.0)] == [2, 2]
    now.date += 1000 * 86400
    assert measured(1.0) == 2
    for path in (here / "cache").glob("pace-*"):
        path.write_text("{")
    assert measured(1.0) == 3
    monkeypatch.setenv("DGPBENCH_CACHE", "")
    assert measured(1.0) == 4 and calls == [0.5, 0.5, 0.5, 0.05]


def test_timing_the_machine_measures_this_machine():
    began = time.perf_counter()
    assert 1e-4 < machine.round_seconds(0.05) < 1.0
    assert time.perf_counter() - began < 5.0


def test_own_records_of_the_dataset_are_read_first_and_damaged_ones_ignored(here):
    for dataset in ("concrete", "energy"):
        for split in range(3):
            plan = plan_of("model=sgp", f"dataset={dataset}", f"split={split}", "threads=1")
            write_unit(plan.results, record_of(plan, wall_seconds=1.0))
    found = timing.own_records(Path("results"), [("energy", "sgp", "standard")], most=4)
    assert [record["dataset"] for record in found] == ["energy"] * 3 + ["concrete"]
    for path in Path("results/energy").rglob("record.json"):
        path.write_text("{")
    assert len(timing.own_records(Path("results"), [("energy", "sgp", "standard")], most=4)) == 1
    assert timing.own_records(Path("nowhere"), [("energy", "sgp", "standard")], most=4) == []


def test_estimates_follow_the_budget(here):
    write_data(here)
    words = [*data(here), "model=dgp2", "threads=1"]
    short = make_plan([*words, "budget.steps=100", "split=0"], fetch=True, note=print)
    keys = {"key": short.units[0].key, "config_key": short.config_key(0), "data_hash": short.hashes[0]}
    measured = {"steps_per_second": 50.0, "wall_seconds": 22.0, "training": {"seconds": 2.0}}
    write_unit(short.results, build_record(short.config(0), status="done", **keys, **measured))
    long = make_plan([*words, "budget.steps=9000", "split=1,2"], fetch=True, note=print)
    (line,) = Costs(long, known=()).lines([0, 1])  # 2 * (9000 / 50 + 20) s
    assert line.startswith("2 units: about 0.111 core-hours (6:40 one after another)")


@pytest.mark.parametrize(
    ("device", "spent", "expected"),
    [
        ("cpu AMD EPYC", 5.0, (100 / 50 + 2.0) / 4),  # it had its core for a quarter of the time
        ("cpu AMD EPYC", 40.0, 100 / 50 + 2.0),  # two cores
        ("cpu AMD EPYC", None, 100 / 50 + 2.0),
        ("gpu A100", 5.0, 100 / 50 + 2.0),  # the processor waits for the GPU
    ],
)
def test_a_run_that_waited_for_its_core_counts_with_the_time_it_had_one(here, device, spent, expected):
    write_data(here)
    words = [*data(here), "model=dgp2", "threads=1"]
    once = make_plan([*words, "budget.steps=1000", "split=0"], fetch=True, note=print)
    keys = {"key": once.units[0].key, "config_key": once.config_key(0), "data_hash": once.hashes[0]}
    training = {"seconds": 20.0} | ({"cpu_seconds": spent} if spent else {})
    measured = {"steps_per_second": 50.0, "wall_seconds": 22.0, "training": training, "device": device}
    write_unit(once.results, build_record(once.config(0), status="done", **keys, **measured))
    again = make_plan([*words, "budget.steps=1000", "split=1"], fetch=True, note=print)
    assert seconds(again) == pytest.approx(22.0 * min(1.0, expected / 4.0))
    shorter = make_plan([*words, "budget.steps=100", "split=1"], fetch=True, note=print)
    assert seconds(shorter) == pytest.approx(expected)


@pytest.mark.parametrize(("converged", "expected"), [(True, 40 / 20 + 3), (False, 9000 / 20 + 3)])
def test_a_model_that_ends_by_itself_is_not_expected_to_use_up_its_budget(here, converged, expected):
    write_data(here)
    words = [*data(here), "model=gpr", "threads=1"]
    short = make_plan([*words, "budget.steps=100", "split=0"], fetch=True, note=print)
    keys = {"key": short.units[0].key, "config_key": short.config_key(0), "data_hash": short.hashes[0]}
    training = {"seconds": 2.0, "steps": 40, "converged": converged}
    measured = {"steps_per_second": 20.0, "wall_seconds": 5.0, "training": training}
    write_unit(short.results, build_record(short.config(0), status="done", **keys, **measured))
    long = make_plan([*words, "budget.steps=9000", "split=1"], fetch=True, note=print)
    assert seconds(long) == pytest.approx(expected)


def test_a_step_never_measured_costs_in_proportion_to_its_products(here):
    words = ["dataset=energy", "threads=1", "model=sgp", "model.num_inducing=100", "inference.batch=200"]
    small = plan_of(*words, "budget.steps=100", "split=0")
    layer = timing.OVERHEAD  # what starting its operations is worth
    # one GP: (2 + 1) M^2 per row of the batch and (3 + 3) M^3
    assert work_of(small) == 3 * 100**2 * 200 + 6 * 100**3 + layer
    measured = {"steps_per_second": 50.0, "wall_seconds": 22.0, "training": {"seconds": 2.0}}
    write_unit(small.results, record_of(small, **measured))
    deep = plan_of(*words[:2], "model=dgp2", "inference.batch=200", "budget.steps=1000", "split=0")
    work = (3 * 200 + 6 * 100 + 10 * 200 + 27 * 100) * 100**2 + 2 * layer  # and a layer of eight GPs
    assert work_of(deep) == work
    expected = 1000 / 50 * work / work_of(small) + 20
    assert seconds(deep) == pytest.approx(expected)
    other = {"steps_per_second": 5.0, "wall_seconds": 220.0, "training": {"seconds": 200.0}}
    sampled = plan_of(*words, "inference=sghmc", "split=0")
    write_unit(sampled.results, record_of(sampled, **other))
    assert seconds(deep) == pytest.approx(expected)  # not by another inference
    assert seconds(plan_of(*words[:2], "model=random_forest", "split=0")) is None


@pytest.fixture
def clocked(here, monkeypatch):
    """A sweep of three splits of a quick model and three of a slow one, and a clock to turn."""
    write_data(here)
    now = SimpleNamespace(time=0.0)
    monkeypatch.setattr("dgpbench.sweep.launch.time.monotonic", lambda: now.time)
    plan = make_plan(
        [*data(here), *TINY, "model=linear,dgp2", "split=0,1,2", "threads=1"], fetch=True, note=print
    )
    watcher = Watcher(plan, range(6), costs=Costs(plan, known=()))

    def run(index, takes):
        watcher.started(index, None)
        now.time += takes
        watcher.ended(index, "done", None)

    return watcher, now, run


def test_the_time_left_is_that_of_each_model_and_not_of_their_mixture(clocked):
    watcher, now, run = clocked
    watcher.costs.by_config = {0: timing.Cost(10.0, "x"), 1: timing.Cost(1000.0, "x")}
    assert watcher.line(0, now.time).endswith("0/6 done, 0 running, about 50:30 left")
    for split in range(3):
        run(split, 10.0)
        assert f"{split + 1}/6 done, 1 running, about 50:{20 - 10 * split:02d} left" == watcher.line(
            1, now.time
        )
    run(3, 2000.0)  # twice as slow as expected, like the next ones
    assert watcher.line(1, now.time) == "4/6 done, 1 running, about 1:06:40 left"
    watcher.started(4, None)
    now.time += 500.0
    assert watcher.line(1, now.time) == "4/6 done, 1 running, about 58:20 left"
    assert watcher.line(2, now.time) == "4/6 done, 2 running, about 33:20 left"  # one unit takes that long


def test_models_without_a_record_are_counted_until_one_has_run(clocked):
    watcher, now, run = clocked
    watcher.costs.by_config = {0: timing.Cost(10.0, "x"), 1: None}
    assert watcher.line(1, now.time).endswith("about 0:30 left, 3 units of unknown cost")
    run(3, 100.0)
    assert watcher.line(1, now.time).endswith("about 3:50 left")
    watcher.ended(4, "failed", "no luck")  # its time says nothing
    assert watcher.line(1, now.time).endswith("1/6 done, 1 failed, 1 running, about 2:10 left")


def test_what_a_running_unit_says_replaces_what_was_expected(clocked):
    watcher, now, run = clocked
    watcher.costs.by_config = {0: timing.Cost(10.0, "x"), 1: timing.Cost(1000.0, "x")}
    for split in range(3):
        run(split, 10.0)
    slot = SimpleNamespace(index=3, began=now.time, progress={})
    watcher.tick([slot])
    assert watcher.line(1, now.time).endswith("about 50:00 left")
    now.time += 20.0
    slot.progress = {"step": 10, "left": 80.0}
    watcher.tick([slot])
    now.time += 5.0
    watcher.tick([slot])  # it has said nothing new
    assert watcher.line(1, now.time).endswith("about 4:35 left")  # 75 s, and twice 100 s
    now.time += 75.0
    watcher.ended(3, "done", None)
    assert watcher.line(1, now.time).endswith("about 3:20 left")


def test_ends_that_are_only_seen_from_outside_are_timed_by_their_records(clocked, here):
    watcher, now, _ = clocked
    watcher.costs.by_config = {0: None, 1: None}
    plan = watcher.plan
    keys = {"key": plan.units[0].key, "config_key": plan.config_key(0), "data_hash": plan.hashes[0]}
    write_unit(plan.results, build_record(plan.config(0), status="done", **keys, wall_seconds=60.0))
    watcher.ended(0, "done", None)
    assert watcher.line(1, now.time).endswith("about 2:00 left, 3 units of unknown cost")


def test_the_plan_of_a_run_tells_the_expected_time(here, monkeypatch, capsys):
    from dgpbench import run

    monkeypatch.setattr(timing, "pace", lambda: 1.0)
    write_data(here)
    words = [*data(here), *TINY, "model=linear", "split=1"]
    run(*words, quiet=False)
    assert "expected  about 0:0" in capsys.readouterr().err
    run(*words[:-1], "split=2", quiet=False)
    assert "from your earlier runs" in capsys.readouterr().err
    monkeypatch.setattr("dgpbench.experiment.expected_time", None)  # not asked for where no plan is shown
    run(*words[:-1], "split=3")


def test_the_expected_time_of_a_run_is_found_quickly(here, monkeypatch):
    from dgpbench.data import load_split
    from dgpbench.experiment import expected_time

    monkeypatch.setattr(timing, "pace", lambda: 1.0)
    write_data(here)
    cfg = compose([*data(here), "model=dgp2"])
    split = load_split(cfg, print)
    expected_time(cfg, split, config_key(cfg, split.data_hash))  # reads the packed records, once
    began = time.process_time()
    text = expected_time(cfg, split, config_key(cfg, split.data_hash))
    assert time.process_time() - began < 0.1 and text.startswith("about ")
