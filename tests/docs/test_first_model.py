"""The tutorial docs/first-model.md: its files, its commands, and the right numbers."""

import sys

import docs_page
import numpy as np
import pytest

pytestmark = pytest.mark.slow

PAGE = "first-model.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The page's files, after its check and its two runs."""
    place = tmp_path_factory.mktemp("your_model")
    docs_page.write(PAGE, place)
    check, first, second, *_ = docs_page.commands(PAGE)
    assert "no error found" in docs_page.run(check, place)
    docs_page.run(first, place)
    docs_page.run(second, place)
    return place


def test_fifty_lines():
    found = docs_page.files(PAGE)
    assert list(found) == ["mine.py", "model/mine.yaml"]
    assert sum(len([line for line in text.splitlines() if line.strip()]) for text in found.values()) <= 50
    assert max(len(line) for text in found.values() for line in text.splitlines()) <= 110


def test_record_equals_direct_computation(folder):
    first, second = docs_page.records(folder)
    assert (first["split"], second["split"]) == (0, 1)
    assert first["config"]["model"]["members"] == 20 and second["config"]["model"]["members"] == 50
    for record in (first, second):
        assert record["status"] == "done" and record["sizes"]["n_train"] == 900
        expected = direct(folder, record)
        for name, value in expected.items():
            assert record["metrics"][name] == pytest.approx(value, rel=1e-9), name
    assert first["metrics"]["test_rmse"] < 0.45  # a step of height 2 seen through smooth features


def direct(folder, record):
    """RMSE and log-likelihood in original units, from the cached data and the page alone."""
    (x_file,) = folder.glob("datasets/step/*/X.npy")
    (y_file,) = folder.glob("datasets/step/*/Y.npy")
    X, Y = np.load(x_file), np.load(y_file)
    order = np.arange(1000)
    np.random.RandomState(record["split"]).shuffle(order)
    train, test = order[:900], order[900:]
    Xs, Ys = ((A - A[train].mean(0)) / A[train].std(0) for A in (X, Y))
    sys.path.insert(0, str(folder))
    try:
        from mine import Mine
    finally:
        sys.path.remove(str(folder))
    model = Mine(record["config"])
    model.fit(Arrays(Xs[train], Ys[train]), Run(record["seed"]))
    predictive = model.predict(Xs[test], 100, 0)
    std, shift = Y[train].std(0), Y[train].mean(0)
    mean, var = predictive.mean * std + shift, predictive.var * std**2  # S, N, 1
    log_p = -0.5 * np.log(2 * np.pi * var) - 0.5 * (Y[test] - mean) ** 2 / var
    return {
        "test_rmse": np.sqrt(np.mean((mean.mean(0) - Y[test]) ** 2)),
        "test_loglik": np.mean(np.log(np.mean(np.exp(log_p), 0))),
    }


class Arrays:
    def __init__(self, X_train, Y_train):
        self.X_train, self.Y_train = X_train, Y_train


class Run:
    def __init__(self, seed):
        self.seed = seed


def test_show_and_rescore(folder):
    before = docs_page.records(folder)
    show, rescore = docs_page.commands(PAGE)[4:]
    assert docs_page.run(show, folder).count("mine") >= 2
    docs_page.run(rescore, folder)
    after = {record["key"]: record for record in docs_page.records(folder)}
    for record in before:
        assert after[record["key"]]["metrics"] == record["metrics"]


def test_the_page_shows_what_the_commands_print(folder):
    check, first, _, compare, *_ = docs_page.commands(PAGE)
    found = docs_page.run(compare, folder)
    assert found.count("3/3") == 3 and "missing" not in found
    found += docs_page.run(check, folder, notes=True) + docs_page.run([*first, "--force"], folder, notes=True)
    varying = ("expected", "check of", "record", "evaluation", "training")  # times, and what was run before
    shown = [line for line in docs_page.outputs(PAGE) if not line.startswith(varying)]
    assert len(shown) > 20 and not set(shown) - set(docs_page.masked(found))
