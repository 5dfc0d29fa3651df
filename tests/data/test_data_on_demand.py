"""Rows computed when asked for: the same in any order, random where they should be, in flat memory."""

import tracemalloc

import numpy as np
import pytest

from dgpbench import keyed_random
from dgpbench.data import load_split
from dgpbench.data.cache import load_data
from dgpbench.data.catalogue import entry_from_config
from dgpbench.data.synthetic import arm8_log_density, arm_distance
from dgpbench.errors import UserError

PROTOCOL = {"name": "clean", "splits": 20, "split_rule": "shuffle", "train_fraction": 0.9, "scaling": "train",
            "max_test": 1000, "validation": 0.0}  # fmt: skip


def data(**settings):
    return load_data(entry_from_config({"name": "arm8_rows", **settings}), {})


def split(n, **protocol):
    cfg = {"dataset": {"name": "arm8_rows", "n": n}, "protocol": PROTOCOL | protocol, "paths": {}, "split": 1}
    return load_split(cfg)


def test_a_row_is_the_same_however_it_is_asked_for():
    found = data(n=10**8)
    rows = np.array([99_999_999, 5, 0, 31_415_926])
    X, Y = found.X[rows], found.Y[rows]
    for i, row in enumerate(rows):
        assert (found.X[row : row + 1] == X[i]).all() and (found.Y[[row]] == Y[i]).all()
    assert (data(n=1000).X[:10] == found.X[:10]).all()  # a larger set begins with the smaller one
    assert not (data(n=1000, data_seed=1).X[:10] == found.X[:10]).any()
    assert found.X.shape == (10**8, 8) and len(found.Y) == 10**8


def test_the_rows_have_the_density_they_claim():
    found = data(n=200_000)
    X, Y = found.X[:], found.Y[:]
    assert np.abs(X).max() < np.pi / 2
    counts = np.histogram(X, 20, (-np.pi / 2, np.pi / 2))[0]
    assert np.abs(counts - 80_000).max() < 5 * np.sqrt(80_000)
    noise = (Y[:, 0] - arm_distance(X)) / 0.05
    assert abs(noise.mean()) < 5 / np.sqrt(200_000) and abs(noise.std() - 1) < 5 / np.sqrt(400_000)
    assert abs((noise**4).mean() - 3) < 5 * np.sqrt(96 / 200_000)
    correlation = np.corrcoef(np.column_stack([X, noise]).T) - np.eye(9)
    assert np.abs(correlation).max() < 5 / np.sqrt(200_000)
    assert abs(np.corrcoef(noise[1:], noise[:-1])[0, 1]) < 5 / np.sqrt(200_000)
    entropy = 0.5 * np.log(2 * np.pi * np.e * 0.05**2)
    assert arm8_log_density(X, Y, 0.05).mean() == pytest.approx(-entropy, abs=0.01)


def test_the_hash_tells_settings_apart():
    hashes = {data(**s).data_hash for s in ({}, {"n": 20_000}, {"noise": 0.1}, {"data_seed": 1})}
    assert len(hashes) == 4 and data().data_hash in hashes


def test_train_and_test_are_all_rows_once():
    one = split(5000, max_test=None)
    assert (one.n_train, one.n_test) == (4500, 500)
    assert sorted([*one.rows_train[:], *one.rows_test[:]]) == list(range(5000))
    assert np.abs(one.X_train.mean(0)).max() < 1e-12 and one.Y_train.std() == pytest.approx(1.0)
    X, Y = one.take_train(np.array([7, 3]))
    assert (X == one.X_train[[7, 3]]).all() and (Y == one.Y_train[[7, 3]]).all()


def test_a_hundred_million_rows_take_no_memory():
    tracemalloc.start()
    one = split(10**8)
    X, _ = one.take_train(keyed_random.permuted(np.arange(1000), one.n_train, 0, 0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert one.n_train == 90_000_000 and one.n_test == 1000 and X.shape == (1000, 8)
    assert peak < 400e6  # the million rows that give the moments
    assert np.allclose(one.x_std, np.pi / np.sqrt(12), rtol=5e-3)


def test_what_would_need_all_rows_is_refused():
    with pytest.raises(UserError, match="protocol.max_test=10000"):
        split(10**8, max_test=None)
    with pytest.raises(UserError, match="validation"):
        split(5000, validation=0.1)
    with pytest.raises(UserError, match="dataset.n"):
        data(n=2)
