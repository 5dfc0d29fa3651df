"""Class labels, stratified and fixed splits, row numbers and pixels."""

import numpy as np
import pytest

from dgpbench.config import compose
from dgpbench.config.derived import num_splits
from dgpbench.data import load_split
from dgpbench.data.cache import Data
from dgpbench.data.catalogue import Entry
from dgpbench.data.labels import code_labels
from dgpbench.data.split import shuffle_rows, stratified_rows
from dgpbench.errors import UserError


def csv_file(folder, labels, name="own.csv", X=None):
    X = np.random.RandomState(0).randn(len(labels), 2) if X is None else X
    lines = [",".join([*map(repr, map(float, x)), str(y)]) for x, y in zip(X, labels, strict=True)]
    path = folder / name
    path.write_text("\n".join(["a,b,kind", *lines]) + "\n")
    return path, X


def own(path, task="multiclass", **settings):
    return {"name": "csv", "path": str(path), "task": task, "target": "kind", **settings}


def test_labels_become_codes_in_sorted_order(tmp_path, config):
    labels = ["pear", "apple", "fig", "apple"] * 10
    path, X = csv_file(tmp_path, labels)
    split = load_split(config(own(path)))
    assert split.classes == ("apple", "fig", "pear") and split.n_classes == 3 and split.task == "multiclass"
    back = [split.classes[int(c)] for c in split.Y[:, 0]]
    assert back == labels and np.array_equal(split.X, X)
    assert split.y_mean == 0 and split.y_std == 1
    assert np.array_equal(split.Y_train, split.Y[split.rows_train]) and split.Y_train.dtype == np.float64


def test_numeric_labels_sort_as_numbers(tmp_path, config):
    path, _ = csv_file(tmp_path, ["10", "9", "-1", "9.0"] * 10)
    split = load_split(config(own(path)))
    assert split.classes == ("-1", "9", "10") and split.Y[:4, 0].tolist() == [2, 1, 0, 1]


def test_labels_of_a_catalogued_set_are_coded_when_loaded():
    Y = np.array([[1.0], [-1.0], [1.0], [-1.0]])
    data = Data(np.zeros((4, 1)), Y, "hash", {"origin": {}})
    codes, names = code_labels(Entry("plusminus", task="binary"), data)
    assert codes[:, 0].tolist() == [1, 0, 1, 0] and names == ["-1", "1"]
    _, names = code_labels(Entry("named", task="binary", classes=("no", "yes")), data)
    assert names == ["no", "yes"]
    with pytest.raises(UserError, match="dataset.classes names 3 classes, the source has 2 \\(-1, 1\\)"):
        code_labels(Entry("named", task="binary", classes=("no", "yes", "maybe")), data)


def test_a_text_class_in_the_first_line_is_no_header(tmp_path, config):
    path = tmp_path / "bare.csv"
    path.write_text("\n".join(f"{i},{i * i % 7},{'ab'[i % 2]}" for i in range(20)))
    split = load_split(config({"name": "csv", "path": str(path), "task": "binary", "target": None}))
    assert len(split.X) == 20 and split.classes == ("a", "b")
    assert load_split(config({"name": "csv", "path": str(path), "task": "binary", "target": 2})).n_train == 18


def test_parquet_with_text_labels(tmp_path, config):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "own.parquet"
    labels = ["yes", "no", "no", "yes"] * 5
    pq.write_table(pa.table({"x": [float(i) for i in range(20)], "kind": labels}), path)
    split = load_split(config(own(path, "binary")))
    assert [split.classes[int(c)] for c in split.Y[:, 0]] == labels
    assert split.X[:, 0].tolist() == list(range(20))
    labels[3] = None
    pq.write_table(pa.table({"x": [float(i) for i in range(20)], "kind": labels}), path)
    with pytest.raises(UserError, match="row 3, column 'kind' has no label"):
        load_split(config(own(path, "binary")))


@pytest.mark.parametrize(
    "labels,task,message",
    [
        (["a", "b", ""] * 5, "multiclass", "line 4, column 3 \\('kind'\\) has no label; every row needs one"),
        (["a", "b", "NaN"] * 5, "multiclass", "line 4, column 3 .* has no label"),
        (["a"] * 10, "binary", "every row has the label a; classification needs two classes"),
        ([f"{i / 7:.3f}" for i in range(20)], "multiclass", "label 0.143 is not a whole number"),
        (["1", "2", "inf"] * 5, "multiclass", "label inf is not a whole number"),
        (range(30), "multiclass", "30 different labels in 30 rows .*; these are no classes"),
        (["a", "b", "c"] * 5, "binary", "has 3 classes \\(a, b, c\\) but dataset.task=binary; set"),
    ],
)
def test_what_cannot_be_classes_is_refused(labels, task, message, tmp_path, config):
    path, _ = csv_file(tmp_path, labels)
    with pytest.raises(UserError, match=message):
        load_split(config(own(path, task)))


def test_one_class_in_train_is_refused_and_an_unseen_one_is_told_of(tmp_path, config):
    rows = shuffle_rows(40, 0)[1]  # the test rows of split 0
    labels = np.array(["a"] * 40, dtype=object)
    labels[rows] = "b"
    path, _ = csv_file(tmp_path, labels)
    with pytest.raises(UserError, match="split 0 of dataset csv trains on class a only; .*stratify=true"):
        load_split(config(own(path, "binary")))
    assert load_split(config(own(path, "binary"), stratify=True)).n_train == 36
    labels[:20:2] = np.where(labels[:20:2] == "a", "c", labels[:20:2])
    path, _ = csv_file(tmp_path, labels, "other.csv")
    notes = []
    split = load_split(config(own(path)), notes.append)
    assert split.n_classes == 3 and "no training row has class b; it keeps its column" in notes[-1]


def test_auto_task(tmp_path):
    def task(labels, target="kind"):
        path, _ = csv_file(tmp_path, labels)
        words = ["dataset=csv", f"dataset.path={path}", f"dataset.target={target}", "dataset.task=auto"]
        return compose(words)["dataset"]["task"]

    assert task(["a", "b"] * 10) == "binary" and task(["a", "b", "c"] * 10) == "multiclass"
    assert task(["0", "1.0", "1", "0"] * 5) == "binary" and task(list(range(20)) * 3) == "multiclass"
    assert task(list(range(21)) * 3) == "regression" and task(range(10)) == "regression"
    assert task(["0.5", "1"] * 5) == "regression" and task(["a", "b"] * 5, "[a,kind]") == "regression"
    with pytest.raises(UserError, match="dataset.task=auto is for a file of your own; iris is multiclass"):
        compose(["dataset=iris", "dataset.task=auto"])
    with pytest.raises(UserError, match="dataset.task=guess is not allowed; dataset.task must be one of"):
        compose(["dataset=iris", "dataset.task=guess"])


def brute_strata(codes, split, fraction):
    """Counts per class by the documented rule, one class at a time."""
    counts = {}
    for c in sorted(set(codes)):
        size = codes.count(c)
        counts[c] = min(size, max(1, int(fraction * size)))
    while sum(counts.values()) < int(fraction * len(codes)):
        worst = max(counts, key=lambda c: (fraction * codes.count(c) - counts[c], -c))
        counts[worst] += 1
    return counts


@pytest.mark.parametrize("split", [0, 3])
def test_stratified_rows(split):
    codes = [0] * 50 + [1] * 33 + [2] * 7 + [3] * 1 + [4] * 15
    np.random.RandomState(5).shuffle(codes)
    train, test = stratified_rows(np.array(codes), split, 0.7)
    assert sorted([*train, *test]) == list(range(len(codes)))
    got = {c: sum(codes[r] == c for r in train) for c in range(5)}
    assert got == brute_strata(codes, split, 0.7) and got[3] == 1 and len(train) == int(0.7 * len(codes))
    order = shuffle_rows(len(codes), split, 1.0)[0].tolist()
    assert [order.index(r) for r in train] == sorted(order.index(r) for r in train)
    for c in range(5):  # within a class the first of the shuffle train
        ranked = [r for r in order if codes[r] == c]
        assert set(ranked[: got[c]]) == {r for r in train if codes[r] == c}


def test_plain_splits_do_not_look_at_labels(tmp_path, config):
    path, _ = csv_file(tmp_path, ["a", "b"] * 30)
    split = load_split(config(own(path, "binary"), split=2))
    assert np.array_equal(split.rows_train, shuffle_rows(60, 2)[0])


def test_own_test_rows(tmp_path, config):
    path, _ = csv_file(tmp_path, ["a", "b"] * 30)
    dataset = own(path, "binary", train_rows=45)
    split = load_split(config(dataset))
    assert split.rows_train.tolist() == list(range(45)) and split.rows_test.tolist() == list(range(45, 60))
    assert np.allclose(split.X_train.mean(0), 0)
    with pytest.raises(UserError, match="split=1 is out of range; dataset csv has test rows of its own"):
        load_split(config(dataset, split=1))
    free = load_split(config(dataset, split=1, fixed_test=False))
    assert np.array_equal(free.rows_train, shuffle_rows(60, 1)[0])
    with pytest.raises(UserError, match="leaves 60 to train and 0 to test; change dataset.train_rows"):
        load_split(config(own(path, "binary", train_rows=60)))


def test_number_of_splits():
    protocol = compose([])["protocol"]
    assert num_splits({"name": "energy"}, protocol) == 20
    assert num_splits({"name": "mnist", "train_rows": 60000}, protocol) == 1
    assert num_splits({"name": "mnist", "train_rows": 60000}, protocol | {"fixed_test": False}) == 20
    assert num_splits({"name": "mnist", "train_rows": 60000}, protocol | {"split_rule": "fixed_zero"}) == 20
    with pytest.raises(UserError, match="split=3 is out of range; dataset mnist has test rows of its own"):
        compose(["dataset=mnist", "split=3"])
    assert compose(["dataset=mnist", "split=3", "protocol.fixed_test=false"])["split"] == 3


@pytest.mark.parametrize("name", ["iris", "wine"])
def test_row_numbers_are_inputs_under_bayesian_benchmarks_only(name, mirror, config):
    cfg = config(name, mirror=mirror)
    cfg["protocol"] = compose(["protocol=bayesian_benchmarks"])["protocol"]
    theirs, ours = load_split(cfg), load_split(config(name, mirror=mirror))
    assert theirs.dim == ours.dim + 1 and np.array_equal(theirs.X[:, 1:], ours.X)
    assert np.array_equal(theirs.X[:, 0], 1 + np.arange(len(theirs.X)))
    assert theirs.data_hash != ours.data_hash
    assert any("row number" in trap for trap in theirs.traps) and not ours.traps
    scaled = (theirs.X - theirs.X.mean(0)) / (1e-6 + theirs.X.std(0))
    rows = shuffle_rows(len(scaled), 0)[0]
    assert np.array_equal(theirs.X_train, scaled[rows]) and np.array_equal(theirs.Y_train, theirs.Y[rows])


def test_pixels_are_divided_and_constant_ones_do_no_harm(config):
    split = load_split(config("digits"))
    assert split.X.max() == 16 and np.array_equal(split.X_train, split.X[split.rows_train] / 16)
    assert split.traps == () and split.n_classes == 10
    scaled = load_split(config("digits", pixels="scaling"))
    constant = split.X[scaled.rows_train].std(0) == 0
    assert constant.any() and np.all(scaled.X_train[:, constant] == 0) and np.isfinite(scaled.X_test).all()
    assert np.allclose(scaled.X_train[:, ~constant].std(0), 1)
    everything = load_split(config("digits", pixels="scaling", scaling="all"))
    assert np.isfinite(everything.X_train).all()
