"""Bad files in a results folder: one warning each, nothing hangs, everything else goes on."""

import json
import os
import shutil
import signal
from contextlib import contextmanager

import pytest
from hostile import CONTENTS, FILES, place_all

from dgpbench.cli import main
from dgpbench.config import compose
from dgpbench.experiment import run_unit
from dgpbench.store.record import dumps
from dgpbench.store.scan import scan
from dgpbench.sweep.planner import make_plan


@contextmanager
def no_longer_than(seconds):
    def late(number, frame):
        raise AssertionError(f"still at it after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def words(folder):
    file = folder / "data.csv"
    if not file.exists():
        file.write_text("".join(f"{i % 7},{i % 11},{i % 5 + 0.1 * i}\n" for i in range(60)))
    small = ["protocol.test_samples=4", "protocol.draws=20", "model=linear"]
    paths = [f"paths.results={folder / 'results'}", f"paths.datasets={folder / 'datasets'}"]
    return ["dataset=csv", f"dataset.path={file}", *small, *paths]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A plan of 100 units of which the first is done."""
    folder = tmp_path_factory.mktemp("original")
    run_unit(compose(words(folder)))
    return folder


@pytest.fixture
def hostile(original, tmp_path, monkeypatch):
    """The same with a bad record for each other unit; the plan, and where each lies."""
    shutil.copytree(original, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DGPBENCH_RESULTS", "results")
    plan = make_plan([*words(tmp_path), "seed=range(0,5)"], fetch=True, note=lambda text: None)
    plan.save()
    (unit,) = scan("results")
    places = [plan.folder(i) for i in range(len(plan.units)) if plan.folder(i).name != unit.folder.name]
    return plan, place_all(places, unit.record)


COMMANDS = [
    ("show",),
    ("show", "--each", "--format", "csv"),
    ("show", "--format", "json", "--metric", "all"),
    ("show", "--format", "markdown"),
    ("show", "--failed"),
    ("status",),
    ("status", "--json"),
    ("status", "--list"),
    ("verify",),
    ("gc", "--days", "0"),
]


def test_one_bad_file_is_one_warning_and_everything_else_goes_on(hostile, capsys):
    plan, places = hostile
    assert len(places) == len(CONTENTS) + len(FILES) >= 63
    for command in COMMANDS:
        with no_longer_than(100):
            code = main(list(command))
        out, err = capsys.readouterr()
        assert code in (0, 1), (command, err)
        said = (out if command[0] == "verify" else err).splitlines()
        if command[0] != "gc":
            for name, place in places.items():
                lines = [line for line in said if f"/{place.name}/" in line]
                assert len(lines) == 1, (command, name, lines)
        if command == ("status",):
            missing = len(plan.units) - len(places) - 1
            assert f"1 done, {len(places) - 1} damaged, 1 newer, {missing} missing" in out
    assert "1 records" not in out and len(scan("results", warn=lambda text: None)) == 1


def test_a_merge_takes_the_good_and_leaves_the_bad(hostile, tmp_path, capsys):
    _, places = hostile
    with no_longer_than(100):
        assert main(["merge", "results", "--results", str(tmp_path / "ours")]) == 1
    out = capsys.readouterr().out
    assert out == f"1 taken in, {len(places)} damaged and left out\n"
    assert main(["verify", "--results", str(tmp_path / "ours")]) == 0


PLANS = {
    "empty": "",
    "half": None,
    "list": "[]",
    "nan": '{"format": NaN}',
    "deep": "[" * 100_000,
    "no units": {"units": []},
    "unit of no config": {"units": [[5, 0, 0, "0" * 64]]},
    "unit with few fields": {"units": [[0, 0]]},
    "unit of words": {"units": [["a", "b", "c", "d"]]},
    "no key": {"units": [[0, 0, 0, "x"]]},
    "no configs": {"configs": []},
    "config text": {"configs": ["x"]},
    "config empty": {"configs": [{}]},
    "hashes": {"hashes": ["x"]},
    "command": {"command": [1]},
    "cwd": {"cwd": None},
    "format": {"format": 2},
}


@pytest.mark.parametrize("name", [*PLANS, "fifo", "folder", "link"])
def test_a_bad_plan_is_one_line(original, tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DGPBENCH_RESULTS", "results")
    shutil.copytree(original, tmp_path, dirs_exist_ok=True)
    path = make_plan(words(tmp_path), fetch=True, note=lambda text: None).save()
    good = path.read_text()
    path.unlink()
    if name in FILES:
        FILES[name](path, next(iter(scan("results"))).record)
    elif name == "half":
        path.write_text(good[: len(good) // 2])
    else:
        text = PLANS[name]
        path.write_text(text if isinstance(text, str) else json.dumps(json.loads(good) | text))
    for command in (["status"], ["worker", str(path), "0"]):
        with no_longer_than(20):
            assert main(command) == 2
        error = capsys.readouterr().err
        assert "is no plan" in error and error.count("\n") == 1
    for command in (["status", "--list"], ["gc"], ["show"]):
        with no_longer_than(20):
            assert main(command) == 0


def test_leases_that_are_none(original, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DGPBENCH_RESULTS", "results")
    shutil.copytree(original, tmp_path, dirs_exist_ok=True)
    plan = make_plan(words(tmp_path), fetch=True, note=lambda text: None)
    plan.save()
    leases = tmp_path / "results/.leases"
    leases.mkdir(exist_ok=True)
    good = {"key": "", "host": "h", "pid": 7, "started": "1", "job": None, "token": "0" * 16, "progress": {}}
    bad = [
        *({"token": "../../../x"}, {"pid": "7"}, {"pid": -1}, {"host": "\x1b[2J"}, {"progress": []}),
        *({"progress": {"step": "x"}}, {"progress": {"left": [1]}}, {"job": 7}, {"key": "0"}, {"colour": 1}),
    ]
    for index, change in enumerate(bad):
        key = plan.units[index].key
        (leases / f"{key[:32]}.json").write_text(json.dumps(good | {"key": key} | change))
    os.mkfifo(leases / f"{plan.units[11].key[:32]}.json")
    (leases / f"{plan.units[12].key[:32]}.json").mkdir()
    (leases / f"{plan.units[13].key[:32]}.json").write_bytes(b"[" * 60_000)
    with no_longer_than(20):
        assert main(["status"]) == 1 and "1 done, 19 missing" in capsys.readouterr().out
    from dgpbench.sweep import lease

    for index in (0, 11, 12, 13):
        with no_longer_than(20):
            held = lease.take(tmp_path / "results", plan.units[index].key, os.getpid())
        assert held is not None
    assert not list(tmp_path.glob("**/x")) and not (tmp_path.parent / "x").exists()


def test_a_metric_that_some_done_records_lack_is_said_beside_its_mean(original, tmp_path, capsys):
    shutil.copytree(original, tmp_path, dirs_exist_ok=True)
    (unit,) = scan(tmp_path / "results")
    other = {**unit.record, "key": "1" * 64, "split": 1, "config": {**unit.record["config"], "split": 1}}
    other["metrics"] = {**other["metrics"], "test_rmse": None}
    place = unit.folder.with_name("split1-11111111")
    place.mkdir()
    (place / "record.json").write_text(dumps(other))
    assert main(["show", "--results", str(tmp_path / "results")]) == 0
    assert "[1 of 2]" in capsys.readouterr().out
    assert main(["show", "--results", str(tmp_path / "results"), "--format", "csv"]) == 0
    header, row = capsys.readouterr().out.splitlines()
    cells = dict(zip(header.split(","), row.split(","), strict=True))
    assert cells["done"] == "2" and cells["test_rmse_n"] == "1" and cells["test_loglik_n"] == "2"
