"""A dgpbench model where bayesian_benchmarks expects one, and one of its models here."""

import sys
import types

import numpy as np
import pytest
import their_models

from dgpbench.adapters.bayesian_benchmarks import BenchmarkModel, ClassificationBenchmarkModel
from dgpbench.config import compose
from dgpbench.data import load_split
from dgpbench.errors import UserError
from dgpbench.evaluate.evaluation import chunk_seed
from dgpbench.experiment import rescore, run_unit
from dgpbench.store import read


@pytest.fixture
def unit(tmp_path):
    """unit(*overrides) -> config of a run on 40 rows with 2 inputs, of which 36 are trained on."""
    rng = np.random.RandomState(0)
    X = rng.randn(40, 2)
    y = 5.0 + 3.0 * np.sin(X[:, :1]) + X[:, 1:] + 0.3 * rng.randn(40, 1)
    np.savetxt(tmp_path / "data.csv", np.hstack([X, y]), delimiter=",")
    paths = [
        f"paths.results={tmp_path / 'results'}",
        f"paths.datasets={tmp_path / 'datasets'}",
        "paths.mirror=null",
    ]
    data = ["dataset=csv", f"dataset.path={tmp_path / 'data.csv'}"]
    return lambda *overrides: compose([*data, *paths, "protocol.draws=200", *overrides])


# ---- a model of theirs, here ---------------------------------------------------------------------------


def fit_theirs(cls, split, seed=0):
    """What Wrapped must do, written out."""
    np.random.seed(seed)
    model = cls()
    model.fit(split.X_train, split.Y_train)
    return model


def log_normal(y, mean, var):
    return -0.5 * np.log(2.0 * np.pi * var) - 0.5 * (y - mean) ** 2 / var


@pytest.mark.parametrize("name", ["RegressionModel", "OldModel"])
def test_wrapped_metrics_equal_direct_computation(unit, name):
    cfg = unit("model=wrapped", f"model.wrapped=their_models.{name}", "seed=3")
    done, _ = run_unit(cfg)
    split = load_split(cfg)
    model = fit_theirs(getattr(their_models, name), split, seed=3)
    mean, var = (np.reshape(values, (-1, 4, 1)) for values in model.predict(split.X_test))
    mean, var = mean * split.y_std, var * split.y_std**2
    y = split.Y_test * split.y_std
    metrics = done.record["metrics"]
    assert metrics["test_rmse"] == pytest.approx(np.sqrt(np.mean((y - mean.mean(0)) ** 2)), rel=1e-12)
    log_p = np.log(np.mean(np.exp(log_normal(y, mean, var)), 0)).mean()
    assert metrics["test_loglik"] == pytest.approx(log_p, rel=1e-10)
    assert metrics["test_loglik_std"] == pytest.approx(log_p + np.log(split.y_std).sum(), rel=1e-10)


SAMPLED = [["SampleOnly"], ["Template"], ["RegressionModel", "model.output=sample"]]


@pytest.mark.parametrize("overrides", SAMPLED)
def test_wrapped_draws(unit, overrides):
    cfg = unit("model=wrapped", "model.wrapped=their_models." + overrides[0], *overrides[1:])
    done, _ = run_unit(cfg)
    split = load_split(cfg)
    model = fit_theirs(their_models.RegressionModel, split)
    np.random.seed(chunk_seed(0, 0))
    draws = model.sample(split.X_test, 200)
    error = (draws.mean(0) - split.Y_test) * split.y_std
    assert done.record["metrics"]["test_rmse"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-12)
    assert done.record["metrics"]["test_loglik"] is None
    assert done.record["metrics"]["test_loglik_kde"] < 0


def test_wrapped_gets_its_options_and_leaves_the_global_generator_alone(unit, monkeypatch):
    seen = []
    real = their_models.RegressionModel.fit
    fit = lambda self, X, Y: (seen.append((self.is_test, self.seed)), real(self, X, Y))  # noqa: E731
    monkeypatch.setattr(their_models.RegressionModel, "fit", fit)
    np.random.seed(5)
    expected = np.random.RandomState(5).randn(3)
    run_unit(
        unit("model=wrapped", "model.wrapped=their_models.RegressionModel", "model.is_test=true", "seed=2")
    )
    assert np.array_equal(np.random.randn(3), expected)
    assert seen == [(True, 2)]


def test_wrapped_cannot_be_rescored(unit):
    done, _ = run_unit(unit("model=wrapped", "model.wrapped=their_models.RegressionModel"))
    with pytest.raises(UserError, match="their_models.RegressionModel cannot be scored again.*--force"):
        rescore(done)
    assert read.predictions(done)["mean"].shape == (4,)  # the record is as it was


def test_wrapped_by_the_name_their_package_knows(unit, monkeypatch):
    getter = types.ModuleType("bayesian_benchmarks.models.get_model")
    getter.all_regression_models = ["linear", "svm"]
    getter.get_regression_model = {"linear": their_models.RegressionModel}.get
    packages = {
        name: types.ModuleType(name) for name in ("bayesian_benchmarks", "bayesian_benchmarks.models")
    }
    packages["bayesian_benchmarks.models"].get_model = getter
    for name, module in {**packages, getter.__name__: getter}.items():
        monkeypatch.setitem(sys.modules, name, module)
    by_name = run_unit(unit("model=wrapped", "model.wrapped=linear"))[0]
    by_class = run_unit(unit("model=wrapped", "model.wrapped=their_models.RegressionModel"))[0]
    assert by_name.record["metrics"] == by_class.record["metrics"]
    with pytest.raises(UserError, match="knn is no model of bayesian_benchmarks; it has: linear, svm"):
        run_unit(unit("model=wrapped", "model.wrapped=knn"))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ([], "model.wrapped needs a value"),
        (["model.wrapped=their_models.Missing"], "model.wrapped=their_models.Missing cannot be imported"),
        (
            ["model.wrapped=a.B", "model.output=mean"],
            "model.output=mean is not allowed; give one of auto, predict",
        ),
        (["model.wrapped=svm"], "svm is a model of bayesian_benchmarks, which cannot be imported"),
    ],
)
def test_wrapped_refuses(unit, overrides, message, monkeypatch):
    monkeypatch.setitem(sys.modules, "bayesian_benchmarks", None)  # also where it is installed
    with pytest.raises(UserError, match=message):
        run_unit(unit("model=wrapped", *overrides))


# ---- one of ours, there --------------------------------------------------------------------------------

TINY = ("model.num_inducing=5", "budget.steps=5", "protocol.test_samples=8", "engine.xla=false")


@pytest.mark.slow
@pytest.mark.parametrize(("model", "overrides"), [("linear", ()), ("dgp2", TINY)])
def test_predictions_equal_those_of_a_run(unit, model, overrides):
    cfg = unit(f"model={model}", "seed=1", *overrides)
    done, _ = run_unit(cfg)
    split = load_split(cfg)
    theirs = BenchmarkModel(seed=1, model=model, overrides=(*overrides, "protocol.draws=200"))
    theirs.fit(split.X_train, split.Y_train)
    mean, var = theirs.predict(split.X_test)
    assert mean.shape == var.shape == (4, 1)
    table = read.predictions(done)
    assert np.array_equal((mean * split.y_std + split.y_mean).ravel(), table["mean"])
    np.testing.assert_allclose(np.sqrt(var).ravel() * split.y_std, table["sd"], rtol=1e-14)
    again = BenchmarkModel(seed=1, model=model, overrides=overrides)
    again.fit(split.X_train, split.Y_train)
    assert np.array_equal(again.predict(split.X_test)[0], mean)


@pytest.mark.slow
def test_samples_have_the_moments_of_predict():
    rng = np.random.RandomState(0)
    X = rng.randn(36, 2)
    model = BenchmarkModel(is_test=True, model="dgp2", overrides=[*TINY[:1], "inference=fast"])
    model.fit(X, np.hstack([np.sin(X), X[:, :1]]))
    mean, var = model.predict(X[:5])
    draws = model.sample(X[:5], 4000)
    assert draws.shape == (4000, 5, 3) and mean.shape == var.shape == (5, 3)
    assert np.all(np.abs(draws.mean(0) - mean) < 5.0 * np.sqrt(var / 4000) + 0.02)
    np.testing.assert_allclose(draws.var(0), var, rtol=0.15)
    assert not np.array_equal(model.sample(X[:5], 4000), draws)  # every call draws anew


def test_a_small_is_test_run_and_bad_use():
    model = BenchmarkModel(is_test=True, model="sgp")
    assert model.cfg["budget"]["steps"] == 10 and model.cfg["budget"]["seconds"] is None
    assert BenchmarkModel(is_test=True, overrides=["budget.steps=3"]).cfg["budget"]["steps"] == 3
    with pytest.raises(UserError, match="call fit"):
        model.predict(np.zeros((2, 2)))
    with pytest.raises(UserError, match=r"got shapes \(3, 2\) and \(3,\)"):
        model.fit(np.zeros((3, 2)), np.zeros(3))
    with pytest.raises(UserError, match="unknown model 'dpg2'"):
        BenchmarkModel(model="dpg2")


# ---- classes ---------------------------------------------------------------------------------------------


@pytest.fixture
def class_unit(unit, tmp_path):
    rng = np.random.RandomState(0)
    X = rng.randn(60, 2)
    y = (X[:, :1] > 0).astype(int) + (X[:, 1:] > 0.5)
    np.savetxt(tmp_path / "data.csv", np.hstack([X, y]), delimiter=",")
    return lambda *overrides: unit("dataset.task=multiclass", *overrides)


@pytest.mark.parametrize("name", ["ClassificationModel", "SampledClassificationModel"])
def test_wrapped_classes_equal_direct_computation(class_unit, name):
    cfg = class_unit("model=wrapped", f"model.wrapped=their_models.{name}")
    done, _ = run_unit(cfg)
    split = load_split(cfg)
    model = getattr(their_models, name)(3)
    model.fit(split.X_train, split.Y_train)
    probs = np.clip(model.predict(split.X_test), 1e-12, 1 - 1e-12)
    probs = probs / probs.sum(-1, keepdims=True)
    probs = probs.mean(0) if probs.ndim == 3 else probs
    truth = probs[np.arange(len(probs)), split.Y_test[:, 0].astype(int)]
    assert done.record["metrics"]["test_loglik"] == pytest.approx(np.log(truth).mean(), rel=1e-9)


def test_our_classifier_where_theirs_is_expected(class_unit):
    """The same probabilities as a run's, from fit and predict as that package calls them."""
    cfg = class_unit("model=logistic")
    done, _ = run_unit(cfg)
    split = load_split(cfg)
    model = ClassificationBenchmarkModel(3, model="logistic")
    with pytest.raises(UserError, match="not fitted"):
        model.predict(split.X_test)
    model.fit(split.X_train, split.Y_train)
    probs, kept = model.predict(split.X_test), read.predictions(done)
    np.testing.assert_allclose(probs, np.column_stack([kept[f"p_{c}"] for c in range(3)]), rtol=1e-12)
    with pytest.raises(UserError, match="labels must be 0 to 1"):
        ClassificationBenchmarkModel(2, model="logistic").fit(split.X_train, split.Y_train)
    with pytest.raises(UserError, match=r"X \(N, D\) and Y \(N, 1\)"):
        model.fit(split.X_train, split.Y_train[:, 0])
