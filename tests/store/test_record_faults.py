"""Faults at every file operation of storing: what stands afterwards is whole, and nothing done is lost."""

import os
import shutil

import numpy as np
import pytest
from faults import FAULTS, Journal, Killed, fault
from store_units import make_cfg, make_companions, make_record

from dgpbench.engine import checkpoint
from dgpbench.errors import UserError
from dgpbench.store import read
from dgpbench.store.scan import Unit, parse, scan
from dgpbench.store.write import copy_unit, write_unit
from dgpbench.sweep import lease

OLD, NEW = 1.0, 2.0


def old_and_new(status="done"):
    return [make_record(status=status, metrics={"test_rmse": value}) for value in (OLD, NEW)]


def write_first(results):
    write_unit(results, old_and_new()[1], **make_companions(NEW))


def write_over(results):
    write_unit(results, old_and_new()[1], force=True, **make_companions(NEW))


def copy_in(results):
    source = next((results.parent / "source").glob("*/*/*/*/record.json"))
    copy_unit(results, Unit(parse(source.read_bytes()), source))


SCENARIOS = {"first": (write_first, False), "replaced": (write_over, True), "copied": (copy_in, False)}


def values(results) -> list[float]:
    """The value of each record, which must also be that of its files; anything unreadable is an error."""

    def refuse(text):
        raise AssertionError(text)

    found = []
    for unit in scan(results, warn=refuse):
        value = unit.record["metrics"]["test_rmse"]
        assert read.predictions(unit)["mean"][0] == read.parameters(unit)["layers.0.Z"][0, 0] == value
        assert read.draws(unit)["draws"][0, 0] == value
        found.append(value)
    return found


@pytest.fixture(scope="module")
def templates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("templates")
    write_unit(folder / "old", old_and_new()[0], **make_companions(OLD))
    write_unit(folder / "source", old_and_new()[1], **make_companions(NEW))
    return folder


def prepared(templates, place, replaces):
    place.mkdir()
    shutil.copytree(templates / "source", place / "source")
    if replaces:
        shutil.copytree(templates / "old", place / "results")
    return place / "results"


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_fault_at_any_operation(tmp_path, templates, name, kind):
    work, replaces = SCENARIOS[name]
    before = [OLD] if replaces else []
    with fault(10**9, None) as done:
        work(prepared(templates, tmp_path / "calm", replaces))
    assert len(done) > 12 and {"open", "write", "fsync", "replace"} <= set(done)
    ends = set()
    for at in range(len(done)):
        results = prepared(templates, tmp_path / str(at), replaces)
        try:
            with fault(at, FAULTS[kind]):
                work(results)
        except Killed:
            assert kind == "kill"
        except UserError as error:
            assert kind != "kill" and "\n" not in str(error) and str(results) in str(error)
        assert values(results) in (before, [NEW]), (at, done[at])
        ends.add(tuple(values(results)))
        work(results)  # the next try finds nothing in its way
        assert values(results) == [NEW], (at, done[at])
        if kind != "kill" and done[at] != "unlink":
            assert not list(results.rglob(".tmp*"))
    assert ends == {tuple(before), (NEW,)}


@pytest.mark.parametrize("name", SCENARIOS)
def test_power_loss_at_any_moment(tmp_path, templates, name):
    """Unsynced writes are dropped, unsynced renames dropped or done in any combination."""
    work, replaces = SCENARIOS[name]
    results = prepared(templates, tmp_path / "place", replaces)
    folder = next((templates / "old").glob("*/*/*/*"))
    folder = results / folder.relative_to(templates / "old")
    folder.mkdir(parents=True, exist_ok=True)
    journal = Journal(folder)
    with journal.watching():
        work(results)
    disks = list(journal.disks())
    assert len(disks) > 20
    found = set()
    for number, disk in enumerate(disks):
        place = tmp_path / "after" / str(number) / folder.relative_to(results)
        place.mkdir(parents=True)
        for file, content in disk.items():
            (place / file).write_bytes(content)
        found.add(tuple(values(tmp_path / "after" / str(number))))
    assert found == {(OLD,) if replaces else (), (NEW,)}
    assert not journal.pending or all(change[0] == "remove" for change in journal.pending)  # it has returned


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of a zip file on a full disk
@pytest.mark.parametrize("kind", FAULTS)
def test_checkpoints_are_old_or_new(tmp_path, kind):
    def state(value):
        return {"step": np.asarray(value), "a": np.full(1000, value)}

    with fault(10**9, None) as done:
        checkpoint.save(tmp_path / "calm", "k", state(NEW))
    for at in range(len(done)):
        folder = tmp_path / str(at)
        checkpoint.save(folder, "k", state(OLD))
        try:
            with fault(at, FAULTS[kind]):
                checkpoint.save(folder, "k", state(NEW))
        except (Killed, OSError):
            pass
        found = checkpoint.load(folder, "k")
        assert found["step"] in (OLD, NEW) and (found["a"] == found["step"]).all()


@pytest.mark.parametrize("kind", FAULTS)
def test_leases_stop_nobody(tmp_path, kind):
    """Whatever becomes of a lease, the unit can be taken once its holder is dead, and by one only."""
    key = make_record()["key"]

    def work(results):
        held = lease.take(results, key, os.getpid())
        lease.renew(results, held, {"step": 1})
        lease.release(results, held)

    with fault(10**9, None) as done:
        work(tmp_path / "calm")
    for at in range(len(done)):
        results = tmp_path / str(at)
        try:
            with fault(at, FAULTS[kind]):
                work(results)
        except (Killed, OSError):
            pass
        for path in (results / ".leases").glob("*.json"):
            held = lease.read(path)
            assert held is not None and held.key == key
            path.write_text(path.read_text().replace(f'"started": "{held.started}"', '"started": "1"'))
        assert lease.take(results, key, os.getpid()) is not None
        assert lease.take(results, key, os.getpid()) is None


def test_a_unit_of_another_split_is_not_touched(tmp_path):
    other = make_record(make_cfg(split=1), metrics={"test_rmse": OLD})
    unit = write_unit(tmp_path, other, **make_companions(OLD))
    before = {p.name: p.read_bytes() for p in unit.folder.iterdir()}
    with fault(20, None) as done, pytest.raises(Killed):
        write_over(tmp_path)
    assert len(done) > 20 and {p.name: p.read_bytes() for p in unit.folder.iterdir()} == before
