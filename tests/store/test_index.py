"""Packed files read before: the same records, and never those of another content or owner."""

import random

import pytest
from store_units import digest, make_cfg, make_record

from dgpbench.store import scan as index
from dgpbench.store.reference import export
from dgpbench.store.scan import Unit, scan


@pytest.fixture
def packed(tmp_path, monkeypatch):
    monkeypatch.setenv("DGPBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(index, "CACHE_LEAST", 0)
    units = []
    for split in range(6):
        for inducing in (50, 100):
            cfg = make_cfg(split=split, num_inducing=inducing)
            training = {"trace": [[k, 0.1 * k, random.random()] for k in range(30)], "steps": 30}
            key = digest(split, inducing)
            units.append(Unit(make_record(cfg, key=key, training=training), tmp_path))
    path = tmp_path / "reference" / "a.jsonl.gz"
    export(units, path)
    return path


def read(path, **more):
    return {unit.record["key"]: unit.record for unit in scan(path.parent.parent, **more)}


def test_the_second_reading_gives_the_same_records_without_parsing(packed, monkeypatch):
    first = read(packed)
    monkeypatch.setattr("dgpbench.store.scan.parse", None)
    assert read(packed) == first and len(first) == 12
    with pytest.raises(TypeError):  # traces are in the file alone
        read(packed, traces=True)


def test_another_content_is_read_anew(packed):
    first = read(packed)
    export([Unit(make_record(make_cfg(split=9)), packed)], packed)
    (record,) = read(packed).values()
    assert record["split"] == 9 and record["key"] not in first


@pytest.mark.parametrize("damage", ["mode", "text"])
def test_what_cannot_be_trusted_is_left_aside(packed, tmp_path, damage):
    first = read(packed)
    (kept,) = (tmp_path / "cache").glob("records-*.json")
    if damage == "mode":
        kept.chmod(0o666)
    else:
        kept.write_text(kept.read_text().replace("-1.0", "-9.0"))
    assert index._cached(packed) is None and read(packed) == first


def test_a_file_with_a_bad_line_is_not_kept(packed, tmp_path, capsys):
    import gzip

    lines = gzip.decompress(packed.read_bytes()).splitlines(keepends=True)
    packed.write_bytes(gzip.compress(b"".join([*lines, b"{}\n"])))
    assert len(read(packed)) == 12 and "cannot be read" in capsys.readouterr().err
    assert not list((tmp_path / "cache").glob("records-*"))
