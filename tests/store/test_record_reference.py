"""Publishing records: what is in a reference file stays there."""

import gzip
import multiprocessing

import pytest
from store_units import make_cfg, make_record

from dgpbench.errors import UserError
from dgpbench.store.reference import load, publish, thinned
from dgpbench.store.scan import Unit


def unit(split, loglik=-1.0, status="done"):
    record = make_record(make_cfg(split=split), status=status, metrics={"test_loglik": loglik})
    return Unit(record, None)


def held(path):
    return {u.record["split"]: (u.record["status"], u.record["metrics"]["test_loglik"]) for u in load(path)}


def test_records_join_those_that_are_there(tmp_path):
    path = tmp_path / "reference" / "a.jsonl.gz"
    assert publish([unit(0), unit(1, -2.0, "diverged")], path) == 2
    assert publish([unit(0, -7.0), unit(1, -3.0), unit(2, -4.0)], path) == 2  # done: 0 stays, 1 gives way
    assert held(path) == {0: ("done", -1.0), 1: ("done", -3.0), 2: ("done", -4.0)}
    assert publish([unit(2, -9.0, "diverged")], path) == 0
    assert held(path)[2] == ("done", -4.0)
    assert [p.name for p in path.parent.iterdir()] == ["a.jsonl.gz"]


def test_a_file_that_cannot_be_read_is_not_written_over(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    publish([unit(k) for k in range(3)], path)
    for damaged in (path.read_bytes()[:-20], gzip.compress(b'{"schema": 1}\n')):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="restore the file, or make it again"):
            publish([unit(5)], path)
        assert path.read_bytes() == damaged


def _add(path, splits):
    for split in splits:
        publish([unit(split)], path)


def test_two_writers_lose_nothing(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_add, args=(path, range(k, 40, 2))) for k in (0, 1)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(held(path)) == list(range(40))


def test_a_long_trace_keeps_sixty_points_with_its_ends():
    trace = [[k, k / 10, -float(k)] for k in range(200)]
    record = make_record(training={"steps": 200, "trace": trace})
    kept = thinned(record)["training"]["trace"]
    assert len(kept) == 60 and kept[0] == [0, 0.0, 0.0] and kept[-1] == [199, 19.9, -199.0]
    assert {after[0] - before[0] for before, after in zip(kept, kept[1:], strict=False)} == {3, 4}
    assert len(record["training"]["trace"]) == 200  # what the user has is untouched
    for training in ({"trace": [[1, 0.0, -1.0]]}, {}):
        short = make_record(training=training)
        assert thinned(short) is short
