"""Regressor and Classifier: scikit-learn's own checks, and what they must share with a run."""

import json
import os
import pickle
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
from own_files import RIDGE, regression, write_csv
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import check_estimator

import dgpbench

QUICK = ("model.num_inducing=10", "budget.steps=20", "budget.seconds=null", "engine.xla=false")
EXCEPTIONS: dict[str, str] = {}  # name of a check -> why it cannot hold; there is none


def data(n: int = 40):
    columns = regression(n)
    return np.stack([columns[name] for name in "abc"], 1), columns["y"]


def failures(estimator) -> list:
    found = check_estimator(estimator, on_fail=None, expected_failed_checks=EXCEPTIONS)
    assert len(found) > 40
    return [(row["check_name"], row["exception"]) for row in found if row["status"] == "failed"]


@pytest.mark.parametrize("estimator", [dgpbench.Regressor("linear"), dgpbench.Classifier("knn")])
@pytest.mark.filterwarnings("ignore")
def test_all_checks_of_scikit_learn(estimator):
    assert failures(estimator) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [dgpbench.Regressor, pytest.param(dgpbench.Classifier, marks=pytest.mark.long)]
)
@pytest.mark.filterwarnings("ignore")
def test_all_checks_of_scikit_learn_with_the_default_model(kind):
    assert failures(kind(overrides="engine.xla=false", num_inducing=10, steps=20)) == []


@pytest.mark.parametrize(
    "model, words", [("dgp2", []), ("dgp2", ["likelihood=beta"]), ("lv_gp", [])], ids=str
)
def test_a_row_is_predicted_alike_alone_and_in_any_order(model, words):
    X, y = data()
    y = (y - y.min() + 0.1) / (np.ptp(y) + 0.2)
    fitted = dgpbench.Regressor(model, num_inducing=8, steps=3, overrides=["engine.xla=false", *words]).fit(
        X, y
    )
    mean, sd = fitted.predict(X, return_std=True)
    order = np.random.default_rng(0).permutation(len(X))
    again, spread = fitted.predict(X[order], return_std=True)
    np.testing.assert_allclose(again, mean[order], rtol=1e-9)
    np.testing.assert_allclose(spread, sd[order], rtol=1e-9)
    np.testing.assert_allclose(fitted.predict(X[3:4]), mean[3:4], rtol=1e-9)
    assert np.ptp(mean) > 0.0


def test_predictions_are_those_of_a_run(tmp_path, monkeypatch):
    """The same rows, scaled by themselves, through `dgpbench run` and through fit and predict."""
    monkeypatch.chdir(tmp_path)
    columns = regression()
    write_csv(tmp_path / "own.csv", columns)
    data = ("dataset=csv", "dataset.path=own.csv", "dataset.target=y", "dataset.drop=[z]")
    run = dgpbench.run(*data, "model=sgp", *QUICK)
    from dgpbench.data import load_split

    split = load_split(run.config)
    X, y = np.asarray(split.X), np.asarray(split.Y)[:, 0]
    model = dgpbench.Regressor("sgp", QUICK).fit(X[split.rows_train], y[split.rows_train])
    mean, sd = model.predict(X[split.rows_test], return_std=True)
    expected = dgpbench.load(run).predict(X[split.rows_test])
    np.testing.assert_allclose(mean, expected.mean, rtol=1e-10)
    np.testing.assert_allclose(sd, expected.sd, rtol=1e-10)
    assert np.sqrt(np.mean((mean - y[split.rows_test]) ** 2)) == pytest.approx(run.metrics["test_rmse"])


def test_pipelines_scores_clones_and_pickles():
    X, y = data()
    model = make_pipeline(PolynomialFeatures(2), dgpbench.Regressor("linear"))
    scores = cross_val_score(model, X, y, cv=4)
    assert scores.min() > 0.9  # R2 of data that are linear with a little noise
    fitted = dgpbench.Regressor("linear").fit(X, y)
    copied = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copied.predict(X), fitted.predict(X))
    assert not hasattr(clone(fitted), "parameters_") and clone(fitted).model == "linear"
    q = fitted.distribution(X, (0.5,)).quantiles[:, 0]
    np.testing.assert_allclose(q, fitted.predict(X))


def test_several_targets_keep_their_columns():
    X, y = data()
    both = dgpbench.Regressor("linear").fit(X, np.stack([y, -2 * y], 1)).predict(X)
    assert both.shape == (40, 2)
    assert dgpbench.Regressor("linear").fit(X, y[:, None]).predict(X).shape == (40, 1)
    np.testing.assert_allclose(both[:, 1], -2 * both[:, 0], rtol=1e-6)


def test_classes_may_be_text():
    X, y = data()
    labels = np.where(y > np.median(y), "high", "low")
    model = dgpbench.Classifier("logistic").fit(X, labels)
    assert list(model.classes_) == ["high", "low"]
    probs = model.predict_proba(X)
    assert np.mean(model.predict(X) == labels) > 0.9
    np.testing.assert_array_equal(model.predict(X) == "high", probs[:, 0] > probs[:, 1])


def test_bad_settings_are_one_line():
    X, y = data()
    with pytest.raises(dgpbench.UserError, match="unknown model 'dgp22'"):
        dgpbench.Regressor("dgp22").fit(X, y)
    with pytest.raises(dgpbench.UserError, match="model linear is for regression"):
        dgpbench.Classifier("linear").fit(X, y > 0)
    with pytest.raises(dgpbench.UserError, match="use Classifier, or another model"):
        dgpbench.Regressor("logistic").fit(X, y)
    with pytest.raises(dgpbench.UserError, match="for binary, not for multiclass; use another model"):
        dgpbench.Classifier("gfitc").fit(X, np.arange(40) % 3)


SMALL = {"num_inducing": 5, "steps": 4, "overrides": "engine.xla=false"}


def test_settings_are_those_of_the_command_line():
    X, y = data()
    settings = SMALL | {"layers": 2, "kernel": "matern32", "learning_rate": np.float32(0.123456789)}
    model = dgpbench.Regressor("sgp", likelihood="student_t", inference="dsvi", batch_size=20, **settings)
    cfg = model.fit(X, y).config_
    assert cfg["model"]["num_inducing"] == 5 and cfg["model"]["layers"] == ["gp", "gp"]
    assert cfg["model"]["kernel"] == "matern32" and cfg["likelihood"]["name"] == "student_t"
    assert cfg["inference"]["name"] == "dsvi" and cfg["inference"]["batch"] == 20
    assert cfg["inference"]["adam"]["learning_rate"] == float(np.float32(0.123456789))  # all digits
    assert cfg["budget"]["steps"] == 4 and cfg["engine"]["xla"] is False
    inputs = {name: value for name, value in model.parameters_.items() if name.endswith("Z")}
    assert {value.shape[0] for value in inputs.values()} == {5}, list(model.parameters_)


def test_a_setting_changes_what_is_trained():
    X, y = data()
    plain = dgpbench.Regressor("sgp", **SMALL).fit(X, y)
    word = dgpbench.Regressor(
        "sgp",
        ("engine.xla=false", "model.num_inducing=5", "budget.steps=4", "inference.adam.learning_rate=0.3"),
    )
    argument = dgpbench.Regressor("sgp", learning_rate=0.3, **SMALL).fit(X, y)
    np.testing.assert_array_equal(argument.predict(X), word.fit(X, y).predict(X))
    assert np.abs(argument.predict(X) - plain.predict(X)).max() > 1e-6


def test_grid_search_over_settings():
    X, y = data()
    grid = GridSearchCV(
        dgpbench.Regressor("sgp", **SMALL), {"num_inducing": [3, 6]}, cv=2, error_score="raise"
    )
    best = grid.fit(X, y).best_estimator_
    assert best.config_["model"]["num_inducing"] == grid.best_params_["num_inducing"]
    assert len(set(grid.cv_results_["mean_test_score"])) == 2


@pytest.mark.parametrize(
    "model, settings, text",
    [
        ("linear", {"num_inducing": 5}, "num_inducing=5 does not apply to model=linear; remove it"),
        ("linear", {"steps": 5}, "steps=5 does not apply to model=linear"),
        ("linear", {"overrides": "budget.steps=5"}, "budget.steps=5 does not apply to model=linear"),
        ("linear", {"likelihood": "student_t"}, "likelihood=student_t does not apply to model=linear"),
        ("gpr", {"learning_rate": 0.1}, "learning_rate=0.1 does not apply to model=gpr"),
        ("gpr", {"batch_size": 5}, "batch_size=5 does not apply to model=gpr"),
        ("gpr", {"inference": "dsvi"}, "inference=dsvi does not apply to model=gpr"),
        ("gpr", {"layers": 2}, "layers=2 does not apply to model=gpr"),
        ("mdn", {"kernel": "rbf"}, "kernel=rbf does not apply to model=mdn"),
        ("sgp", {"inference": "sgpmc", "learning_rate": 0.1}, "does not apply to model=sgp inference=sgpmc"),
        ("sgp", {"num_inducing": 5, "overrides": "model.num_inducing=6"}, "also set by the argument num_ind"),
        ("sgp", {"overrides": ("seed=1",)}, "also set by the argument seed"),
        ("sgp", {"overrides": "dataset=boston"}, "overrides: dataset=boston has no effect on an estimator"),
        ("sgp", {"overrides": "protocol.scaling=none"}, "has no effect on an estimator"),
        ("sgp", {"overrides": "engine.tensorboard=true"}, "has no effect on an estimator"),
        ("sgp", {"overrides": "budget.stop=validation"}, "needs validation rows"),
        ("sgp", {"overrides": (5,)}, "5 is not a setting; write 'name=value'"),
        ("sgp", {"layers": 0}, "it must be a list such as"),
        ("sgp", {"likelihood": "gamma"}, "needs targets that are positive"),
    ],
)
def test_settings_that_mean_nothing_are_one_line(model, settings, text):
    X, y = data()
    with pytest.raises(dgpbench.UserError, match=text) as caught:
        dgpbench.Regressor(model, **settings).fit(X, y - y.mean())
    assert "\n" not in str(caught.value)


def test_history_and_progress(capsys):
    X, y = data()
    model = dgpbench.Regressor("sgp", verbose=True, **SMALL).fit(X, y)
    assert model.history_.step.iloc[-1] == 4 and (model.history_.seconds.diff().dropna() > 0).all()
    assert f"bound {model.history_.bound.iloc[-1]:.6g}" in capsys.readouterr().err
    dgpbench.Regressor("sgp", **SMALL).fit(X, y)
    assert capsys.readouterr().err == ""
    assert dgpbench.Regressor("linear").fit(X, y).history_.empty


def test_two_outputs_have_quantiles_and_draws_of_each():
    X, y = data()
    model = dgpbench.Regressor("linear").fit(X, np.stack([y, 100 - y], 1))
    assert model.predict_quantiles(X).shape == (40, 2, 3) and model.sample_y(X, 9).shape == (40, 2, 9)
    found = model.predict_quantiles(X, (0.1, 0.9))
    np.testing.assert_allclose(found[:, 0, 0], 100 - found[:, 1, 1], rtol=1e-6)
    column = dgpbench.Regressor("linear").fit(X, y[:, None])
    assert column.predict_quantiles(X).shape == (40, 1, 3) and column.predict_dist(X).mean().shape == (40, 1)
    np.testing.assert_array_equal(model.sample_y(X, 2), model.sample_y(X, 2))
    assert not np.array_equal(model.sample_y(X), model.sample_y(X, random_state=None))


def frame(X):
    return pd.DataFrame(X, columns=["a", "b", "c"])


@pytest.mark.parametrize("labels", ["text", "object", "bool", "int"])
def test_saved_classifiers_keep_their_labels(labels, tmp_path):
    X, y = data()
    high = y > np.median(y)
    chosen = {"text": np.where(high, "ü", "low"), "bool": high, "int": np.where(high, 7, -2)}
    chosen["object"] = chosen["text"].astype(object)
    model = dgpbench.Classifier("logistic").fit(frame(X), chosen[labels])
    model.save(tmp_path / "m.npz")
    loaded = dgpbench.Classifier.load(str(tmp_path / "m.npz"))
    assert loaded.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(loaded.predict(frame(X)), model.predict(frame(X)))
    assert loaded.get_params() == model.get_params() and list(loaded.feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(frame(X)[["b", "a", "c"]])
    with pytest.raises(dgpbench.UserError, match="it holds a Classifier, not a Regressor"):
        dgpbench.Regressor.load(tmp_path / "m.npz")


def saved(folder, **changes):
    """A saved estimator with changes to its JSON: {"config.model._target_": ...}."""
    X, y = data()
    dgpbench.Regressor("linear").fit(X, y).save(folder / "m.npz")
    with np.load(folder / "m.npz") as file:
        arrays = dict(file)
    about = json.loads(str(arrays["estimator"]))
    for name, value in changes.items():
        *parents, leaf = name.split("__")
        node = about
        for parent in parents:
            node = node[parent]
        node[leaf] = value
    np.savez(folder / "m.npz", **arrays | {"estimator": np.array(json.dumps(about))})
    return folder / "m.npz"


@pytest.mark.parametrize(
    "changes, text",
    [
        ({"config__model___target_": "evil.Model"}, "is code of others; if you trust it, pass allow"),
        ({"config__inference___target_": "os.system"}, "is code of others"),
        ({"params__overrides": ["model._target_=evil.Model"]}, "is code of others"),
        ({"params__overrides": ["inference={_target_:evil.Model}"]}, "is code of others"),
        ({"params__model": 3, "params__nonsense": 1}, "unexpected keyword argument 'nonsense'"),
        ({"config__model__name": None}, "its config is none"),
        ({"config": {}}, "'model' must be|its config is none"),
        ({"features": 2}, "its scaling does not fit its number of inputs"),
        ({"format": 99}, "its format 99 is unknown; update dgpbench"),
        ({"kind": "Other"}, "it holds a Other, not a Regressor"),
    ],
)
def test_changed_files_are_one_line_and_run_nothing(changes, text, tmp_path, monkeypatch):
    (tmp_path / "evil.py").write_text("raise SystemExit('this code must not run')")
    monkeypatch.chdir(tmp_path)
    path = saved(tmp_path, **changes)
    with pytest.raises(dgpbench.UserError, match=text) as caught:
        dgpbench.Regressor.load(path)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


class Bomb:
    def __reduce__(self):
        return (os._exit, (1,))


def test_damaged_and_foreign_files_are_one_line(tmp_path):
    good = saved(tmp_path).read_bytes()
    (tmp_path / "cut.npz").write_bytes(good[: len(good) // 2])
    (tmp_path / "pickle.npz").write_bytes(pickle.dumps(Bomb()))
    np.savez(tmp_path / "object.npz", estimator=np.array([Bomb()], dtype=object))
    np.savez(tmp_path / "other.npz", weights=np.zeros(3))
    for name in ("cut.npz", "pickle.npz", "object.npz", "other.npz"):
        with pytest.raises(dgpbench.UserError, match=f"{name} is not a usable saved Regressor"):
            dgpbench.Regressor.load(tmp_path / name)
    with pytest.raises(dgpbench.UserError, match="cannot read .*none.npz"):
        dgpbench.Regressor.load(tmp_path / "none.npz")
    with pytest.raises(dgpbench.UserError, match="cannot write .*; choose a file in a writable folder"):
        dgpbench.Regressor("linear").fit(*data()).save(tmp_path / "none" / "m.npz")


def test_a_model_of_the_users_own_loads_where_it_is_allowed(tmp_path, monkeypatch):
    (tmp_path / "own_ridge.py").write_text(RIDGE.replace('cfg["model"]["penalty"]', "1.0"))
    monkeypatch.chdir(tmp_path)
    sys.modules.pop("own_ridge", None)  # that of another test
    X, y = data()
    model = dgpbench.Regressor("linear", "model._target_=own_ridge.Ridge").fit(X, y)
    model.save("m.npz")
    with pytest.raises(dgpbench.UserError, match=r"pass allow=\[...\] with own_ridge"):
        dgpbench.Regressor.load("m.npz")
    loaded = dgpbench.Regressor.load("m.npz", allow=["own_ridge"])
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_before_fit_everything_says_so(tmp_path):
    X, y = data()
    for estimator in (dgpbench.Regressor(), dgpbench.Classifier()):
        calls = ("predict", "predict_proba", "predict_dist", "predict_quantiles", "sample_y", "distribution")
        for name in calls:
            if hasattr(estimator, name):
                with pytest.raises(NotFittedError):
                    getattr(estimator, name)(X)
        with pytest.raises(NotFittedError):
            estimator.save(tmp_path / "m.npz")


def test_other_processes_predict_the_same(tmp_path):
    X, y = data()
    scores = cross_val_score(dgpbench.Regressor("linear"), frame(X), pd.Series(y), cv=2, n_jobs=2)
    np.testing.assert_allclose(scores, cross_val_score(dgpbench.Regressor("linear"), X, y, cv=2))
    model = dgpbench.Regressor("sgp", **SMALL).fit(X, y)
    joblib.dump(model, tmp_path / "m.joblib")
    np.testing.assert_array_equal(joblib.load(tmp_path / "m.joblib").predict(X), model.predict(X))
