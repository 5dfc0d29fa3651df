"""Records that this version cannot read are never lost: newer ones stay, damaged ones are set aside."""

import json

import pytest
from store_units import make_cfg, make_companions, make_record

from dgpbench.api.record_tables import read_export
from dgpbench.errors import UserError
from dgpbench.store import read
from dgpbench.store import record as seal
from dgpbench.store.scan import damaged_records, find, scan
from dgpbench.store.write import copy_unit, write_unit
from dgpbench.sweep.merge import merge


def as_newer(path, schema=3, version="0.9.1"):
    """Rewrite a record as a later version of dgpbench would: a higher schema, a new field, a new seal."""
    record = json.loads(path.read_bytes())
    record.pop(seal.CHECKSUM)
    record |= {"schema": schema, "novelty": 1, "versions": {"dgpbench": version}}
    path.write_text(seal.dumps(record))
    return path.read_bytes()


@pytest.mark.parametrize("force", [False, True])
def test_a_newer_record_is_never_replaced(tmp_path, force):
    unit = write_unit(tmp_path, make_record(), **make_companions(1.0))
    before = as_newer(unit.path)
    files = {path: path.read_bytes() for path in unit.folder.iterdir()}
    with pytest.raises(UserError, match=r"written by dgpbench 0\.9\.1 \(schema 3\).*update dgpbench"):
        find(tmp_path, make_cfg(), unit.record["key"])
    with pytest.raises(UserError, match=r"dgpbench 0\.9\.1"):
        write_unit(tmp_path, make_record(), **make_companions(2.0), force=force)
    assert unit.path.read_bytes() == before
    assert {path: path.read_bytes() for path in unit.folder.iterdir()} == files
    warnings = []
    assert scan(tmp_path, warn=warnings.append) == [] and "0.9.1" in warnings[0]


@pytest.mark.parametrize("version", ["\x1b[31m", "0.9 && rm", None, 7, "9" * 500])
def test_the_version_of_a_newer_record_is_not_trusted(tmp_path, version):
    unit = write_unit(tmp_path, make_record())
    as_newer(unit.path, version=version)
    with pytest.raises(UserError) as error:
        find(tmp_path, make_cfg(), unit.record["key"])
    assert ("dgpbench 7 (schema 3)" if version == 7 else "by a newer dgpbench (schema 3)") in str(error.value)


def test_merge_leaves_a_newer_record_and_copies_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr("dgpbench.sweep.merge.check_record", lambda record, allow: None)  # a made-up config
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for split in (0, 1):
        write_unit(theirs, make_record(make_cfg(split=split)))
    kept = write_unit(ours, make_record(make_cfg(split=0)))
    before, warnings = as_newer(kept.path), []
    counts = merge(theirs, ours, warnings.append, read_export)
    assert counts == {"refused": 1, "taken": 1} and "0.9.1" in warnings[-1]
    assert kept.path.read_bytes() == before


DAMAGE = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:200]),
    "empty": lambda path: path.write_bytes(b""),
    "altered": lambda path: path.write_bytes(path.read_bytes().replace(b'"split": 0', b'"split": 9')),
    "link": lambda path: (path.unlink(), path.symlink_to("elsewhere")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_record_and_its_files_are_set_aside(tmp_path, damage):
    unit = write_unit(tmp_path, make_record(), **make_companions(1.0))
    DAMAGE[damage](unit.path)
    broken = None if unit.path.is_symlink() else unit.path.read_bytes()
    assert find(tmp_path, make_cfg(), unit.record["key"]) is None
    again = write_unit(tmp_path, make_record(), **make_companions(2.0))
    (aside,) = unit.folder.glob("record.json.damaged-????????")
    assert aside.is_symlink() if broken is None else aside.read_bytes() == broken
    (params,) = unit.folder.glob("params.npz.damaged-*")
    assert read.unpack_arrays(params.read_bytes())["layers.0.Z"][0, 0] == 1.0
    assert read.parameters(again)["layers.0.Z"][0, 0] == 2.0
    assert damaged_records(tmp_path) == 1
    copy_unit(tmp_path, again)  # a second write of a whole record sets nothing aside
    assert damaged_records(tmp_path) == 1
