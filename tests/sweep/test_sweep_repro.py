"""The list of cells: one plan, records published as they finish, nothing lost, nothing run twice."""

import gzip
import json
import time

import pytest
from sweep_tools import TINY, data, dgpbench, records, write_data

from dgpbench.cli import main
from dgpbench.errors import UserError
from dgpbench.papers.reproduction import (
    Costs,
    Publisher,
    Reference,
    agenda,
    check_extra,
    joint_plan,
    read_cells,
    seconds_of,
    skipped,
)
from dgpbench.store.timing import Cost
from dgpbench.sweep.state import State


def cells(folder, *lines):
    (folder / "cells.txt").write_text("# comment\n\n" + "\n".join(lines) + "\n")
    return folder / "cells.txt"


def line(folder, name, *words):
    return " ".join([name, *data(folder), *TINY, *words])


def published(folder, name):
    lines = gzip.decompress((folder / "results" / "reference" / f"{name}.jsonl.gz").read_bytes()).splitlines()
    return [json.loads(text) for text in lines]


def repro(folder, *words, **more):
    return dgpbench(folder, "repro", "--cells", "cells.txt", "-q", *words, **more)


def test_times_and_words():
    assert [seconds_of(t) for t in ("2h", "1h30m", "45s", "0.5m")] == [7200, 5400, 45, 30]
    for bad in ("2", "h", "2h3", "-1h", "1 h"):
        with pytest.raises(UserError, match="write 2h"):
            seconds_of(bad)
    check_extra(["launcher.workers=1", "device=cpu", "threads=2"])
    for bad in ("budget.steps=5", "launcher=slurm", "seed=1"):
        with pytest.raises(UserError, match="cannot be set here"):
            check_extra([bad])


def test_the_list_is_read_in_order_and_its_mistakes_are_named(tmp_path):
    path = cells(tmp_path, "b model=sgp split=0,1 # dear", "a model=linear")
    assert read_cells(path) == [
        ("b", ["model=sgp", "split=0,1"], f"{path}, line 3"),
        ("a", ["model=linear"], f"{path}, line 4"),
    ]
    assert [x.file for x in read_cells(path, ["linear"])] == ["a"]
    with pytest.raises(UserError, match="no cells in .* with kin8nm"):
        read_cells(path, ["kin8nm"])
    with pytest.raises(UserError, match="line 3"):
        read_cells(cells(tmp_path, "model=sgp split=0"))
    with pytest.raises(UserError, match="cannot read the cells"):
        read_cells(tmp_path / "none.txt")


@pytest.mark.parametrize(
    ("text", "words", "what"),
    [
        (b"a model=sgp\nb model=\xe9\xff\n", [], "cells.txt, line 2: no text in UTF-8"),
        (b"a model=sgp\n\nfoo model=nosuch\n", [], "cells.txt, line 3: "),
        (b"a model=sgp dataset=energy\n", ["launcher.workers=many"], "dgpbench: "),
    ],
)
def test_a_bad_list_is_one_line_that_says_where(text, words, what, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cells.txt").write_bytes(text)
    assert main(["repro", "--dry-run", "--cells", "cells.txt", *words]) == 2
    error = capsys.readouterr().err
    assert what in error and error.count("\n") == 1
    assert ("cells.txt" in error) == (not words) and ("nosuch" in error) == (b"nosuch" in text)


def test_data_that_are_not_fetched_are_named_once(tmp_path, monkeypatch):
    """Configs that take different rows of one dataset look for it each, and say one thing."""
    monkeypatch.chdir(tmp_path)
    words = f"dataset=mnist_images model=cvae_images paths.datasets={tmp_path / 'none'}"
    path = cells(tmp_path, *(f"a {words} dataset.per_class={count}" for count in (1, 2, 3)))
    told: list[str] = []
    joint_plan(read_cells(path), [], fetch=False, note=told.append)
    assert told == ["mnist_images is not fetched yet: whether its units are done cannot be known"]


def test_one_plan_holds_the_units_of_all_lines_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path)
    path = cells(
        tmp_path,
        line(tmp_path, "a", "model=linear", "split=0,1"),
        line(tmp_path, "b", "model=sgp,linear", "split=1,2"),
    )
    lines = read_cells(path)
    plan, owners, _ = joint_plan(lines, [], fetch=True, note=print)
    found = [f"{lines[owners[u.config]].file} {plan.label(i)}" for i, u in enumerate(plan.units)]
    assert found == [
        f"{file} {model} csv split {split}"
        for file, model, split in (
            ("a", "linear", 0),
            ("a", "linear", 1),
            ("b", "sgp", 1),
            ("b", "sgp", 2),
            ("b", "linear", 2),
        )
    ]
    assert {cfg["threads"] for cfg in plan.configs} == {1}


def test_the_agenda_says_what_is_left_and_what_it_costs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path)
    lines = read_cells(
        cells(
            tmp_path,
            line(tmp_path, "a", "model=linear", "split=0,1"),
            line(tmp_path, "b", "model=sgp", "split=0,1"),
        )
    )
    plan, owners, _ = joint_plan(lines, [], fetch=True, note=print)
    assert plan.launcher.workers == 1
    costs = Costs(plan)
    costs.by_config = [Cost(1800.0, "x"), None]
    states = {0: State("done"), 1: State("missing"), 2: State("interrupted"), 3: State("missing")}
    first, second = agenda(lines, owners, states, costs)
    assert first.split()[:3] == ["1/2", "0.5", "core-hours"] and first.endswith(" ".join(lines[0].words))
    assert second.split()[:8] == "0/2 0.0 core-hours and 2 units of unknown".split()
    told: list[str] = []
    publisher = Publisher(Reference(plan, ["a", "b"], tmp_path), [1, 2, 3], costs, False, False)
    monkeypatch.setattr(publisher, "say", told.append)
    publisher.started(1, None)
    assert told == [
        "now linear csv split 1, about 30:00; next sgp csv split 0, cost unknown; "
        "0.5 core-hours and 2 units of unknown cost left"
    ]


METHODS = (("sgp", "fast"), ("dgp2", "fast"), ("sgp", "sghmc"))


def test_a_line_that_repeats_another_is_no_fault(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path)
    same = line(tmp_path, "a", "model=linear", "split=0,1")
    lines = read_cells(cells(tmp_path, same, same))
    plan, owners, _ = joint_plan(lines, [], fetch=True, note=print)
    states = {index: State("missing") for index in range(len(plan.units))}
    first, second = agenda(lines, owners, states, Costs(plan))
    assert first.split()[0] == "0/2" and second.split()[:2] == ["0/0", "done"]


def test_costs_learn_from_the_units_that_end(tmp_path, monkeypatch):
    """The mean of a config's own units; else the expected time, by the pace of its inference or of all."""
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path)
    words = [
        "model=linear",
        "model=sgp inference=fast",
        "model=dgp2 inference=fast",
        "model=sgp inference=sghmc",
    ]
    path = cells(tmp_path, *(line(tmp_path, "a", *each.split(), "split=0,1") for each in words))
    plan, _, _ = joint_plan(read_cells(path), [], fetch=True, note=print)
    costs, firsts = Costs(plan), (0, 2, 4, 6)
    costs.by_config = [Cost(10.0, "x"), Cost(20.0, "x"), Cost(30.0, "x"), None]
    assert [costs.one(i) for i in firsts] == [10.0, 20.0, 30.0, None]
    costs.learn(2, 80.0)
    assert [costs.one(i) for i in firsts] == [40.0, 80.0, 120.0, None]
    costs.learn(3, 40.0)  # its pace was 4, is 3 on the median of 4 and 2
    assert [costs.one(i) for i in firsts] == [30.0, 60.0, 90.0, None]
    costs.learn(0, 10.0)
    costs.learn(6, 7.0)
    assert [costs.one(i) for i in firsts] == [10.0, 60.0, 90.0, 7.0]


def test_cells_without_data_are_named_with_the_reason_and_the_others_planned(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DGPBENCH_DATASETS", str(tmp_path / "empty"))
    write_data(tmp_path)
    path = cells(
        tmp_path,
        "a dataset=nytaxi model=linear,sgp split=0,1",
        line(tmp_path, "a", "model=linear", "split=0"),
        "b dataset=csv dataset.path=gone.csv model=linear split=3",
        "b dataset=nytaxi model=linear split=1,2",
    )
    plan, _, lacking = joint_plan(read_cells(path), [], fetch=True, note=print)
    taxi, gone = skipped(plan, range(len(plan.units)), lacking)
    assert taxi.startswith(
        "skipped 5 units (linear, sgp on nytaxi): dataset nytaxi is not available. Tried cache"
    )
    assert gone.startswith("skipped 1 unit (linear on csv): ") and "gone.csv" in gone
    assert [plan.label(i) for i, u in enumerate(plan.units) if u.config not in lacking] == [
        "linear csv split 0"
    ]
    assert skipped(plan, [4], lacking) == []  # done before, or not asked for: nothing to tell
    path = cells(tmp_path, "a dataset=energy model=lineal")
    with pytest.raises(UserError, match="lineal"):  # a mistake in the list is not a lack of data
        joint_plan(read_cells(path), [], fetch=True, note=print)


@pytest.mark.slow
def test_the_queue_goes_on_past_a_cell_without_data_and_ends_with_1(tmp_path):
    write_data(tmp_path)
    cells(
        tmp_path,
        "a dataset=nytaxi model=linear split=0",
        line(tmp_path, "a", "model=linear", "split=0"),
    )
    done = repro(tmp_path)
    assert done.returncode == 1, done.stderr
    assert [r["dataset"] for r in published(tmp_path, "a")] == ["csv"]
    *_, last = done.stdout.strip().splitlines()
    assert last.startswith("skipped 1 unit (linear on nytaxi): dataset nytaxi is not available.")
    looked = repro(tmp_path, "--dry-run")
    assert looked.returncode == 0 and "1 done" in looked.stdout


@pytest.mark.slow
def test_records_are_published_and_what_is_published_is_not_run_again(tmp_path):
    write_data(tmp_path)
    cells(tmp_path, line(tmp_path, "a", "model=linear", "split=0,1"))
    done = repro(tmp_path)
    assert done.returncode == 0, done.stderr
    own = records(tmp_path)
    assert {r["split"]: r["metrics"] for r in published(tmp_path, "a")} == {
        split: record["metrics"] for (_, split, _), record in own.items()
    }
    assert all(str(tmp_path) not in json.dumps(r["config"]["paths"]) for r in published(tmp_path, "a"))

    (tmp_path / "results").joinpath("reference").rename(tmp_path / "kept")  # another machine: only these
    cells(tmp_path, line(tmp_path, "a", "model=linear", "split=0,1,2"))
    fresh = repro(tmp_path, "--reference", "kept", DGPBENCH_RESULTS="other")
    assert fresh.returncode == 0 and "3 units: 3 done" in fresh.stdout
    assert [f.name[:6] for f in (tmp_path / "other").glob("csv/*/*/*")] == ["split2"]


@pytest.mark.slow
def test_a_budget_stops_and_the_same_command_goes_on(tmp_path):
    write_data(tmp_path)
    long = ["model=sgp", "model.num_inducing=5", "budget.steps=9000000", "engine.block_seconds=0.1"]
    cells(tmp_path, line(tmp_path, "a", "model=linear", "split=0"), line(tmp_path, "a", *long, "split=0"))
    for budget in (12, 60):  # the shorter one may be over before training has begun
        began = time.monotonic()
        done = repro(tmp_path, "launcher.workers=1", "--budget", f"{budget}s")
        assert done.returncode == 0 and budget < time.monotonic() - began < budget + 40, done.stderr
        if list((tmp_path / "results").glob("csv/sgp-*/*/*/checkpoint.npz")):
            break
    assert "2 units: 1 done, 1 interrupted" in done.stdout, done.stdout + done.stderr
    assert [r["model"] for r in published(tmp_path, "a")] == ["linear"]
