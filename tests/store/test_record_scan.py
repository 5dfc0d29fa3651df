"""Reading: what is incomplete, corrupt, old or double; speed."""

import gzip
import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from store_units import make_cfg, make_companions, make_record

from dgpbench.store import record as migrate
from dgpbench.store.layout import unit_folder
from dgpbench.store.record import dumps, dumps_line
from dgpbench.store.scan import Unit, scan
from dgpbench.store.write import write_unit


@pytest.fixture
def warned():
    return []


def put(results, record, text=None, key=None):
    folder = unit_folder(results, record, key or record["key"])
    folder.mkdir(parents=True)
    (folder / "record.json").write_text(text if text is not None else dumps(record))
    return folder


def put_reference(results, lines, name="a"):
    (results / "reference").mkdir(exist_ok=True)
    path = results / "reference" / f"{name}.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.write("\n".join(line.strip() for line in lines) + "\n")
    return path


def test_no_folder_no_records(tmp_path):
    assert scan(tmp_path / "nowhere") == []


def test_incomplete_units_are_ignored_in_silence(tmp_path, warned):
    write_unit(tmp_path, make_record(), **make_companions())
    record = make_record(make_cfg(split=1))
    folder = put(tmp_path, record)
    (folder / "record.json").rename(folder / ".tmp-1-abcd-record.json")
    (folder / "predictions.parquet").write_bytes(b"half")
    (tmp_path / "stray.txt").write_text("x")
    assert [u.record["split"] for u in scan(tmp_path, warn=warned.append)] == [0] and not warned


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"schema": 1}', '{"schema": 99}', "\x00\x01", "{}"])
def test_corrupt_records_are_named_and_left_out(tmp_path, warned, text):
    write_unit(tmp_path, make_record())
    folder = put(tmp_path, make_record(make_cfg(split=1)), text=text)
    assert len(scan(tmp_path, warn=warned.append)) == 1
    assert len(warned) == 1 and str(folder / "record.json") in warned[0] and "left out" in warned[0]


def test_a_corrupt_record_is_replaced_by_the_next_run(tmp_path, warned):
    record = make_record()
    put(tmp_path, record, text="{")
    write_unit(tmp_path, record)
    assert scan(tmp_path, warn=warned.append)[0].record == record and not warned


def _from_0(record):
    return {"metrics": record.pop("scores"), **record}


def test_old_records_are_read_through_migrations(tmp_path, warned, monkeypatch):
    record = make_record()
    old = {**record, "schema": 0, "scores": record["metrics"]}
    del old["metrics"]
    folder = put(tmp_path, record, text=json.dumps(old))
    assert scan(tmp_path, warn=warned.append) == [] and "schema 0 has no migration" in warned[0]
    monkeypatch.setattr(migrate, "MIGRATIONS", {0: _from_0} | migrate.MIGRATIONS)
    assert scan(tmp_path, warn=warned.append)[0].record == record
    assert json.loads((folder / "record.json").read_text())["schema"] == 0


def test_double_keys_are_warned_of(tmp_path, warned):
    cfg = make_cfg()
    failed, done = make_record(cfg, "failed"), make_record(cfg)
    one, two, three = (
        put(tmp_path, {**record, "model": name, "config": {**cfg, "model": {**cfg["model"], "name": name}}})
        for name, record in (("a", failed), ("b", done), ("c", failed))
    )
    (unit,) = scan(tmp_path, warn=warned.append)
    assert unit.folder == two
    assert len(warned) == 2 and all(str(two) in w for w in warned)
    assert str(one) in warned[0] and str(three) in warned[1]


def test_reference_records_fill_gaps(tmp_path, warned):
    mine = make_record(make_cfg(split=0), metrics={"test_rmse": 1.0})
    broken = make_record(make_cfg(split=1), "failed")
    write_unit(tmp_path, mine)
    write_unit(tmp_path, broken)
    lines = [dumps_line(make_record(make_cfg(split=k), metrics={"test_rmse": 9.0})) for k in range(3)]
    path = put_reference(tmp_path, [*lines, "{not json"])
    units = {u.record["split"]: u for u in scan(tmp_path, warn=warned.append)}
    assert [units[k].record["metrics"]["test_rmse"] for k in range(3)] == [1.0, 9.0, 9.0]
    assert [units[k].is_reference for k in range(3)] == [False, True, True]
    assert len(warned) == 1 and f"{path} line 4" in warned[0]
    assert len(scan(tmp_path, reference=False)) == 2


def test_traces_are_read_only_when_asked_for(tmp_path):
    write_unit(tmp_path, make_record(training={"steps": 2, "trace": [[1, 2.0], [2, 3.0]]}))
    assert scan(tmp_path)[0].record["training"] == {"steps": 2}
    assert scan(tmp_path, traces=True)[0].record["training"]["trace"] == [[1, 2.0], [2, 3.0]]


def test_a_cut_reference_file_is_named(tmp_path, warned):
    path = put_reference(tmp_path, [dumps_line(make_record(make_cfg(split=k))) for k in range(200)])
    path.write_bytes(path.read_bytes()[:-200])
    units = scan(tmp_path, warn=warned.append)
    assert len(units) < 200 and any(str(path) in w for w in warned)


@pytest.mark.slow
@pytest.mark.long
def test_ten_thousand_records_are_scanned_about_as_fast_as_they_are_parsed(tmp_path):
    trace = [[100 * i, 0.123456 * i, -12345.678 + i] for i in range(200)]
    record = make_record(training={"trace": trace})
    head = dumps(record).rpartition('"checksum"')[0]
    for n in range(10_000):
        folder = tmp_path / f"d{n % 40}" / "dgp2-dsvi" / "clean" / f"split{n // 40}-{n:08x}"
        folder.mkdir(parents=True)
        own = head.replace(record["key"], f"{n:064x}", 1)
        seal = hashlib.sha256(own.encode()).hexdigest()
        (folder / "record.json").write_text(f'{own}"checksum": "{seal}"\n}}\n')
    start = time.process_time()
    parsed = [json.loads(path.read_text()) for path in tmp_path.glob("*/*/*/*/record.json")]
    floor, start = time.process_time() - start, time.process_time()
    assert len(scan(tmp_path)) == len(parsed) == 10_000
    took = time.process_time() - start
    assert took < 2 * floor, (took, floor)  # 0.75 measured: 2.7 s and 3.6 s


def test_reading_imports_nothing_heavy():
    heavy = "tensorflow pandas pyarrow numpy scipy gpflow hydra omegaconf".split()
    code = (
        f"import sys, dgpbench.cli.show, dgpbench.store.scan; print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.strip() == "[]"


def test_an_exported_reference_reads_back_without_the_paths_of_its_machine(tmp_path, warned):
    from dgpbench.store.reference import NO_PATHS, export

    records = [make_record(make_cfg(split=k) | {"paths": {"results": "/home/me/r"}}) for k in (2, 0, 1)]
    units = [Unit(record, tmp_path / "x" / "record.json") for record in records]
    path = tmp_path / "reference" / "a.jsonl.gz"
    assert export(units, path) == 3
    back = {unit.record["split"]: unit.record for unit in scan(tmp_path)}
    for record in records:
        assert back[record["split"]] == record | {"config": record["config"] | {"paths": NO_PATHS}}
    first = path.read_bytes()
    export(units[::-1], path)
    assert path.read_bytes() == first and b"/home/me" not in gzip.decompress(first)
    assert warned == []
