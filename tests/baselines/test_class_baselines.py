"""Logistic regression and nearest neighbours against scikit-learn, closed forms and brute force."""

import numpy as np
import pytest
from baseline_tools import context, make
from sklearn.linear_model import LogisticRegression

from dgpbench.data.split import Split
from dgpbench.errors import UserError
from dgpbench.models.baselines import linear_models, sklearn_models


def blobs(N=120, C=3, seed=0, spread=1.0):
    rng = np.random.RandomState(seed)
    y = np.arange(N) % C
    X = rng.randn(N, 2) * spread + np.stack([2.0 * np.cos(y), 2.0 * np.sin(y)], 1)
    return X, y


def split_of(X, y, C):
    task = "binary" if C == 2 else "multiclass"
    return Split.from_arrays(X, y[:, None].astype(float), task=task, n_classes=C)


def fitted(name, X, y, C, tmp_path, *overrides, note=lambda text: None):
    model = make(f"model={name}", *overrides)
    return model, model.fit(split_of(X, y, C), context(tmp_path, note=note))


@pytest.mark.parametrize("C", [2, 3])
def test_logistic_minimises_the_penalised_loss(C, tmp_path):
    """The gradient of sum log-loss + |W|^2 / (2 C) vanishes, and predictions are scikit-learn's."""
    X, y = blobs(C=C)
    model, facts = fitted("logistic", X, y, C, tmp_path, "model.C=0.5")
    assert facts["C"] == 0.5 and facts["cv_loglik"] is None
    theirs = LogisticRegression(C=0.5, max_iter=1000).fit(X, y)
    new = np.random.RandomState(1).randn(9, 2)
    assert np.allclose(model.predict(new, 1, 0).probs, theirs.predict_proba(new), atol=1e-12)
    if C == 2:  # one vector of weights: the first class has zeros
        w, b = model.values["weights"][:, 1], model.values["bias"][1]
        residual = 1 / (1 + np.exp(-(X @ w + b))) - y
        assert np.abs(X.T @ residual + w / 0.5).max() < 1e-2 and abs(residual.sum()) < 1e-2
        assert not model.values["weights"][:, 0].any()
    else:
        probs = model.predict(X, 1, 0).probs - np.eye(C)[y]
        assert np.abs(X.T @ probs + model.values["weights"] / 0.5).max() < 1e-2
        assert np.abs(probs.sum(0)).max() < 1e-2


@pytest.mark.slow
def test_penalty_is_the_best_of_the_grid_by_brute_force(tmp_path):
    X, y = blobs(N=60, spread=2.0)
    order = np.random.RandomState(0).permutation(60)
    scores = []
    for C in linear_models.GRID:
        total = 0.0
        for fold in np.array_split(order, 5):
            rest = np.setdiff1d(order, fold)
            probs = LogisticRegression(C=C, max_iter=1000).fit(X[rest], y[rest]).predict_proba(X[fold])
            total += np.log(probs[np.arange(len(fold)), y[fold]]).sum()
        scores.append(total / 60)
    _, facts = fitted("logistic", X, y, 3, tmp_path)
    assert facts["C"] == linear_models.GRID[np.argmax(scores)] and linear_models.GRID[::8] == (1e-4, 1e4)
    assert facts["cv_loglik"] == pytest.approx(max(scores), rel=1e-9)


def test_search_takes_a_sample_of_many_rows(tmp_path):
    X, y = blobs(N=300)
    order = np.random.RandomState(0).permutation(300)[:50]
    expected = linear_models.choose_penalty(X[order], y[order], 50)  # other folds, but of the same rows
    _, facts = fitted("logistic", X, y, 3, tmp_path, "model.search_rows=50")
    assert facts["cv_loglik"] == pytest.approx(expected[1], rel=0.2)


def test_logistic_with_a_class_that_is_not_in_train(tmp_path):
    X, y = blobs(C=3)
    y = np.where(y == 1, 3, y)  # classes 0, 2 and 3 of 4
    model, _ = fitted("logistic", X, y, 4, tmp_path, "model.C=1")
    probs = model.predict(X[:7], 1, 0).probs
    assert np.allclose(probs[:, 1], 1 / (120 + 4)) and np.allclose(probs.sum(1), 1)
    three = LogisticRegression(C=1.0, max_iter=1000).fit(X, y).predict_proba(X[:7])
    assert np.allclose(probs[:, [0, 2, 3]], three * (1 - 1 / 124), atol=1e-12)


def test_logistic_tells_when_it_has_not_converged(tmp_path, monkeypatch):
    monkeypatch.setattr(linear_models, "ITERATIONS", 1)
    notes = []
    fitted("logistic", *blobs(), 3, tmp_path, "model.C=1000", note=notes.append)
    assert notes == ["logistic regression has not converged in 1 iterations at C=1000"]


def brute_knn(X, y, new, k, C):
    """Shares by sorting every distance."""
    prior = (np.bincount(y, minlength=C) + 1) / (len(y) + C)
    out = []
    for x in new:
        near = sorted(range(len(X)), key=lambda i: ((X[i] - x) ** 2).sum())[:k]
        out.append([(sum(y[i] == c for i in near) + prior[c]) / (k + 1) for c in range(C)])
    return np.array(out)


@pytest.mark.parametrize("k", [1, 7])
def test_knn_shares(k, tmp_path):
    X, y = blobs(C=4)
    X = X.astype(np.float32).astype(float)
    model, facts = fitted("knn", X, y, 5, tmp_path, f"model.k={k}")  # class 4 is not in train
    new = np.random.RandomState(1).randn(20, 2).astype(np.float32).astype(float)
    probs = model.predict(new, 1, 0).probs
    assert facts["k"] == k and np.allclose(probs, brute_knn(X, y, new, k, 5), atol=1e-12)
    assert probs.min() > 0 and np.allclose(probs.sum(1), 1)


def test_k_is_the_best_by_leave_one_out(tmp_path):
    X, y = blobs(N=90, spread=1.5)
    X = X.astype(np.float32).astype(float)
    prior = (np.bincount(y) + 1) / (90 + 3)
    scores = {}
    for k in [k for k in sklearn_models.GRID if k < 90]:
        total = 0.0
        for i in range(90):
            others = [j for j in range(90) if j != i]
            near = sorted(others, key=lambda j: ((X[j] - X[i]) ** 2).sum())[:k]
            total += np.log((sum(y[j] == y[i] for j in near) + prior[y[i]]) / (k + 1))
        scores[k] = total / 90
    _, facts = fitted("knn", X, y, 3, tmp_path)
    assert facts["k"] == max(scores, key=scores.get)
    assert facts["loo_loglik"] == pytest.approx(max(scores.values()), rel=1e-9)


def test_repeated_rows_do_not_hide_a_row_from_its_own_search(tmp_path):
    """With copies of a row, the row itself need not be its nearest neighbour: still it is left out."""
    X, y = np.zeros((40, 2)), np.arange(40) % 2
    _, facts = fitted("knn", X, y, 2, tmp_path)
    assert facts["k"] in sklearn_models.GRID and np.isfinite(facts["loo_loglik"])


def test_more_neighbours_than_rows(tmp_path):
    with pytest.raises(UserError, match="model.k=500 is more than the 120 training rows"):
        fitted("knn", *blobs(), 3, tmp_path, "model.k=500")


@pytest.mark.parametrize("words,message", [
    ("model=knn model.k=0", "model.k=0 is not allowed; model.k must be a whole number at least 1, or null"),
    ("model=logistic model.C=-1", "model.C=-1 is not allowed; model.C must be a number above 0, or null"),
])  # fmt: skip
def test_wrong_options(words, message):
    with pytest.raises(UserError, match=message):
        make(*words.split())
