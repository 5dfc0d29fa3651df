"""A trained sparse GP as GPflow's SVGP: the same predictions, from memory and from a record."""

from pathlib import Path

import numpy as np
import pytest

from dgpbench.adapters.gpflow import load_svgp, to_svgp
from dgpbench.config import compose
from dgpbench.data import Split
from dgpbench.engine.context import RunContext, Silent
from dgpbench.errors import UserError
from dgpbench.experiment import run_unit
from dgpbench.models.base import create
from dgpbench.store import read

SMALL = ["model.num_inducing=6", "engine.xla=false", "budget.steps=8", "protocol.test_samples=4"]
X_NEW = np.random.RandomState(5).randn(9, 2)


def data(rows=40):
    rng = np.random.RandomState(0)
    X = rng.randn(rows, 2)
    return X, np.stack([np.sin(2 * X[:, 0]), X[:, 1]], 1) + 0.1 * rng.randn(rows, 2)


def fitted(split, *overrides):
    model = create(compose([*SMALL, *overrides]))
    model.fit(split, RunContext("0" * 64, Path("no checkpoint"), 0, 8, None, Silent(), lambda text: None))
    return model


@pytest.mark.parametrize("kernel", ["rbf", "matern32@0*rbf+linear+white"])
def test_predictions_of_a_regression_are_equal(kernel):
    model = fitted(Split.from_arrays(*data()), "model=sgp", f"model.kernel={kernel}")
    ours = model.predict(X_NEW, 1, 0)
    mean, var = to_svgp(model).predict_y(X_NEW)
    assert np.allclose(ours.mean[0], mean, atol=1e-8) and np.allclose(ours.var[0], var, atol=1e-8)
    assert np.ptp(ours.mean[0][:, 0]) > 0.01  # it has learned something


def test_predictions_of_classes_are_equal():
    X, Y = data()
    split = Split.from_arrays(X, (Y[:, :1] > 0).astype(float), task="binary", n_classes=2)
    model = fitted(split, "model=sgp", "dataset.task=binary")
    mean, _ = to_svgp(model).predict_y(X_NEW)
    assert np.allclose(model.predict(X_NEW, 1, 0).probs[:, 1:], mean, atol=1e-8)


def test_a_record_becomes_the_same_svgp(tmp_path):
    np.savetxt(tmp_path / "small.csv", np.hstack(data()), delimiter=",")
    paths = [f"paths.results={tmp_path / 'r'}", f"paths.datasets={tmp_path / 'd'}", "paths.mirror=null"]
    source = ["dataset=csv", f"dataset.path={tmp_path / 'small.csv'}", "dataset.target=3"]
    unit, _ = run_unit(compose(["model=sgp", *SMALL, *paths, *source]))
    svgp = load_svgp(unit)
    assert svgp.num_data == unit.record["sizes"]["n_train"] == 36
    model = create(unit.record["config"])
    model.load_parameters(read.parameters(unit))
    X = np.random.RandomState(5).randn(9, 3)
    assert np.allclose(model.predict(X, 1, 0).mean[0], svgp.predict_y(X)[0], atol=1e-8)


def test_what_has_no_svgp_is_refused():
    split = Split.from_arrays(*data())
    deep = fitted(split, "model=dgp2")
    with pytest.raises(UserError, match="only a fitted GP of one layer"):
        to_svgp(deep)
    with pytest.raises(UserError, match="only a fitted GP of one layer"):
        to_svgp(create(compose(["model=sgp"])))
    other = fitted(split, "model=sgp", "model.jitter=1e-4")
    with pytest.raises(UserError, match=r"jitter 0.0001 and GPflow 1e-06; call gpflow.config"):
        to_svgp(other)
