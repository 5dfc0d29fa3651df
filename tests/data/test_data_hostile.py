"""Data, names and addresses that mean harm, or only numbers that computers do not like."""

import gzip
import json
import re
import time

import numpy as np
import pytest

from dgpbench.data import download as downloads
from dgpbench.data import inventory
from dgpbench.data.catalogue import Entry, entry_from_config
from dgpbench.data.loader import load_split
from dgpbench.data.sources import PINS, obtain
from dgpbench.errors import UserError


def table(path, X, y):
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", fmt="%.17g")
    return {"name": "csv", "path": str(path), "task": "regression"}


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("size", [1e308, -1e308, 1e200, 1e101])
@pytest.mark.parametrize("where", ["input", "target"])
def test_numbers_near_the_end_of_the_range_are_refused_by_name(tmp_path, config, rng, size, where):
    X, y = rng.normal(size=(50, 2)), rng.normal(size=50)
    (X[:, 1] if where == "input" else y)[7] = size
    words = f"{where} {1 if where == 'input' else 0} of row 7 is {size:g}; squares of numbers beyond 1e+100"
    with pytest.raises(UserError, match=re.escape(words)):
        load_split(config(table(tmp_path / "own.csv", X, y)))


def test_numbers_that_can_be_computed_with_pass(tmp_path, config, rng):
    for scale in (1e-90, 1e-12, 1.0, 1e30, 1e99):
        X, y = scale * rng.normal(size=(50, 2)), scale * rng.normal(size=50)
        split = load_split(config(table(tmp_path / f"{scale}.csv", X, y)))
        assert np.isfinite(split.X_train).all() and np.isfinite(split.Y_train).all()
        np.testing.assert_allclose(split.X_train.std(0), 1.0, rtol=1e-10)


def test_a_spread_that_underflows_is_refused(tmp_path, config, rng):
    X, y = rng.normal(size=(50, 2)), rng.normal(size=50)
    X[:, 1] *= 1e-200
    with pytest.raises(UserError, match="input 1 has mean .* which cannot be standardised; rescale it"):
        load_split(config(table(tmp_path / "own.csv", X, y)))


def test_a_constant_target_is_a_trap(tmp_path, config, rng):
    split = load_split(config(table(tmp_path / "own.csv", rng.normal(size=(50, 2)), np.full(50, 3.0))))
    assert any("target has one value only" in trap for trap in split.traps)
    fine = load_split(config(table(tmp_path / "fine.csv", rng.normal(size=(50, 2)), np.arange(50))))
    assert not any("target has one value only" in trap for trap in fine.traps)


NO_NAMES = ["../../x", "a/b", "..", ".", "", ".hidden", "a\\b", "a\nb", "x" * 200, 7, None]


@pytest.mark.parametrize("name", NO_NAMES)
def test_dataset_names_cannot_leave_their_folder(tmp_path, config, rng, name):
    dataset = table(tmp_path / "own.csv", rng.normal(size=(50, 2)), rng.normal(size=50))
    before = sorted(p for p in tmp_path.rglob("*"))
    with pytest.raises(UserError, match="dataset.name"):
        load_split(config({**dataset, "name": name}))
    assert sorted(p for p in tmp_path.rglob("*")) == before


PATHS = ["../x.csv", "/etc/passwd", "a/../../x", "a/..", "a//b", "a\\b", "", ".x", "a/.x", "h/meta.json", 7]


@pytest.mark.parametrize("path", PATHS)
def test_source_paths_cannot_leave_their_folder(path):
    source = {"kind": "file", "path": path, "reader": "text"}
    with pytest.raises(UserError, match="source path .* is not allowed"):
        Entry.from_dict({"name": "mine", "sources": [source]})
    more = {"kind": "file", "path": "h/x.csv", "reader": "text", "more": [{"path": path}]}
    with pytest.raises(UserError, match="source path .* is not allowed"):
        entry_from_config({"name": "mine", "sources": [more]})


NO_SOURCES = ["x", {}, {"kind": "ftp", "path": "h/x"}, {"kind": "file", "path": "h/x"}, 7]


@pytest.mark.parametrize("source", NO_SOURCES)
def test_sources_that_are_none_are_one_line(source):
    with pytest.raises(UserError, match="its sources cannot be read"):
        Entry.from_dict({"name": "mine", "sources": [source]})


@pytest.mark.slow
def test_what_nobody_vouches_for_is_pinned_on_first_use(tmp_path, paths, capsys):
    mirror = tmp_path / "mirror"
    (mirror / "h").mkdir(parents=True)
    (mirror / "h/x.csv").write_text("1,2\n")
    source = {"kind": "file", "path": "h/x.csv", "reader": "text"}
    entry, told = Entry.from_dict({"name": "mine", "sources": [source]}), []
    paths = {**paths, "mirror": str(mirror)}
    obtain(entry, paths, told.append)
    (line,) = [text for text in told if "pinned" in text]
    folder = tmp_path / "datasets/mine"
    pins = json.loads((folder / PINS).read_text())
    assert "no sha256 of x.csv is published" in line and pins["x.csv"] in line
    obtain(entry, paths, told.append)
    assert len([text for text in told if "pinned" in text]) == 1
    (folder / "x.csv").write_text("3,4\n")
    (mirror / "h/x.csv").write_text("5,6\n")  # neither is what came first
    with pytest.raises(UserError) as caught:
        obtain(entry, paths, told.append)
    assert str(caught.value).count(f"expected {pins['x.csv']}") == 2


def test_verify_says_what_is_unpinned(tmp_path, monkeypatch):

    source = {"kind": "file", "path": "h/x.csv", "reader": "text"}
    entry = Entry.from_dict({"name": "mine", "sources": [source]})
    monkeypatch.setattr(inventory, "catalogue", lambda: {"mine": entry})
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "x.csv").write_text("1,2\n")
    told = []
    assert inventory.verify({"datasets": str(tmp_path)}, told.append)[0][1] is None
    assert told == ["mine/x.csv (unpinned: no published sha256, no pin): sound"]
    (folder / PINS).write_text(json.dumps({"x.csv": "0" * 64}))
    assert (
        "not the file that was fetched first"
        in inventory.verify({"datasets": str(tmp_path)}, told.append)[0][1]
    )


# Text files ------------------------------------------------------------------------------------------

ROWS = "1,2,3\n4,5,7\n7,8,8\n1,1,2\n4,4,4\n5,6,9\n"
FILES = {
    "nul bytes": (b"1,2\0,3\n" * 9, "not a number"),
    "a word of 200,000 letters": (f"{'x' * 200_000},2\n".encode() + b"1,2\n" * 9, None),
    "a value of 200,000 letters": (b"1,2\n" * 9 + f"{'x' * 200_000},2\n".encode(), "not a number"),
    "decimal commas": (b"1,5;2,5\n" * 9, "decimals are written with a point, 1.5"),
    "decimal commas under names": (b"a;b\n" + b"1,5;2\n" * 9, "decimals are written with a point, 1.5"),
    "decimal commas with tabs": (b"1,5\t2,5\n" * 9, "decimals are written with a point, 1.5"),
    "an open quote": (b'"1,2\n' * 9, None),
    "not utf-8": (b"\xff\xfe1,2\n" * 9, "not a text file in UTF-8"),
    "utf-16": (("1,2\n" * 9).encode("utf-16"), None),
    "binary": (bytes(range(256)) * 50, None),
    "nan": (b"1,2\n" * 5 + b"1,nan\n", "NaN and infinite values are not allowed"),
    "overflow": (b"1,2\n" * 5 + b"1,1e999\n", "NaN and infinite values are not allowed"),
    "hexadecimal": (b"1,2\n" * 5 + b"1,0x1F\n", "not a number"),
    "underscores": (b"1,2\n" * 5 + b"1,1_000\n", None),
    "ragged": (b"1,2\n" * 5 + b"1,2,3\n", "3 columns where 2 are expected"),
    "blank": (b"\n" * 1000, "has only blank lines"),
    "a single row": (b"1,2\n", "rows"),
    "a formula": (b"1,2\n" * 5 + b"1,=1+1\n", "not a number"),
    "semicolons at the end": (b"1;2;\n" * 9, None),
    "carriage returns": (ROWS.replace("\n", "\r").encode(), "fine"),
    "a byte order mark": (b"\xef\xbb\xbf" + ROWS.encode(), "fine"),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_any_text_is_a_table_or_one_line(tmp_path, config, name, packed):
    content, words = FILES[name]
    path = tmp_path / ("own.csv.gz" if packed else "own.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    dataset = {"name": "csv", "path": str(path), "task": "regression"}
    if words == "fine":
        assert load_split(config(dataset)).n_train == 5
        return
    try:
        load_split(config(dataset))
    except UserError as error:
        assert "\n" not in str(error) and (words is None or words in str(error))
    else:
        assert words is None


def test_a_bomb_is_one_line(tmp_path, config, monkeypatch):
    from dgpbench.data.readers import text

    monkeypatch.setattr(text, "MAX_LINE", 1 << 20)
    path = tmp_path / "own.csv.gz"
    path.write_bytes(gzip.compress(b"1" * (8 << 20)))
    with pytest.raises(UserError, match="a line has no end"):
        load_split(config({"name": "csv", "path": str(path), "task": "regression"}))
    monkeypatch.setattr(text, "MAX_LINE", 64 << 20)
    monkeypatch.setattr(text, "MAX_TEXT", 1 << 20)
    path.write_bytes(gzip.compress(b"1,2\n" * (1 << 20)))
    with pytest.raises(UserError, match="the text has no end"):
        load_split(config({"name": "csv", "path": str(path), "task": "regression"}))


def test_a_hundred_thousand_columns_take_seconds(tmp_path, config):
    row = ",".join(str(i % 10) for i in range(100_000))
    path = tmp_path / "wide.csv"
    path.write_text("\n".join(f"{i},{row}" for i in range(8)) + "\n")
    began = time.process_time()
    dataset = {"name": "csv", "path": str(path), "task": "regression", "drop": [3]}
    assert load_split(config(dataset)).dim == 99_999
    assert time.process_time() - began < 15


# Downloads -------------------------------------------------------------------------------------------


def test_endless_and_crawling_transfers_are_given_up(tmp_path, server, monkeypatch):
    monkeypatch.setattr(downloads, "MAX_BYTES", 20_000)
    with pytest.raises(downloads.SourceError, match="refused, it is larger than"):
        downloads.download(f"{server.url}/x", tmp_path / "x", retries=1)
    monkeypatch.setattr(downloads, "MAX_BYTES", 1 << 30)
    monkeypatch.setattr(downloads, "PATIENCE", -1.0)
    monkeypatch.setattr(downloads, "MIN_RATE", 1e15)
    with pytest.raises(downloads.SourceError, match="given up, 0 bytes"):
        downloads.download(f"{server.url}/x", tmp_path / "x", retries=1)
    assert list(tmp_path.iterdir()) == []
