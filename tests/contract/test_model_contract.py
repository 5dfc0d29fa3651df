"""What every model of conf/model must do. A new yaml file is tested without a new test."""

import numpy as np
import pytest
from small_runs import DIM, OUTPUTS, SAMPLES, config, fitted, marks, model_fields, tasks, unit_config

from dgpbench.config.tree import options
from dgpbench.experiment import run_unit
from dgpbench.models.base import create
from dgpbench.store import read
from dgpbench.store.record import validate_record

NAMES = [
    name for name in options("model") if name not in ("wrapped", "mfdgp")
]  # tests/adapters, tests/models
MODELS = [name for name in NAMES if "regression" in tasks(name)]  # of classes: test_class_contract.py
X_NEW = np.random.RandomState(1).randn(11, DIM)


QUICK = ("linear", "sgp", "dgp2", "lv_gp", "cvae_50", "mdn_1", "gpr", "decision_tree")  # one of each kind
EACH = [pytest.param(name, marks=() if name in QUICK else marks(name)) for name in MODELS]


@pytest.fixture(scope="module", params=EACH)
def name(request):
    """All tests of one model, then of the next: what is compiled for it is used again."""
    return request.param


def predict(model, X=X_NEW, samples=SAMPLES, seed=3):
    return model.predict(X, samples, seed)


def same(a, b) -> bool:
    pairs = ((a.mean, b.mean), (a.var, b.var), (a.log_weights, b.log_weights))
    return all(x is y is None or np.array_equal(x, y) for x, y in pairs)


def is_sampled(name: str) -> bool:
    """Whether predictions are mixtures over samples: of inner layers or of latent variables."""
    model = model_fields(name)
    return len(model.get("layers", [])) > 1 or model["_target_"].endswith((".CVAE", ".MCDropout"))


def is_random(name: str) -> bool:
    """Whether the seed decides anything: of an optimiser without minibatches only the start, if at all."""
    model = model_fields(name)
    if model.get("trained_by") == "scikit-learn":
        return True
    sampled = "num_inducing" in model or model.get("trained_by") == "hmc"
    return not model.get("closed_form") and (not model.get("own_training") or sampled)


def test_models_are_found():
    assert {"linear", "sgp", "sgp500", "dgp2", "dgp3", "dgp4", "dgp5", "kde", "ckde"} <= set(MODELS)
    assert {"cvae_linear", "cvae_50", "cvae_50_50", "cvae_100_100"} <= set(MODELS)
    assert {"mdn", "mdn_1", "mdn_10", "mdn_50"} <= set(MODELS)
    assert {"gpr", "sgpr", "fitc", "vgp", "gpmc"} <= set(MODELS)


@pytest.mark.slow
def test_predictions_are_finite_mixtures(name):
    out = predict(fitted(name))
    assert out.kind == "mixture" and out.problem() is None
    assert out.mean.shape[1:] == (len(X_NEW), OUTPUTS) and np.all(out.var > 0)
    if is_sampled(name):
        assert out.num_components == SAMPLES and out.log_weights is None
    else:  # exact: the number of components is the model's own
        assert out.num_components == predict(fitted(name), samples=7).num_components
        assert out.num_components == 1 or out.log_weights is not None


@pytest.mark.slow
def test_predictions_depend_on_seed_only(name):
    model = fitted(name)
    assert same(predict(model), predict(model))
    assert same(predict(model), predict(model, seed=4)) == (not is_sampled(name))


def test_a_row_does_not_depend_on_the_rows_beside_it(name):
    """Alone or among others, a point has the same distribution, up to the error of sampling."""
    model = fitted(name)
    whole, part = predict(model), predict(model, X_NEW[6:])
    error = np.zeros(OUTPUTS)
    if is_sampled(name):
        error = np.sqrt((whole.mean[:, 6:].var(0) + part.mean.var(0)) / SAMPLES)
    assert np.all(np.abs(whole.mixture_mean()[6:] - part.mixture_mean()) <= 5.0 * error + 1e-10)


def test_parameters_are_plain_arrays_and_restore_exactly(name):
    model = fitted(name)
    values = model.parameters()
    assert values and all(isinstance(v, np.ndarray) and not v.dtype.hasobject for v in values.values())
    other = create(config(name))
    other.load_parameters({key: v.copy() for key, v in values.items()})
    assert same(predict(model), predict(other))
    assert set(other.parameters()) == set(values)


def test_one_seed_one_result_whatever_the_blocks(name):
    a, b = fitted(name).parameters(), fitted(name, block_seconds=1e-9).parameters()
    assert all(np.array_equal(a[key], b[key]) for key in a)
    other = fitted(name, seed=1).parameters()
    assert all(np.array_equal(a[key], other[key]) for key in a) == (not is_random(name))


@pytest.mark.slow
def test_a_unit_is_recorded_then_skipped_then_forced(name, tmp_path):
    cfg = unit_config(tmp_path, name)
    unit, was_done = run_unit(cfg)
    assert unit.record["status"] == "done" and not was_done
    validate_record(unit.record)
    assert unit.record["sizes"] == {"n_train": 30, "n_test": 4, "inputs": 2, "outputs": 2}
    assert all(np.isfinite(v) for v in unit.record["metrics"].values() if v is not None)
    assert set(unit.record["files"]) == {"predictions.parquet", "draws.parquet", "params.npz"}
    first = unit.path.stat().st_mtime_ns
    again, was_done = run_unit(cfg)
    assert was_done and again.path == unit.path and again.path.stat().st_mtime_ns == first
    forced, was_done = run_unit(cfg, force=True)
    assert not was_done and forced.path.stat().st_mtime_ns > first
    assert forced.record["metrics"] == unit.record["metrics"]
    stored = read.parameters(forced)
    assert all(stored[key].shape == value.shape for key, value in fitted(name).parameters().items())
