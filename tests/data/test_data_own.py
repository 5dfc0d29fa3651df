"""The user's own file: what is read, and one clear line for everything that cannot be."""

import gzip

import numpy as np
import pytest

from dgpbench.data import load_split
from dgpbench.data.cache import load_data
from dgpbench.data.catalogue import entry_from_config
from dgpbench.errors import UserError

ROWS = np.array([[i, i * i, 3 * i + 1.5] for i in range(10)])
BODY = "\n".join(",".join(map(str, r)) for r in ROWS)


@pytest.fixture
def load(tmp_path, paths):
    def read(content, name="my.csv", **settings):
        file = tmp_path / name
        if content is not None:
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return load_data(entry_from_config({"name": "csv", "path": str(file), **settings}), paths)

    return read


def same(data, inputs, targets):
    return np.array_equal(data.X, ROWS[:, inputs]) and np.array_equal(data.Y, ROWS[:, targets])


def test_plain_file_last_column_is_the_target(load):
    assert same(load(BODY), [0, 1], [2])


def test_header_is_found_and_names_columns(load):
    assert same(load("a,b,c\n" + BODY), [0, 1], [2])
    assert same(load("a,b,c\n" + BODY, target="a"), [1, 2], [0])
    assert same(load("a,b,c\n" + BODY, target=["c", "a"]), [1], [2, 0])
    assert same(load('\ufeff"a x";"b";"c"\r\n' + BODY.replace(",", ";"), target="a x"), [1, 2], [0])


@pytest.mark.parametrize("target", [0, "0", -3])
def test_target_by_number(load, target):
    assert same(load(BODY, target=target), [1, 2], [0])


@pytest.mark.parametrize("mark", [";", "\t", " "])
def test_other_separators(load, mark):
    assert same(load(BODY.replace(",", mark)), [0, 1], [2])


def test_header_can_be_forced(load):
    assert len(load("7,8,9\n" + BODY, header=True).X) == 10
    assert len(load("7,8,9\n" + BODY).X) == 11
    with pytest.raises(UserError, match="line 1, column 1 is 'a', not a number"):
        load("a,b,c\n" + BODY, header=False)
    with pytest.raises(UserError, match="allowed: auto, true, false"):
        load(BODY, header="maybe")


def test_gzip_and_leading_blank_lines(load):
    assert same(load(gzip.compress(("\n\na,b,c\n" + BODY).encode()), "my.csv.gz"), [0, 1], [2])


def test_dropped_columns_may_hold_text(load):
    rows = [line.split(",") for line in BODY.split("\n")]
    text = "a,colour,b,c\n" + "\n".join(f"{a},red,{b},{c}" for a, b, c in rows)
    assert same(load(text, drop=["colour"]), [0, 1], [2])
    assert same(load(text, drop=["colour"], target="b"), [0, 2], [1])
    with pytest.raises(UserError, match="line 2, column 2 .'colour'. is 'red', not a number"):
        load(text)
    with pytest.raises(UserError, match="line 12: 5 columns where 4 are expected"):
        load(text + "\n1,red,2,3,4", drop=["colour"])
    with pytest.raises(UserError, match="also in dataset.drop"):
        load(text, drop=["colour", "c"], target="c")


def test_changed_file_is_read_again(load, tmp_path):
    first = load(BODY)
    second = load(BODY + "\n1,2,3")
    assert len(second.X) == 11 and second.data_hash != first.data_hash


def test_parquet(load, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"a": ROWS[:, 0].astype(int), "b": ROWS[:, 1], "c": ROWS[:, 2]})
    pq.write_table(table, tmp_path / "my.parquet")
    assert same(load(None, "my.parquet"), [0, 1], [2])
    assert same(load(None, "my.parquet", target="b"), [0, 2], [1])
    pq.write_table(table.append_column("s", pa.array(["x"] * 10)), tmp_path / "text.parquet")
    with pytest.raises(UserError, match="column 's' holds string, not numbers"):
        load(None, "text.parquet")
    assert same(load(None, "text.parquet", drop=["s"]), [0, 1], [2])
    pq.write_table(pa.table({"a": [1.0, None, 3.0] * 4, "b": [1.0] * 12}), tmp_path / "null.parquet")
    with pytest.raises(UserError, match="row 1, column 'a' is missing"):
        load(None, "null.parquet")
    with pytest.raises(UserError, match="not a Parquet file"):
        load(BODY, "fake.parquet")


@pytest.mark.parametrize(
    "content, message",
    [
        ("", "is empty"),
        ("\n \n", "only blank lines"),
        ("1\n2\n3\n4\n5\n6", "has one column"),
        ("a,b\n1,2\n", "1 rows and 1 inputs; at least 5 rows"),
        (BODY + "\n1,red,3", "my.csv, line 11, column 2 is 'red', not a number"),
        (BODY + "\n1,nan,3", "line 11, column 2 is nan; NaN and infinite"),
        (BODY + "\n1,inf,3", "line 11, column 2 is inf"),
        (BODY + "\n1,,3", "line 11, column 2 is empty"),
        (BODY + "\n1,2", "line 11: 2 columns where 3 are expected"),
        (BODY + "\n1,2,3,4", "line 11: 4 columns where 3 are expected"),
        ("a,b,c\n" + BODY + "\n\n1,x,3", "line 13, column 2 .'b'. is 'x'"),
        (b"\xff\xfe1\x00,\x002\x00", "not a text file in UTF-8"),
    ],
)
def test_bad_content_names_file_line_and_column(load, content, message):
    with pytest.raises(UserError, match=message) as caught:
        load(content)
    assert "my.csv" in str(caught.value) and "\n" not in str(caught.value)


def test_error_far_down_a_long_file_has_the_right_line(load):
    with pytest.raises(UserError, match="line 60001, column 3 is 'x'"):
        load("1,2,3\n" * 60000 + "1,2,x\n")


@pytest.mark.parametrize(
    "settings, message",
    [
        (
            {"target": "price"},
            r"dataset.target='price' is no column; allowed: a name \(a, b, c\) or a number",
        ),
        ({"target": 3}, "a number from 0 to 2"),
        ({"drop": ["zip"]}, "dataset.drop='zip' is no column"),
        ({"drop": ["a", "b"]}, "no input column is left"),
    ],
)
def test_unknown_columns(load, settings, message):
    with pytest.raises(UserError, match=message):
        load("a,b,c\n" + BODY, **settings)


def test_paths_that_lead_nowhere(paths, tmp_path):
    for given, message in (
        (None, "dataset.path is not set"),
        (str(tmp_path / "no.csv"), "no such file"),
        (str(tmp_path), "is a folder"),
    ):
        with pytest.raises(UserError, match=message):
            load_data(entry_from_config({"name": "csv", "path": given}), paths)


def test_traps_are_found_in_own_data(config, tmp_path):
    random = np.random.RandomState(0)
    rows = np.round(random.standard_normal((40, 2)), 3)
    doubled = np.vstack([rows, rows])
    table = np.column_stack([np.arange(80), doubled[:, 1], doubled])
    np.savetxt(tmp_path / "a.csv", table, delimiter=",")
    split = load_split(config({"name": "csv", "path": str(tmp_path / "a.csv")}))
    assert any("input 0 counts the rows" in t for t in split.traps)
    assert any("input 1 equals the target" in t for t in split.traps)
    split = load_split(config({"name": "csv", "path": str(tmp_path / "a.csv"), "drop": [0]}))
    assert any("test rows also stand in train" in t for t in split.traps)
    assert not any("distinct targets" in t for t in split.traps)
    table = np.column_stack([random.standard_normal((80, 2)), np.arange(80) % 8])
    np.savetxt(tmp_path / "b.csv", table, delimiter=",")
    split = load_split(config({"name": "csv", "path": str(tmp_path / "b.csv")}))
    assert split.traps == ("8 distinct targets in 80 rows: a density model can gain by spikes",)
