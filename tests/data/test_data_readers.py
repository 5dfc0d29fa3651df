"""Readers on small files of the same format, and every dataset of the mirror against the printed sizes."""

import dataclasses
import gzip
from datetime import datetime

import numpy as np
import pytest

from dgpbench.data import sources
from dgpbench.data.cache import load_data
from dgpbench.data.catalogue import catalogue
from dgpbench.data.readers.source_formats import read_rows
from dgpbench.errors import UserError

NOT_MIRRORED = {"slice", "3droad", "song", "buzz", "nytaxi", "houseelectric", "autos", "stock", "airfoil",
                "parkinsons", "elevators", "tamielectric"}  # fmt: skip
REGRESSION = [e for e in catalogue().values() if e.kind == "file" and e.task == "regression"]
FILES = sorted(
    e.name for e in REGRESSION if e.name not in ("airline", "nytaxi_manhattan")
)  # by hand: test_class_readers.py


def read(reader, path, options=None):
    blocks = list(read_rows(reader, [path], options or {}))
    return np.vstack([x for x, _ in blocks]), np.vstack([y for _, y in blocks])


@pytest.mark.parametrize("name", FILES)
def test_mirrored_dataset_has_the_printed_size_and_target(name, mirror, paths, monkeypatch):
    monkeypatch.setattr(sources, "_from_wheel", lambda *_: None)
    monkeypatch.setattr(sources, "_from_upstream", lambda *_: None)
    entry = catalogue()[name]
    if name in NOT_MIRRORED:
        with pytest.raises(UserError, match=f"dataset {name} is not available"):
            load_data(entry, {**paths, "mirror": mirror})
        return
    data = load_data(entry, {**paths, "mirror": mirror})
    assert data.X.shape == (entry.n, entry.d) and data.Y.shape == (entry.n, 1)
    assert data.Y.mean() == pytest.approx(entry.target_mean, rel=1e-7, abs=1e-9)
    assert data.Y.std() == pytest.approx(entry.target_std, rel=1e-7)
    assert np.isfinite(data.X).all() and data.data_hash == entry.data_sha256


@pytest.mark.parametrize("name", sorted(NOT_MIRRORED - {"nytaxi", "song"}))
def test_prepared_files_that_are_not_mirrored(name, paths, tmp_path):
    """gzip, comma, no header, target last: the format all of these share, at the true number of columns."""
    entry = catalogue()[name]
    rows = np.round(np.random.RandomState(0).standard_normal((30, entry.d + 1)), 4)
    file = tmp_path / "mirror" / entry.sources[0].files[0].path
    file.parent.mkdir(parents=True)
    file.write_bytes(gzip.compress("\n".join(",".join(map(str, r)) for r in rows).encode()))
    source = dataclasses.replace(
        entry.sources[0], files=tuple(dataclasses.replace(f, sha256=None) for f in entry.sources[0].files)
    )
    small = dataclasses.replace(entry, n=30, sources=(source,), data_sha256=None)
    data = load_data(small, {**paths, "mirror": str(tmp_path / "mirror")})
    assert np.array_equal(data.X, rows[:, :-1]) and np.array_equal(data.Y, rows[:, -1:])


TAXI = """id,vendor_id,pickup_datetime,dropoff_datetime,passenger_count,pickup_longitude,pickup_latitude,\
dropoff_longitude,dropoff_latitude,store_and_fwd_flag,trip_duration
good,2,2016-03-14 17:24:55,2016-03-14 17:32:30,1,-73.98,40.76,-73.96,40.75,N,455
west,2,2016-03-14 17:24:55,2016-03-14 17:32:30,1,-74.05,40.76,-73.96,40.75,N,455
near,2,2016-03-14 17:24:55,2016-03-14 17:32:30,1,-73.98,40.76,-73.98,40.761,N,455
short,2,2016-03-14 17:24:55,2016-03-14 17:25:20,1,-73.98,40.76,-73.96,40.75,N,25
long,2,2016-03-14 17:24:55,2016-03-14 20:24:56,1,-73.98,40.76,-73.96,40.75,N,10801
limit,2,2016-03-20 00:00:00,2016-03-20 03:00:00,1,-73.98,40.76,-73.96,40.75,N,10800
"""


def test_taxi_filter_and_inputs(tmp_path):
    (tmp_path / "train.csv").write_text(TAXI)
    X, Y = read("nytaxi", tmp_path / "train.csv")
    assert Y[:, 0].tolist() == [455.0, 10800.0]
    assert X.shape == (2, 8) and X[0, :4].tolist() == [-73.98, 40.76, -73.96, 40.75]
    week = 2 * np.pi * datetime(2016, 3, 14).weekday() / 6
    clock = 2 * np.pi * (17 * 60 + 24) / 1440
    assert np.allclose(X[0, 4:], [np.sin(week), np.cos(week), np.sin(clock), np.cos(clock)])
    assert np.allclose(X[1, 4:], [0, 1, 0, 1], atol=1e-12)  # Sunday falls on Monday, as in the original code


def test_taxi_of_another_shape_is_refused(tmp_path):
    (tmp_path / "train.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match="no column 'pickup_datetime'"):
        read("nytaxi", tmp_path / "train.csv")
    (tmp_path / "train.csv").write_text(TAXI + "too,few\n")
    with pytest.raises(UserError, match="line 8: 2 columns where 11"):
        read("nytaxi", tmp_path / "train.csv")


def test_sheet_with_empty_rows(tmp_path):
    import openpyxl

    book = openpyxl.Workbook()
    for row in [["a", "b", "y1", "y2", None], [1, 2, 3, 4, None], [5, 6, 7, 8, None], [None] * 5]:
        book.active.append(row)
    book.create_sheet("other").append([9])
    book.save(tmp_path / "a.xlsx")
    X, Y = read("xlsx", tmp_path / "a.xlsx", {"columns": 4, "target": 2, "drop": [3]})
    assert X.tolist() == [[1, 2], [5, 6]] and Y.tolist() == [[3], [7]]


def test_blank_lines_and_blanks(tmp_path):
    (tmp_path / "a.data").write_text("  1.0  2 3\n\n4 5   6 \n \n")
    X, Y = read("space", tmp_path / "a.data")
    assert X.tolist() == [[1, 2], [4, 5]] and Y.tolist() == [[3], [6]]


def test_damaged_gzip_is_told(tmp_path):
    whole = gzip.compress(b"1,2,3\n" * 1000)
    (tmp_path / "a.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="damaged gzip"):
        read("text", tmp_path / "a.csv.gz")
