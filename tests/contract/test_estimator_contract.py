"""What Regressor and Classifier do with every model of conf/model, new ones included."""

import numpy as np
import pytest
from sklearn.metrics import r2_score
from small_runs import marks, model_fields, tasks

import dgpbench
from dgpbench.config.tree import options

CANNOT = {  # model: the error of the estimators
    "mfdgp": "needs the level of each row, which estimators have no argument for; use dgpbench.run",
    "wrapped": "model.wrapped needs a value; add model.wrapped=module.Class",
}
NAMES = [name for name in options("model") if name not in CANNOT]
FAST = (
    *("dgp2", "sgp", "lv_gp", "mfdgp", "wrapped", "gpr", "sgpr", "fitc", "vgp", "gpmc", "gfitc", "ep_gpc"),
    *("linear", "logistic", "knn", "kde", "ckde", "decision_tree", "mdn_1", "cvae_50", "mc_dropout"),
    "deep_ensemble",
)
SLOW_AS_CLASSIFIERS = ("lv_gp", "gpmc")
TINY = {"num_inducing": 5, "kept": 2, "start_steps": 2, "leapfrog": 2, "members": 2, "hidden": "[4]"}
LEVELS = (0.1, 0.5, 0.9)


def data(rows: int = 24):
    """Inputs of which the second names one of two sequences, as model=alignment needs it."""
    rng = np.random.RandomState(0)
    X = np.stack([rng.randn(rows), np.arange(rows) % 2], 1)
    return X, 10 + 3 * np.sin(2 * X[:, 0]) + rng.randn(rows)


def small(kind, name: str, **settings):
    fields = model_fields(name)
    words = [f"model.{field}={value}" for field, value in TINY.items() if fields.get(field)]
    if not fields.get("closed_form"):
        words += ["budget.steps=5", "engine.xla=false"]
    words += ["protocol.test_samples=20", "protocol.latent_samples=20", "protocol.draws=50"]
    return kind(name, words, **settings)


def cases(task: str):
    kinds = {"regression": ("regression",), "classes": ("binary", "multiclass")}[task]
    chosen = [name for name in NAMES if set(kinds) & set(tasks(name))]
    fast = set(FAST) - set(SLOW_AS_CLASSIFIERS if task == "classes" else ())
    return [pytest.param(n, marks=() if n in fast else marks(n)) for n in chosen]


def test_every_family_has_a_fast_case():
    targets = {name: model_fields(name)["_target_"] for name in options("model")}
    assert {targets[name] for name in FAST} == set(targets.values()) and set(FAST) <= set(targets)


@pytest.mark.parametrize("name", CANNOT)
def test_models_that_estimators_cannot_use_say_so(name):
    X, y = data()
    with pytest.raises(dgpbench.UserError, match=CANNOT[name]) as caught:
        small(dgpbench.Regressor, name).fit(X, y)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", cases("regression"))
def test_regression(name, tmp_path):
    X, y = data()
    model = small(dgpbench.Regressor, name).fit(X, y)
    mean, sd = model.predict(X, return_std=True)
    assert mean.shape == sd.shape == (24,) and np.isfinite(mean).all() and (sd > 0).all()
    np.testing.assert_array_equal(model.predict(X), mean)
    assert model.score(X, y) == pytest.approx(r2_score(y, mean))
    assert abs(mean.mean() - y.mean()) < 3 * y.std()  # in original units

    dist, found = model.predict_dist(X), model.predict_quantiles(X, LEVELS)
    np.testing.assert_allclose(dist.mean(), mean, rtol=1e-10)
    np.testing.assert_allclose(dist.std(), sd, rtol=1e-8)
    assert found.shape == (24, 3) and (np.diff(found) > 0).all()
    for i, level in enumerate(LEVELS):
        np.testing.assert_allclose(dist.cdf(found[:, i]), level, atol=1e-6)
    assert np.isfinite(dist.log_prob(y)).all() and model.sample_y(X, 7).shape == (24, 7)

    bound = not model_fields(name).get("closed_form")
    assert list(model.history_) == ["step", "seconds", "bound"] and (len(model.history_) > 0) == bound
    assert np.isfinite(model.history_.to_numpy()).all() and model.history_.step.is_monotonic_increasing

    model.save(tmp_path / "model.npz")
    loaded = dgpbench.Regressor.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict(X), mean)
    assert loaded.history_.equals(model.history_) and loaded.model == name


@pytest.mark.parametrize("name", cases("classes"))
def test_classes(name, tmp_path):
    X, y = data()
    cuts = [y.mean()] if "multiclass" not in tasks(name) else np.quantile(y, (0.33, 0.66))
    labels = np.array(["low", "mid", "high"])[np.digitize(y, cuts)]
    model = small(dgpbench.Classifier, name).fit(X, labels)
    probs = model.predict_proba(X)
    assert probs.shape == (24, len(cuts) + 1) and (probs >= 0).all()
    np.testing.assert_allclose(probs.sum(1), 1)
    np.testing.assert_array_equal(model.predict(X), model.classes_[probs.argmax(1)])
    assert model.score(X, labels) == np.mean(model.predict(X) == labels)
    model.save(tmp_path / "model.npz")
    loaded = dgpbench.Classifier.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict_proba(X), probs)
    assert loaded.classes_.dtype == model.classes_.dtype and list(loaded.classes_) == list(model.classes_)


def test_counts():
    X, y = data()
    counts = np.round(np.maximum(y - 5, 0))
    model = small(dgpbench.Regressor, "sgp", likelihood="poisson").fit(X, counts)
    total = np.exp(model.predict_dist(np.repeat(X[:1], 60, 0)).log_prob(np.arange(60))).sum()
    assert total == pytest.approx(1, abs=0.01)  # probabilities, not densities
    drawn = model.sample_y(X, 9)
    np.testing.assert_array_equal(drawn, np.round(drawn))
    assert (drawn >= 0).all() and model.predict_quantiles(X).shape == (24, 3)
    assert np.isfinite(model.score(X, counts))


@pytest.mark.parametrize(
    "name, likelihood", [("sgp", "student_t"), pytest.param("vgp", "gamma", marks=pytest.mark.slow)]
)
def test_other_likelihoods_have_a_density_that_integrates_to_one(name, likelihood):
    """In original units: the grid is far wider and finer than what is predicted."""
    X, y = data()
    model = small(dgpbench.Regressor, name, likelihood=likelihood).fit(X, y)
    grid = np.linspace(-40, 60, 120) if likelihood == "student_t" else np.linspace(0.01, 120, 120)
    density = np.exp(model.predict_dist(np.repeat(X[:1], 120, 0)).log_prob(grid))
    assert np.trapz(density, grid) == pytest.approx(1, abs=0.01)
