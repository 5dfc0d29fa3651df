"""Packed formats on small files that the tests write: idx, amat in a zip, libsvm, HIGGS, flights; then the
mirror's own files."""

import bz2
import gzip
import io
import tarfile
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from dgpbench.data import download, sources
from dgpbench.data.cache import load_data
from dgpbench.data.catalogue import catalogue
from dgpbench.data.labels import code_labels
from dgpbench.data.readers.source_formats import read_rows
from dgpbench.errors import UserError

HERE = """abalone balance-scale banana blood breast-cancer-wisc-diag breast-cancer_pmlb contrac ecoli flare
german glass haberman-survival image-segmentation ionosphere iris letter magic mammographic mnist new-thyroid
pendigits pima pima_fd ringnorm seeds segmentation spambase splice statlog-german-credit statlog-heart
statlog-vehicle thyroid_ida titanic twonorm vertebral-column-3clases waveform waveform_ida wine yeast"""
COUNTS = {  # rows of each class, as their authors print them
    "iris": [50, 50, 50],
    "new-thyroid": [150, 35, 30],
    "thyroid_ida": [150, 65],
    "pima": [500, 268],
    "waveform_ida": [3304, 1696],
    "mnist": [6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958],
}


def idx(array, kind=8, cut=0):
    head = bytes([0, 0, kind, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    content = head + array.astype(np.uint8).tobytes()
    return content[: len(content) - cut]


def digits(rows, seed):
    rng = np.random.RandomState(seed)
    return rng.randint(0, 256, (rows, 3, 2)), rng.randint(0, 10, rows)


def four_files(**changes):
    (train, train_y), (test, test_y) = digits(2005, 0), digits(4, 1)
    made = {
        "train-images-idx3-ubyte": idx(train),
        "train-labels-idx1-ubyte": idx(train_y),
        "t10k-images-idx3-ubyte": idx(test),
        "t10k-labels-idx1-ubyte": idx(test_y),
    }
    return made | changes, np.vstack([train, test]).reshape(-1, 6), np.concatenate([train_y, test_y])


def read(reader, files, options=None):
    blocks = list(read_rows(reader, files, options or {}))
    return np.vstack([x for x, _ in blocks]), np.vstack([y for _, y in blocks])


def written(folder, contents, pack):
    if pack == "tgz":
        path = folder / "all.tgz"
        with tarfile.open(path, "w:gz") as archive:
            for name, content in contents.items():
                info = tarfile.TarInfo(f"package/data/{name}")
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        return [path]
    suffix = ".gz" if pack == "gz" else ""
    paths = [folder / f"{name}{suffix}" for name in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        path.write_bytes(gzip.compress(content) if pack == "gz" else content)
    return paths


@pytest.mark.parametrize("pack", ["plain", "gz", "tgz"])
def test_idx_files(tmp_path, pack):
    contents, pixels, labels = four_files()
    X, Y = read("idx", written(tmp_path, contents, pack))
    assert np.array_equal(X, pixels) and np.array_equal(Y[:, 0], labels) and X.dtype == np.float64


@pytest.mark.parametrize(
    "change,message",
    [
        ({"train-images-idx3-ubyte": b"PK34 not an idx"}, "does not begin with two zero bytes"),
        ({"train-labels-idx1-ubyte": idx(np.zeros(2005), kind=13)}, "idx type 13 with 1 dimensions"),
        ({"t10k-images-idx3-ubyte": idx(np.zeros((4, 3, 2)), cut=1)}, "39 bytes where its header"),
        ({"t10k-labels-idx1-ubyte": idx(np.zeros(5))}, "shape \\(4, 3, 2\\) and labels \\(5,\\)"),
    ],
)
def test_damaged_idx_files_are_refused(tmp_path, change, message):
    with pytest.raises(UserError, match=message):
        read("idx", written(tmp_path, four_files(**change)[0], "plain"))


def test_missing_and_broken_idx_archives(tmp_path):
    contents = four_files()[0]
    contents.pop("t10k-labels-idx1-ubyte")
    with pytest.raises(UserError, match="no file t10k-labels-idx1-ubyte"):
        read("idx", written(tmp_path, contents, "plain"))
    (tmp_path / "all.tgz").write_bytes(b"no archive")
    with pytest.raises(UserError, match="all.tgz: damaged file"):
        read("idx", [tmp_path / "all.tgz"])


def test_rectangles_images_as_amat_files_in_a_zip(tmp_path, paths):
    """Blanks, three per number, 784 pixels and the label: train member first."""
    entry = catalogue()["rectangles_images"]
    rng = np.random.RandomState(0)
    parts = [np.column_stack([rng.rand(n, 784).round(6), rng.randint(0, 2, n)]) for n in (6, 4)]
    (tmp_path / "rectangles_images").mkdir()
    with zipfile.ZipFile(tmp_path / "rectangles_images" / "rectangles_images.zip", "w") as archive:
        for member, part in zip(entry.sources[0].options["members"], parts, strict=True):
            archive.writestr(member, "\n".join("   " + "   ".join(map(str, row)) for row in part) + "\n")
    data = load_data(replace(entry, n=10, train_rows=6), {"datasets": str(tmp_path), "mirror": None})
    assert np.array_equal(np.hstack([data.X, data.Y]), np.vstack(parts))
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("readme", "nothing")
    with pytest.raises(UserError, match="no member rectangles_im_train.amat"):
        read("zip_text", [tmp_path / "other.zip"], entry.sources[0].options)


@pytest.mark.parametrize("name,file", [("higgs", "HIGGS.csv.gz"), ("susy", "SUSY.csv.gz")])
def test_label_first_in_a_gzipped_csv(name, file, tmp_path):
    entry = catalogue()[name]
    rng = np.random.RandomState(0)
    rows = np.column_stack([rng.randint(0, 2, 12), rng.randn(12, entry.d)])
    (tmp_path / name).mkdir()
    text = "\n".join(",".join(f"{v:.18e}" for v in row) for row in rows)
    (tmp_path / name / file).write_bytes(gzip.compress(text.encode()))
    data = load_data(replace(entry, n=12), {"datasets": str(tmp_path), "mirror": None})
    assert np.array_equal(data.X, rows[:, 1:]) and np.array_equal(data.Y[:, 0], rows[:, 0])
    assert code_labels(entry, data)[1] == ["background", "signal"]


FLIGHTS = """Year,Month,DayofMonth,DayOfWeek,DepTime,ArrTime,TailNum,AirTime,ArrDelay,Distance
2008,1,3,4,2003,2211,N712SW,116,-14,810
2008,2,4,1,754,1002,N772SW,113,2,810
2008,4,30,3,628,804,N428WN,76,14,515
2008,5,1,4,628,804,N428WN,76,14,515
2008,1,3,4,926,1054,N612SW,78,NA,515
2008,1,3,4,1829,1959,UNKNOWN,77,34,515
"""
PLANES = """tailnum,type,year
N712SW,Corporation,1998
N772SW,Corporation,2000
N428WN,Corporation,2004
N612SW,,None
"""


def flight_files(folder, flights=FLIGHTS):
    (folder / "2008.csv.bz2").write_bytes(bz2.compress(flights.encode()))
    (folder / "plane-data.csv").write_text(PLANES)
    return [folder / "2008.csv.bz2", folder / "plane-data.csv"]


def test_flights(tmp_path):
    """May, a missing delay and a plane without a year are left out."""
    X, Y = read("airline", flight_files(tmp_path), {"rows": 3})
    order = np.random.RandomState(0).permutation(3)
    expected = [
        [1, 3, 4, 10, 116, 810, 2211, 2003],
        [2, 4, 1, 8, 113, 810, 1002, 754],
        [4, 30, 3, 4, 76, 515, 804, 628],
    ]
    assert np.array_equal(X, np.array(expected)[order])
    assert np.array_equal(Y[:, 0], np.array([-14, 2, 14])[order])
    with pytest.raises(UserError, match="3 complete flights where 4 are needed"):
        read("airline", flight_files(tmp_path), {"rows": 4})
    with pytest.raises(UserError, match="no column 'AirTime'"):
        read("airline", flight_files(tmp_path, FLIGHTS.replace("AirTime", "Air")), {"rows": 3})
    (tmp_path / "2008.csv.bz2").write_bytes(b"not bzip")
    with pytest.raises(UserError, match="2008.csv.bz2: cannot be read"):
        read("airline", [tmp_path / "2008.csv.bz2", tmp_path / "plane-data.csv"], {"rows": 3})


def test_both_files_are_asked_for(paths):
    with pytest.raises(UserError, match="put the file at .*2008.csv.bz2 and plane-data.csv beside it"):
        load_data(catalogue()["airline"], paths)
    with pytest.raises(UserError) as refused:
        load_data(replace(catalogue()["airline"], task="binary", nearest="wdbc"), paths)
    assert "arm8" not in str(refused.value) and "dataset=wdbc" in str(refused.value)


def test_libsvm_in_a_zip(tmp_path):
    path = tmp_path / "b.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("all.txt", "-1 1:1.5 2:-2 \n1 1:0.25 2:3\n")
        archive.writestr("bad.txt", "-1 1:1.5\n")
    X, Y = read("libsvm", [path], {"member": "all.txt", "inputs": 2})
    assert X.tolist() == [[1.5, -2.0], [0.25, 3.0]] and Y[:, 0].tolist() == [-1, 1]
    with pytest.raises(UserError, match="bad.txt, line 1: '-1 1:1.5' is not a label and inputs 1 to 2"):
        read("libsvm", [path], {"member": "bad.txt", "inputs": 2})


def test_merged_classes(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("1,1\n2,2\n3,3\n")
    assert read("text", [path], {"relabel": {1: 0, 2: 1, 3: 1}})[1][:, 0].tolist() == [0, 1, 1]
    with pytest.raises(UserError, match="label 3 where 1, 2 are expected"):
        read("text", [path], {"relabel": {1: 0, 2: 1}})
    assert catalogue()["thyroid_ida"].sources[0].options["relabel"] == {1: 0, 2: 1, 3: 1}
    assert catalogue()["waveform_ida"].sources[0].options["relabel"] == {0: 0, 1: 0, 2: 1}


def test_sets_that_scikit_learn_carries(paths, monkeypatch):
    """Without mirror and network: the file of the installed package."""
    from sklearn.datasets import load_breast_cancer, load_digits

    def no_pip(*_):
        raise AssertionError("pip was asked")

    monkeypatch.setattr(download, "pip_download", no_pip)
    for name, load in (("wdbc", load_breast_cancer), ("digits", load_digits)):
        data, theirs = load_data(catalogue()[name], paths), load()
        assert np.array_equal(data.X, theirs.data) and np.array_equal(data.Y[:, 0], theirs.target)
    names = code_labels(catalogue()["wdbc"], load_data(catalogue()["wdbc"], paths))[1]
    assert names == load_breast_cancer().target_names.tolist()


@pytest.mark.parametrize("name", HERE.split())
def test_mirrored_classes(name, mirror, paths, monkeypatch):
    monkeypatch.setattr(sources, "_from_wheel", lambda *_: None)
    monkeypatch.setattr(sources, "_from_upstream", lambda *_: None)
    entry = catalogue()[name]
    data = load_data(entry, {**paths, "mirror": mirror})
    assert data.X.shape == (entry.n, entry.d) and data.data_hash == entry.data_sha256
    codes, classes = code_labels(entry, data)
    assert len(classes) == entry.n_classes and np.isfinite(data.X).all()
    found = np.bincount(codes[:, 0].astype(int), minlength=entry.n_classes).tolist()
    assert min(found) > 0 and found == COUNTS.get(name, found)
    if name == "mnist":  # its first labels, and its mean pixel of 33.318 in 255
        assert data.Y[:5, 0].tolist() == [5, 0, 4, 1, 9] and data.Y[60000:60003, 0].tolist() == [7, 2, 1]
        assert np.asarray(data.X[:60000]).mean() == pytest.approx(33.318, abs=1e-3)
