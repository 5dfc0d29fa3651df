"""Splits are those of bayesian_benchmarks bit for bit; scaling, validation, published files as documented."""

import hashlib

import numpy as np
import pytest

from dgpbench.data import load_split
from dgpbench.data.split import carve_validation, shuffle_rows
from dgpbench.errors import UserError

# N, then the first 16 digits for splits 0, 1 and 4
GOLDEN = {
    "boston": (506, ["542d070c9ae2b58a", "4bdc7179426848be", "d00cb828c7b94806"]),
    "concrete": (1030, ["18db92fc41ce0b26", "2639be5c5dc7e348", "f15330022991b6c8"]),
    "energy": (768, ["3ef9607508779541", "3ca6bf6977800f5a", "ba0bdbf13ea482c4"]),
    "kin8nm": (8192, ["d71a29516a2ea0f0", "be9b779b57bfc62e", "770a78cd8cbd031b"]),
    "protein": (45730, ["d3714e8543cd0a4d", "c7e24755d641c08b", "cdcfbbb68ed71413"]),
}


def reference_rows(n, split, prop=0.9):
    """The rule as bayesian_benchmarks states it: seed the global generator, shuffle, cut."""
    ind = np.arange(n)
    np.random.seed(0 + split)
    np.random.shuffle(ind)
    cut = int(n * prop)
    return ind[:cut], ind[cut:]


def digest(train, test):
    return hashlib.sha256(train.astype("<i8").tobytes() + b"|" + test.astype("<i8").tobytes()).hexdigest()[
        :16
    ]


@pytest.mark.parametrize("name", GOLDEN)
def test_shuffle_is_that_of_bayesian_benchmarks(name):
    n, hashes = GOLDEN[name]
    for split, expected in zip((0, 1, 4), hashes, strict=True):
        rows = shuffle_rows(n, split)
        assert digest(*rows) == expected
        assert digest(*reference_rows(n, split)) == expected


@pytest.mark.parametrize("name", GOLDEN)
def test_standardised_arrays_are_those_of_bayesian_benchmarks(name, mirror, config):
    split = load_split(config(name, split=1, mirror=mirror, splits=5, scaling="all"))
    train, test = reference_rows(len(split.X), 1)

    def normalize(A):
        return (A - np.average(A, 0)[None, :]) / (1e-6 + np.std(A, 0)[None, :])

    X, Y = normalize(np.asarray(split.X)), normalize(np.asarray(split.Y))
    assert np.array_equal(split.X_train, X[train]) and np.array_equal(split.Y_train, Y[train])
    assert np.array_equal(split.X_test, X[test]) and np.array_equal(split.Y_test, Y[test])


def test_train_scaling_uses_train_rows_only(config):
    split = load_split(config({"name": "arm8", "n": 1000}))
    assert (split.n_train, split.n_test, split.dim, split.outputs) == (900, 100, 8, 1)
    assert np.allclose(split.X_train.mean(0), 0) and np.allclose(split.X_train.std(0), 1)
    assert np.allclose(split.Y_train.std(0), 1)
    assert not np.allclose(split.X_test.mean(0), 0, atol=1e-3)
    assert np.allclose(split.X_test * split.x_std + split.x_mean, split.X[split.rows_test])
    assert split.scaling == "train" and split.task == "regression" and len(split.data_hash) == 64


def test_constant_column_is_mapped_to_zero_and_told(config, tmp_path):
    rows = [f"0.1,{i * i},{i}" for i in range(50)]
    (tmp_path / "a.csv").write_text("\n".join(rows))
    split = load_split(config({"name": "csv", "path": str(tmp_path / "a.csv")}))
    assert np.array_equal(split.X_train[:, 0], np.zeros(45)) and split.x_std[0] == 1.0
    assert any("input 0 is constant" in t for t in split.traps)


def test_take_train_gives_the_same_rows(config):
    split = load_split(config({"name": "arm8", "n": 500}, split=2))
    rows = np.array([7, 3, 3, 449])
    X, Y = split.take_train(rows)
    assert np.array_equal(X, split.X_train[rows]) and np.array_equal(Y, split.Y_train[rows])
    assert np.array_equal(split.take_test(np.array([0]))[0], split.X_test[:1])


def test_fixed_zero_ignores_the_index(config):
    zero = load_split(config({"name": "arm8", "n": 300}, split=0, splits=5))
    fixed = load_split(config({"name": "arm8", "n": 300}, split=3, splits=5, split_rule="fixed_zero"))
    other = load_split(config({"name": "arm8", "n": 300}, split=3, splits=5))
    assert np.array_equal(zero.rows_train, fixed.rows_train) and fixed.index == 3
    assert not np.array_equal(zero.rows_train, other.rows_train)


def test_max_test_keeps_the_first_rows(config):
    whole = load_split(config({"name": "arm8", "n": 1000}))
    part = load_split(config({"name": "arm8", "n": 1000}, max_test=10))
    assert np.array_equal(part.rows_test, whole.rows_test[:10]) and part.n_train == 900


def test_validation_is_carved_from_train(config):
    whole = load_split(config({"name": "arm8", "n": 1000}))
    part = load_split(config({"name": "arm8", "n": 1000}, validation=0.1))
    assert whole.X_valid is None and whole.Y_valid is None
    assert (part.n_train, len(part.X_valid), part.n_test) == (810, 90, 100)
    assert set(part.rows_train) | set(part.rows_valid) == set(whole.rows_train)
    assert np.array_equal(part.rows_test, whole.rows_test)
    assert np.allclose(part.X_train.mean(0), 0)  # scaled by the rows that are left
    again = carve_validation(whole.rows_train, 0, 0.1)
    assert np.array_equal(again[1], part.rows_valid)
    assert not np.array_equal(np.sort(again[1]), np.sort(carve_validation(whole.rows_train, 1, 0.1)[1]))
    with pytest.raises(UserError, match="leaves no training rows"):
        carve_validation(np.arange(2), 0, 0.9)


@pytest.mark.parametrize("split", [-1, 20, 1.5, True])
def test_index_out_of_range(config, split):
    with pytest.raises(UserError, match="out of range; protocol clean has splits 0 to 19"):
        load_split(config({"name": "arm8", "n": 100}, split=split))


def test_bad_rule_and_scaling(config):
    with pytest.raises(UserError, match="allowed: shuffle, published, fixed_zero"):
        load_split(config("arm8", split_rule="sorted"))
    with pytest.raises(UserError, match="allowed: train, all"):
        load_split(config("arm8", scaling="test"))
    with pytest.raises(UserError, match="0 to test"):
        load_split(config({"name": "arm8", "n": 100}, train_fraction=1.0))


def test_published_only_where_published(config):
    with pytest.raises(UserError, match="no published split files.*boston"):
        load_split(config("arm8", split_rule="published"))
    with pytest.raises(UserError, match="protocol gal2016 on protein has splits 0 to 4"):
        load_split(config("protein", split=5, split_rule="published", name="gal2016"))


@pytest.mark.parametrize(
    "name", ["boston", "concrete", "energy", "kin8nm", "naval", "power", "protein", "winered"]
)
def test_published_index_files(name, mirror, config):
    from dgpbench.data.catalogue import catalogue

    entry = catalogue()[name]
    split = load_split(config(name, split=4, mirror=mirror, split_rule="published", name="gal2016"))
    assert split.X.shape == (entry.n, entry.d)
    folder = f"{mirror}/{entry.published['folder']}"
    assert np.array_equal(split.rows_test, np.loadtxt(f"{folder}/index_test_4.txt").astype(int))
    raw = np.loadtxt(f"{folder}/data.txt")
    assert np.array_equal(split.Y[:, 0], raw[:, 16 if name == "naval" else -1])
    assert split.data_hash == entry.published["data_sha256"]
    same = name in {"boston", "winered", "naval", "protein"}  # the others differ in order or rounding
    assert (split.data_hash == entry.data_sha256) == same


def test_damaged_index_file_is_noticed(mirror, config, paths):
    from pathlib import Path

    load_split(config("boston", mirror=mirror, split_rule="published"))
    index = Path(paths["datasets"]) / "boston" / "published" / "index_test_3.txt"
    index.write_text(index.read_text().replace("1", "2", 1))
    with pytest.raises(UserError, match="not the published ones"):
        load_split(config("boston", mirror=mirror, split_rule="published"))


def test_protocol_is_not_shadowed(config):
    """Two loads of one config give the same rows whatever the global generator does in between."""
    first = load_split(config({"name": "step", "n": 100}))
    np.random.seed(5)
    assert np.array_equal(first.rows_train, load_split(config({"name": "step", "n": 100})).rows_train)
