"""Baselines of scikit-learn, and nearest neighbours for regression: against scikit-learn and brute force."""

import numpy as np
import pytest
from baseline_tools import context, make
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

from dgpbench.config import compose
from dgpbench.config.keys import config_key
from dgpbench.data.split import Split
from dgpbench.errors import UserError
from dgpbench.models.baselines import sklearn_models

NEW = np.random.RandomState(9).randn(13, 2)


def waves(N=80, P=1, seed=0) -> Split:
    rng = np.random.RandomState(seed)
    X = rng.randn(N, 2)
    return Split.from_arrays(X, np.sin(2 * X[:, :1]) + 0.2 * rng.randn(N, P) * np.arange(1, P + 1))


def labelled(N=60, C=3, seed=0) -> Split:
    rng = np.random.RandomState(seed)
    X = rng.randn(N, 2)
    y = (X[:, :1] > 0).astype(int) + (X[:, 1:] > 0.5)
    return Split.from_arrays(X, y.astype(float), task="multiclass", n_classes=C)


def fitted(name, split, tmp_path, *words, seed=4):
    notes = []
    model = make(f"model={name}", *words)
    facts = model.fit(split, context(tmp_path, seed=seed, note=notes.append))
    return model, facts, notes


def test_a_forest_is_scikit_learns_with_the_variance_of_rows_left_out(tmp_path):
    split = waves(P=2)
    model, facts, notes = fitted("random_forest", split, tmp_path, "model.options.n_estimators=7")
    X, Y = split.X_train, split.Y_train
    out = model.predict(NEW, 1, 0)
    folds = np.array_split(np.random.RandomState(4).permutation(80), 5)
    for p in range(2):
        theirs = RandomForestRegressor(7, random_state=4).fit(X, Y[:, p])
        np.testing.assert_array_equal(out.mean[0, :, p], theirs.predict(NEW))
        squares = []
        for fold in folds:
            rest = np.setdiff1d(np.arange(80), fold)  # the same rows in file order
            one = RandomForestRegressor(7, random_state=4).fit(X[rest], Y[rest, p])
            squares.append((Y[fold, p] - one.predict(X[fold])) ** 2)
        assert out.var[0, :, p] == pytest.approx(np.mean(np.concatenate(squares)), rel=1e-12)
    assert notes == [] and model.keeps_rows
    assert facts["residual_sd"] == pytest.approx(np.sqrt(out.var[0, 0]))


def test_compat_is_the_rule_of_bayesian_benchmarks(tmp_path):
    """A tree knows its training rows by heart: that rule leaves no variance, ours that of new rows."""
    split = waves()
    tree = DecisionTreeRegressor(random_state=4).fit(split.X_train, split.Y_train[:, 0])
    std = np.std(tree.predict(split.X_train) - split.Y_train[:, 0])
    compat, _, _ = fitted("decision_tree", split, tmp_path, "model.variance=compat")
    assert compat.predict(NEW, 1, 0).var[0, 0, 0] == max((std + 1e-6) ** 2, sklearn_models.FLOOR) < 1e-9
    ours, _, _ = fitted("decision_tree", split, tmp_path)
    held_out = waves(2000, seed=1)
    error = np.mean((ours.predict(held_out.X_train, 1, 0).mean[0] - held_out.Y_train) ** 2)
    assert ours.predict(NEW, 1, 0).var[0, 0, 0] == pytest.approx(error, rel=0.35)


def test_classes_have_smoothed_shares(tmp_path):
    split = labelled(C=4)  # class 3 is not in train
    model, _, _ = fitted("random_forest", split, tmp_path, "model.options.n_estimators=9")
    y = split.Y_train[:, 0].astype(int)
    theirs = RandomForestClassifier(9, random_state=4).fit(split.X_train, y).predict_proba(NEW)
    shares = (np.bincount(y, minlength=4) + 1) / 64
    probs = model.predict(NEW, 1, 0).probs
    np.testing.assert_allclose(probs[:, :3], (60 * theirs + shares[:3]) / 61, rtol=1e-12)
    np.testing.assert_allclose(probs[:, 3], shares[3] / 61)
    compat, _, _ = fitted("random_forest", split, tmp_path, "model.variance=compat")
    clipped = compat.predict(NEW, 1, 0).probs
    assert clipped.min() == pytest.approx(1e-12, rel=1e-3) and np.allclose(clipped.sum(1), 1)


@pytest.mark.parametrize("name", sklearn_models.ESTIMATORS)
def test_every_estimator_fits_both_tasks_and_is_restored(name, tmp_path):
    words = ["model.options.max_iter=300"] if name == "mlp" else []
    for split in (waves(40), labelled(40)):
        model, _, _ = fitted(name, split, tmp_path, *words)
        again = make(f"model={name}", *words)
        again.load_parameters(model.parameters())
        one, other = model.predict(NEW, 1, 0), again.predict(NEW, 1, 5)
        assert one.problem() is None
        first, second = (one.mean, other.mean) if one.probs is None else (one.probs, other.probs)
        np.testing.assert_array_equal(first, second)
        if one.probs is None:
            correlation = np.corrcoef(model.predict(split.X_train, 1, 0).mean[0, :, 0], split.Y_train[:, 0])
            assert correlation[0, 1] > 0.5
        else:
            right = model.predict(split.X_train, 1, 0).probs.argmax(1) == split.Y_train[:, 0]
            assert right.mean() > 0.6


def test_bad_options_are_one_line(tmp_path):
    for words, text in (
        ("model.options.n_estimatrs=3", "did you mean 'n_estimators'"),
        ("model.options.n_estimators=-3", "not allowed by scikit-learn"),
        ("model.variance=none", "model.variance must be one of out_of_fold, compat"),
        ("model.estimator=tree", "model.estimator must be one of"),
    ):
        with pytest.raises(UserError, match=text):
            fitted("random_forest", waves(), tmp_path, words)


def test_a_network_that_has_not_converged_says_so(tmp_path):
    _, _, notes = fitted("mlp", waves(), tmp_path, "model.options.max_iter=2")
    assert notes[0] == "mlp has not converged; raise model.options.max_iter"


@pytest.mark.parametrize("words", [(), ("model.k=4",)])
def test_neighbours_for_regression_by_brute_force(tmp_path, words):
    split = waves(60, P=2)
    model, facts, _ = fitted("knn", split, tmp_path, *words)
    X, Y = split.X_train.astype(np.float32), split.Y_train
    distances = ((X[:, None].astype(float) - X[None]) ** 2).sum(-1)
    np.fill_diagonal(distances, np.inf)
    near = np.argsort(distances, axis=1)
    grid = (4,) if words else [k for k in sklearn_models.GRID if k < 60]
    squares = {k: np.mean((Y - Y[near[:, :k]].mean(1)) ** 2, 0) for k in grid}
    best = min(grid, key=lambda k: np.log(squares[k]).sum())
    loglik = -0.5 * np.sum(np.log(2 * np.pi * squares[best]) + 1)
    assert facts["k"] == best and facts["loo_loglik"] == pytest.approx(loglik)
    out = model.predict(NEW, 1, 0)
    nearest = np.argsort(((NEW.astype(np.float32)[:, None].astype(float) - X) ** 2).sum(-1), 1)[:, :best]
    np.testing.assert_allclose(out.mean[0], Y[nearest].mean(1), rtol=1e-12)
    np.testing.assert_allclose(out.var[0, 0], squares[best], rtol=1e-12)
    with pytest.raises(UserError, match="leaves no other of the 60 training rows"):
        fitted("knn", split, tmp_path, "model.k=60")


def test_the_keys_of_knn_are_those_from_before():
    assert config_key(compose(["model=knn", "dataset=digits"]), "0" * 64)[:16] == "fb8300821fd35ee5"
