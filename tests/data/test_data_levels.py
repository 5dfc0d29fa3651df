"""Levels: closed forms at known points, which rows train and test, how they are scaled, bad columns."""

import math

import numpy as np
import pytest

from dgpbench.config import compose
from dgpbench.config.keys import run_key
from dgpbench.data import load_split
from dgpbench.data.synthetic import SETS
from dgpbench.errors import UserError


@pytest.mark.parametrize(
    "name, x, expected",
    [
        ("mf_branin", (-math.pi, 12.275), 0.397887),  # its three minima
        ("mf_branin", (math.pi, 2.275), 0.397887),
        ("mf_currin", (0.216667, 0.022857), 13.7987),  # its maximum
        ("mf_park", (1.0, 1.0, 1.0, 1.0), 0.5 * (math.sqrt(3) - 1) + 4 * math.exp(1 + math.sin(1))),
        ("mf_sine", (1 / 16,), 1 / 16 - math.sqrt(2)),
    ],
)
def test_the_highest_level_at_points_that_are_known(name, x, expected):
    found = SETS[name]
    top = found.value(np.array([[*x, len(found.levels) - 1.0]]))[0]
    assert top == pytest.approx(expected, rel=2e-5)


def test_lower_levels_by_hand():
    assert SETS["mf_sine"].value(np.array([[1 / 16, 0.0]]))[0] == pytest.approx(1.0)
    at = (0.1, 1000.0, 70000.0, 1000.0, 100.0, 800.0, 1500.0, 10000.0)
    log = math.log(1000 / 0.1)
    inside = 2 * 1500 * 70000 / (log * 0.01 * 10000)
    low, high = SETS["mf_borehole"].value(np.array([[*at, 0.0], [*at, 1.0]]))
    assert low == pytest.approx(5 * 70000 * 200 / (log * (1.5 + inside + 700)))
    assert high == pytest.approx(2 * math.pi * 70000 * 200 / (log * (1 + inside + 700)))
    x = (0.3, 0.6, 0.2, 0.9)
    low, high = SETS["mf_park"].value(np.array([[*x, 0.0], [*x, 1.0]]))
    assert low == pytest.approx((1 + math.sin(0.3) / 10) * high - 0.6 + 0.36 + 0.04 + 0.5)
    low = SETS["mf_currin"].value(np.array([[0.5, 0.5, 0.0]]))[0]
    four = [(0.55, 0.55, 1.0), (0.55, 0.45, 1.0), (0.45, 0.55, 1.0), (0.45, 0.45, 1.0)]
    assert low == pytest.approx(SETS["mf_currin"].value(np.array(four)).mean())
    middle = SETS["mf_branin"].value(np.array([[3.0, 4.0, 1.0]]))[0]
    assert middle == pytest.approx(
        10 * math.sqrt(SETS["mf_branin"].value(np.array([[1.0, 2.0, 2.0]]))[0]) + 5 - 33 - 1
    )
    low = SETS["mf_branin"].value(np.array([[0.5, 1.0, 0.0]]))[0]
    assert low == pytest.approx(SETS["mf_branin"].value(np.array([[3.0, 3.6, 1.0]]))[0] - 3 + 1)


def _split(tmp_path, *words):
    cfg = compose([*words, f"paths.datasets={tmp_path / 'datasets'}", "paths.mirror=null"])
    return cfg, load_split(cfg)


def test_test_rows_are_of_the_highest_level_and_all_lower_ones_train(tmp_path):
    words = ["dataset=mf_branin", "dataset.n=40", "dataset.lower=15", "protocol.train_fraction=0.25"]
    cfg, split = _split(tmp_path, *words, "protocol.validation=0.2")
    level = split.X[:, -1]
    assert split.levels == 3 and np.bincount(level.astype(int)).tolist() == [15, 15, 40]
    assert (level[split.rows_test] == 2).all() and len(split.rows_test) == 30
    assert np.bincount(level[split.rows_train].astype(int)).tolist() == [15, 15, 8]
    assert (level[split.rows_valid] == 2).all() and len(split.rows_valid) == 2
    assert len(np.unique(np.concatenate([split.rows_train, split.rows_test, split.rows_valid]))) == 70
    other_cfg, other = _split(tmp_path, *words, "protocol.validation=0.2", "dataset.train_levels=highest")
    assert sorted(other.rows_train) == sorted(r for r in split.rows_train if level[r] == 2)
    np.testing.assert_array_equal(other.rows_test, split.rows_test)
    assert run_key(cfg, split.data_hash) != run_key(other_cfg, other.data_hash)


def test_levels_are_not_scaled_and_all_else_by_the_training_rows_of_all_levels(tmp_path):
    _, split = _split(tmp_path, "dataset=mf_sine", "dataset.n=30", "dataset.lower=20")
    assert set(split.X_train[:, -1]) == {0.0, 1.0} and set(split.X_test[:, -1]) == {1.0}
    np.testing.assert_allclose(split.X_train[:, 0].mean(), 0.0, atol=1e-12)
    np.testing.assert_allclose(split.Y_train.std(0), 1.0, atol=1e-12)
    truth = split.log_density(split.X[split.rows_test], split.Y[split.rows_test])
    assert truth.mean() == pytest.approx(-math.log(0.01) - 0.5 * math.log(2 * math.pi * math.e), abs=1.5)


def _file(tmp_path, levels):
    rng = np.random.RandomState(0)
    file = tmp_path / "own.csv"
    lines = [
        f"{x:.4f},{level},{y:.4f},{y + x:.4f}"
        for level, x, y in zip(levels, *rng.rand(2, len(levels)), strict=True)
    ]
    file.write_text("\n".join(["a,fid,b,y", *lines]) + "\n")
    return ["dataset=csv", f"dataset.path={file}", "dataset.level=fid", "dataset.target=y"]


def test_a_level_column_of_a_file_becomes_the_last_input(tmp_path):
    from dgpbench.data.readers.user_file import input_names

    levels = [0] * 12 + [1] * 10
    cfg, split = _split(tmp_path, *_file(tmp_path, levels))
    assert input_names(cfg["dataset"]) == ("a", "b", "fid")
    assert split.X[:, 2].tolist() == levels and split.levels == 2
    np.testing.assert_allclose(split.Y[:, 0], split.X[:, 0] + split.X[:, 1], atol=2e-4)


@pytest.mark.parametrize(
    "levels, more, says",
    [
        ([0] * 8 + [2] * 8, (), "level 1 has no rows, though the highest is 2"),
        ([1] * 8 + [2] * 8, (), "level 0 has no rows"),
        ([0] * 8 + [0.5] * 8, (), "whole numbers 0, 1, ..., the highest last; found 0, 0.5"),
        ([-1] * 8 + [0] * 8, (), "whole numbers 0, 1"),
        ([0] * 15 + [1], (), "has 1 rows of its highest level"),
        ([0] * 8 + [1] * 8, ("dataset.train_rows=9",), "does not go with dataset.level"),
        ([0] * 8 + [1] * 8, ("dataset.train_levels=low",), "allowed: all, highest"),
        ([0] * 8 + [1] * 8, ("dataset.level=fidel",), "dataset.level='fidel' is no column"),
        ([0] * 8 + [1] * 8, ("dataset.level=y",), "level column is the target"),
        ([0] * 8 + [1] * 8, ("dataset.level=null", "dataset.train_levels=highest"), "needs levels"),
    ],
)
def test_bad_levels_are_refused_in_one_line(levels, more, says, tmp_path):
    with pytest.raises(UserError, match=says) as error:
        _split(tmp_path, *_file(tmp_path, levels), *more)
    assert "\n" not in str(error.value)
