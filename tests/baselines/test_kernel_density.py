"""Kernel density estimates against scipy and sums written out."""

import numpy as np
import pytest
from baseline_tools import context, make
from scipy import stats

from dgpbench.data.split import Split
from dgpbench.errors import UserError
from dgpbench.models.baselines import kde
from dgpbench.models.baselines.kde import loo_loglik, silverman


def data(N=60, D=2, P=1, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.randn(N, D) * [1.0, 3.0][:D]
    return X, np.sin(X[:, :1]) * [1.0, 5.0][:P] + 0.3 * rng.randn(N, P)


def fitted(*overrides, X, Y, tmp_path, seed=0, notes=None):
    model = make(*overrides)
    notes = [] if notes is None else notes
    return model, model.fit(Split.from_arrays(X, Y), context(tmp_path, seed=seed, note=notes.append))


def normal(y, centre, h):
    return float(np.prod(np.exp(-0.5 * ((y - centre) / h) ** 2) / (np.sqrt(2 * np.pi) * h)))


def brute_loo(Y, rows, h, X=None, h_x=None):
    total = 0.0
    for i in rows:
        top = bottom = 0.0
        for j in range(len(Y)):
            if j != i:
                k = 1.0 if X is None else np.exp(-0.5 * np.sum((X[i] - X[j]) ** 2) / h_x**2)
                top, bottom = top + k * normal(Y[i], Y[j], h), bottom + k
        total += np.log(top / bottom)
    return total / len(rows)


@pytest.mark.parametrize("block", [kde.BLOCK, 130])
@pytest.mark.parametrize("P", [1, 2])
def test_leave_one_out_likelihood_equals_a_loop(P, block, monkeypatch):
    monkeypatch.setattr(kde, "BLOCK", block)
    X, Y = data(N=30, P=P)
    rows = np.arange(30)[::-1][:17]
    for h, h_x in ((0.2, 0.5), (1.0, 3.0)):
        assert loo_loglik(Y, rows, h) == pytest.approx(brute_loo(Y, rows, h), rel=1e-11)
        assert loo_loglik(Y, rows, h, X, h_x) == pytest.approx(brute_loo(Y, rows, h, X, h_x), rel=1e-11)


def test_leave_one_out_does_not_underflow():
    Y = np.array([[0.0], [1.0], [100.0]])
    expected = np.mean([stats.norm(c, 0.1).logpdf(y) - np.log(2) for y, c in ((0, 1), (1, 0), (100, 1))])
    assert loo_loglik(Y, np.arange(3), 0.1) == pytest.approx(expected, rel=1e-12)


def test_silverman_is_scipys():
    for n, d in ((50, 1), (1000, 3)):
        assert silverman(n, d) == pytest.approx(stats.gaussian_kde(np.random.rand(d, n)).silverman_factor())


@pytest.mark.parametrize("rule", ["loo", "silverman"])
def test_unconditional_equals_scipy_at_its_bandwidth(rule, tmp_path):
    X, Y = data()
    model, facts = fitted("model=kde", f"model.bandwidth={rule}", X=X, Y=Y, tmp_path=tmp_path)
    h = float(model.values["bandwidth_y"][0])
    assert h == pytest.approx(facts["bandwidth_y"] * Y.std())
    theirs = stats.gaussian_kde(Y[:, 0], bw_method=h / Y.std(ddof=1))
    Ys = np.linspace(-3, 3, 9)[:, None]
    predictive = model.predict(X[:9], 100, 0)
    np.testing.assert_allclose(predictive.log_density(Ys), theirs.logpdf(Ys[:, 0]), rtol=1e-10)
    assert facts["loo_loglik"] == pytest.approx(brute_loo(Y, range(60), h), rel=1e-10)


def test_unconditional_search_finds_the_maximum(tmp_path):
    X, Y = data(P=2)
    model, facts = fitted("model=kde", X=X, Y=Y, tmp_path=tmp_path)
    grid = np.exp(np.linspace(np.log(0.02), np.log(2), 200))
    values = [loo_loglik(Y / Y.std(0), np.arange(60), h) for h in grid]
    assert facts["bandwidth_y"] == pytest.approx(grid[np.argmax(values)], rel=0.03)
    assert facts["loo_loglik"] + np.log(Y.std(0)).sum() >= max(values) - 1e-6
    np.testing.assert_allclose(model.values["bandwidth_y"], facts["bandwidth_y"] * Y.std(0))


def brute_conditional(values, x, y):
    k = np.exp(-0.5 * (((x - values["X"]) / values["bandwidth_x"]) ** 2).sum(1))
    each = np.array([normal(y, centre, values["bandwidth_y"]) for centre in values["Y"]])
    return np.log(k @ each / k.sum())


@pytest.mark.parametrize("rule", ["loo", "silverman"])
def test_conditional_equals_its_formula(rule, tmp_path):
    X, Y = data(P=2)
    model, facts = fitted("model=ckde", f"model.bandwidth={rule}", X=X, Y=Y, tmp_path=tmp_path)
    Xs, Ys = data(N=9, P=2, seed=1)
    expected = [brute_conditional(model.values, x, y) for x, y in zip(Xs, Ys, strict=True)]
    np.testing.assert_allclose(model.predict(Xs, 100, 0).log_density(Ys), expected, rtol=1e-9)
    sd_x, sd_y = X.std(0), Y.std(0)
    h_x, h_y = facts["bandwidth_x"], facts["bandwidth_y"]
    np.testing.assert_allclose(model.values["bandwidth_x"], h_x * sd_x)
    loo = brute_loo(Y / sd_y, range(60), h_y, X / sd_x, h_x) - np.log(sd_y).sum()
    assert facts["loo_loglik"] == pytest.approx(loo, rel=1e-9) and facts["dropped_weight"] == 0.0
    if rule == "silverman":
        assert h_x == h_y == silverman(60, 4)


def test_conditional_search_finds_the_maximum(tmp_path):
    X, Y = data(N=150)
    _, facts = fitted("model=ckde", X=X, Y=Y, tmp_path=tmp_path)
    grid = np.exp(np.linspace(np.log(0.03), np.log(3), 25))
    U, V, rows = X / X.std(0), Y / Y.std(0), np.arange(150)
    best = max(loo_loglik(V, rows, h_y, U, h_x) for h_x in grid for h_y in grid)
    assert facts["loo_loglik"] + np.log(Y.std()) >= best - 1e-6


def test_only_the_heaviest_kernels_are_kept_and_the_rest_is_told(tmp_path):
    X, Y = data()
    notes = []
    settings = ("model=ckde", "model.max_components=15")
    model, facts = fitted(*settings, X=X, Y=Y, tmp_path=tmp_path, notes=notes)
    Xs, Ys = data(N=9, seed=1)
    predictive = model.predict(Xs, 100, 0)
    assert predictive.num_components == 15 and predictive.problem() is None
    for n in range(9):
        k = np.exp(-0.5 * (((Xs[n] - X) / model.values["bandwidth_x"]) ** 2).sum(1))
        heavy = np.argsort(-k)[:15]
        each = stats.norm(Y[heavy, 0], model.values["bandwidth_y"]).pdf(Ys[n])
        expected = np.log(k[heavy] @ each / k[heavy].sum())
        assert predictive.log_density(Ys)[n] == pytest.approx(expected, rel=1e-9)
    dropped = []
    for i in range(60):
        k = np.exp(-0.5 * (((X[i] - X) / model.values["bandwidth_x"]) ** 2).sum(1))
        k = np.sort(np.delete(k, i))
        dropped.append(k[:-15].sum() / k.sum())
    assert facts["dropped_weight"] == pytest.approx(max(dropped), rel=1e-6)
    assert len(notes) == 1 and "the 15 heaviest of 60 kernels leave out up to" in notes[0]


def test_nearest_neighbours_as_in_the_thesis(tmp_path):
    X, Y = data()
    model, facts = fitted("model=ckde", "model.neighbours=7", X=X, Y=Y, tmp_path=tmp_path)
    _, unconditional = fitted("model=kde", X=X, Y=Y, tmp_path=tmp_path)
    assert facts["bandwidth_y"] == unconditional["bandwidth_y"]
    Xs, Ys = data(N=9, seed=1)
    for n, got in enumerate(model.predict(Xs, 100, 0).log_density(Ys)):
        near = np.argsort((((Xs[n] - X) / X.std(0)) ** 2).sum(1))[:7]
        each = stats.norm(Y[near, 0], model.values["bandwidth_y"]).pdf(Ys[n])
        assert got == pytest.approx(np.log(each.mean()), rel=1e-9)


@pytest.mark.parametrize("block", [kde.BLOCK, 200])
def test_far_from_all_data_the_nearest_point_decides(block, tmp_path, monkeypatch):
    monkeypatch.setattr(kde, "BLOCK", block)
    X, Y = data(D=1)
    model, _ = fitted("model=ckde", X=X, Y=Y, tmp_path=tmp_path)
    predictive = model.predict(np.full((11, 1), 1e4), 100, 0)
    assert predictive.problem() is None
    np.testing.assert_allclose(predictive.mixture_mean(), np.full((11, 1), Y[np.argmax(X[:, 0])]))


def test_large_data_are_sampled_with_a_note(tmp_path):
    X, Y = data()
    for name, setting in (("kde", "max_components"), ("ckde", "max_points")):
        notes, words = [], (f"model={name}", f"model.{setting}=20")
        model, facts = fitted(*words, X=X, Y=Y, tmp_path=tmp_path, notes=notes)
        assert notes == [f"kernels stand on 20 random rows of 60; model.{setting} takes more"]
        assert facts["kernels"] == len(model.values["Y"]) == 20
        assert set(model.values["Y"][:, 0]) <= set(Y[:, 0])
        again, _ = fitted(*words, X=X, Y=Y, tmp_path=tmp_path)
        other, _ = fitted(*words, X=X, Y=Y, tmp_path=tmp_path, seed=1)
        assert np.array_equal(again.values["Y"], model.values["Y"])
        assert not np.array_equal(other.values["Y"], model.values["Y"])


def test_the_search_may_score_some_rows_only(tmp_path):
    X, Y = data(N=200)
    _, some = fitted("model=ckde", "model.search_rows=80", X=X, Y=Y, tmp_path=tmp_path)
    rows = np.random.RandomState(0).permutation(200)[:80]
    expected = loo_loglik(Y / Y.std(), rows, some["bandwidth_y"], X / X.std(0), some["bandwidth_x"])
    assert some["loo_loglik"] == pytest.approx(expected - np.log(Y.std()), rel=1e-12)


def test_equal_targets_are_told_and_do_not_break(tmp_path):
    X, Y = data()
    notes = []
    model, facts = fitted("model=kde", X=X, Y=np.round(Y), tmp_path=tmp_path, notes=notes)
    assert facts["bandwidth_y"] == pytest.approx(kde.LOWEST, rel=0.01)
    assert len(notes) == 1 and "many targets are equal" in notes[0]
    constant, _ = fitted("model=ckde", X=0 * X, Y=0 * Y + 2.0, tmp_path=tmp_path)
    assert constant.predict(X[:3], 1, 0).problem() is None


def test_one_row_is_too_few(tmp_path):
    with pytest.raises(UserError, match="at least two training rows"):
        fitted("model=kde", X=np.zeros((1, 1)), Y=np.zeros((1, 1)), tmp_path=tmp_path)
