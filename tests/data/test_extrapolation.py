"""Splits at the ends of a direction, data without noise, and data that nothing scales."""

import numpy as np
import pytest

from dgpbench.config import compose
from dgpbench.data import load_split
from dgpbench.data.split import extrapolation_rows
from dgpbench.data.synthetic import CURVES, points
from dgpbench.errors import UserError


def test_lower_half_of_a_random_direction_is_tested():
    X = np.random.RandomState(1).randn(101, 3) * [1.0, 100.0, 0.01] + [0.0, 50.0, 3.0]
    X = np.column_stack([X, np.full(101, 7.0)])
    train, test = extrapolation_rows(X, 4)
    assert len(test) == 50 and sorted([*train, *test]) == list(range(101))
    scaled = (X[:, :3] - X[:, :3].mean(0)) / X[:, :3].std(0)
    along = scaled @ np.random.RandomState(4).standard_normal(4)[:3]
    assert along[test].max() < along[train].min()
    other, _ = extrapolation_rows(X, 5)
    assert set(other) != set(train)


@pytest.fixture
def words(tmp_path):
    return [f"paths.datasets={tmp_path}", f"paths.results={tmp_path}"]


def test_protocol_extrapolate(words):
    split = load_split(compose(["dataset=arm8", "dataset.n=200", "protocol=extrapolate", "split=3", *words]))
    along = split.X @ (np.random.RandomState(3).standard_normal(8) / split.X.std(0))
    assert split.n_test == split.n_train == 100
    assert along[split.rows_test].max() < along[split.rows_train].min()
    np.testing.assert_allclose(split.X_train.mean(0), 0.0, atol=1e-9)


def test_rows_on_demand_have_no_order(words):
    cfg = compose(["dataset=arm8_rows", "dataset.n=200", "protocol=extrapolate", *words])
    with pytest.raises(UserError, match="use dataset=arm8"):
        load_split(cfg)


@pytest.mark.parametrize("name", list(CURVES))
def test_curves(name, words):
    split = load_split(compose([f"dataset={name}", "protocol=ustyuzhaninov2020", "split=7", *words]))
    np.testing.assert_allclose(np.sort(split.X_train[:, 0]), np.linspace(-1, 1, 20), atol=1e-6)  # not scaled
    middle = (split.X_train[1:, 0] + split.X_train[:-1, 0]) / 2
    np.testing.assert_allclose(split.X_test[:, 0], middle, atol=2e-6)
    np.testing.assert_allclose(split.Y_test[:, 0], CURVES[name](split.X_test[:, 0]), atol=1e-6)
    assert split.log_density is None


def test_values_of_the_curves():
    x, y = points("waves", 9)
    np.testing.assert_allclose(x[:, 0], [-1, -0.5, 0, 0.5, 1, -0.75, -0.25, 0.25, 0.75])
    np.testing.assert_allclose(y[:, 0], [0, 0, 0, 0, 0, 1, -1, 1, -1], atol=1e-6)
    np.testing.assert_allclose(points("sine", 5)[1][:, 0], [0, 0, 0, -1, 1], atol=1e-6)
    np.testing.assert_allclose(points("identity", 5)[1], points("identity", 5)[0])


def test_size_of_a_curve(words):
    with pytest.raises(UserError, match="set dataset.train_rows=21"):
        load_split(compose(["dataset=sine", "dataset.n=41", "protocol=ustyuzhaninov2020", *words]))
    cfg = compose(["dataset=sine", "dataset.n=41", "dataset.train_rows=21", *words])
    assert load_split(cfg).n_train == 21
