"""Regressor and Classifier: scikit-learn's own checks, and what they must share with a run."""

import pickle

import numpy as np
import pytest
from own_files import regression, write_csv
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

import dgpbench

QUICK = ("model.num_inducing=10", "budget.steps=20", "budget.seconds=null", "engine.xla=false")
EXCEPTIONS: dict[str, str] = {}  # name of a check -> why it cannot hold; there is none
FEW = (
    *("check_estimator_cloneable", "check_no_attributes_set_in_init", "check_estimators_unfitted"),
    *("check_n_features_in", "check_regressors_int", "check_estimators_nan_inf"),
)


def data(n: int = 40):
    columns = regression(n)
    return np.stack([columns[name] for name in "abc"], 1), columns["y"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [dgpbench.Regressor, pytest.param(dgpbench.Classifier, marks=pytest.mark.long)]
)
@pytest.mark.filterwarnings("ignore")
def test_all_checks_of_scikit_learn(kind):
    found = check_estimator(kind("sgp", QUICK), on_fail=None, expected_failed_checks=EXCEPTIONS)
    assert len(found) > 40
    assert [(row["check_name"], row["exception"]) for row in found if row["status"] == "failed"] == []


@pytest.mark.parametrize("kind", [dgpbench.Regressor, dgpbench.Classifier])
@pytest.mark.filterwarnings("ignore")
def test_a_few_checks_of_scikit_learn(kind):
    done = 0
    for estimator, check in estimator_checks_generator(kind("sgp", QUICK)):
        if check.func.__name__ in FEW:
            check(estimator)
            done += 1
    assert done >= 4


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
