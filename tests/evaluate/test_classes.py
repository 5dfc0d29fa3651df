"""Classification metrics against scikit-learn and brute force."""

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from dgpbench.data import Split
from dgpbench.errors import Diverged
from dgpbench.evaluate.evaluation import evaluate
from dgpbench.evaluate.metrics import CONFIDENCE_BINS, auc, brier, calibration_error, reliability_bins
from dgpbench.evaluate.predictive import Predictive

PROTOCOL = {"test_samples": 10, "draws": 20, "max_test": None}


def case(n, C, seed=0, coarse=False):
    """Random probabilities (coarse: many ties) and labels that follow them."""
    rng = np.random.RandomState(seed)
    probs = rng.dirichlet(np.ones(C), n)
    if coarse:
        probs = np.round(probs * 4) + 0.5
        probs /= probs.sum(1, keepdims=True)
    y = np.minimum((rng.rand(n, 1) > np.cumsum(probs, 1)).sum(1), C - 1)
    return probs, y


def split_of(y, C):
    X = np.arange(len(y), dtype=float)[:, None]
    task = "binary" if C == 2 else "multiclass"
    names = tuple(f"class {c}" for c in range(C))
    empty = np.zeros((2, 1))
    return Split.from_arrays(empty, empty, X, y[:, None], task=task, n_classes=C, classes=names)


def score(probs, y, **changes):
    predict = lambda X, samples, seed: Predictive(probs=probs[X[:, 0].astype(int)])  # noqa: E731
    return evaluate(predict, split_of(y, probs.shape[1]), PROTOCOL | changes, seed=0)


@pytest.mark.parametrize("C,coarse", [(2, False), (2, True), (4, False), (4, True)])
def test_metrics_equal_scikit_learn(C, coarse):
    probs, y = case(2300, C, coarse=coarse)  # more than two chunks
    found = score(probs, y).metrics
    assert found["test_loglik"] == pytest.approx(-log_loss(y, probs), rel=1e-12)
    right = [float(max(range(C), key=lambda c: p[c]) == t) for p, t in zip(probs, y, strict=True)]
    assert found["test_accuracy"] == pytest.approx(np.mean(right), rel=1e-12)
    assert found["test_error"] == pytest.approx(1 - np.mean(right), rel=1e-12)
    if C == 2:
        assert found["test_auc"] == pytest.approx(roc_auc_score(y, probs[:, 1]), rel=1e-12)
        assert found["test_brier"] == pytest.approx(brier_score_loss(y, probs[:, 1]), rel=1e-12)
    else:
        assert found["test_auc"] == pytest.approx(roc_auc_score(y, probs, multi_class="ovr"), rel=1e-12)
        squares = [sum((p[c] - (c == t)) ** 2 for c in range(C)) for p, t in zip(probs, y, strict=True)]
        assert found["test_brier"] == pytest.approx(np.mean(squares), rel=1e-12)


def test_auc_is_the_share_of_pairs_in_order():
    probs, y = case(60, 2, coarse=True)
    pairs = [(a > b) + 0.5 * (a == b) for a in probs[y == 1, 1] for b in probs[y == 0, 1]]
    assert auc(probs, y) == pytest.approx(np.mean(pairs), rel=1e-12)


def test_auc_averages_over_the_classes_among_the_test_rows():
    probs, y = case(80, 4)
    y = np.where(y == 3, 0, y)
    expected = np.mean([roc_auc_score(y == c, probs[:, c]) for c in range(3)])
    assert auc(probs, y) == pytest.approx(expected, rel=1e-12)
    assert auc(probs, np.zeros(80, int)) is None
    assert score(probs, np.zeros(80, int)).metrics["test_auc"] is None


def test_reliability_bins_by_hand():
    """Bins are open below and closed above: 0.6 = 9/15 lies in the ninth."""
    p = np.array([0.5, 0.6, 0.6000001, 0.95, 1.0, 1.0])
    probs, y = np.column_stack([p, 1 - p]), np.array([0, 1, 0, 0, 0, 1])
    bins = reliability_bins(probs, y)
    assert len(bins["count"]) == CONFIDENCE_BINS == 15 and sum(bins["count"]) == 6
    assert bins["count"][7:10] == [1, 1, 1] and bins["count"][14] == 3
    assert bins["accuracy"][8] == 0.0 and bins["confidence"][14] == pytest.approx((0.95 + 2) / 3)
    assert bins["confidence"][0] is None
    expected = (abs(1 - 0.5) + abs(0 - 0.6) + abs(1 - 0.6000001) + 3 * abs(2 / 3 - 2.95 / 3)) / 6
    assert calibration_error(bins) == pytest.approx(expected, rel=1e-12)


def test_calibration_error_of_a_calibrated_model_vanishes():
    probs, y = case(200_000, 3)  # the error of 15 bins is of the order of 0.002
    assert calibration_error(reliability_bins(probs, y)) < 0.01
    sharper = probs**3 / (probs**3).sum(1, keepdims=True)
    assert calibration_error(reliability_bins(sharper, y)) > 0.1


def test_probability_zero_counts_as_the_smallest_number_and_is_told():
    probs = np.array([[1.0, 0.0], [0.5, 0.5], [0.25, 0.75]])
    out = score(probs, np.array([1, 1, 1]))
    assert out.metrics["test_loglik"] == pytest.approx((np.log(2.2250738585072014e-308) + np.log(0.375)) / 3)
    assert out.details["zero_probability_rows"] == 1
    (note,) = out.notes
    assert note.startswith("1 of 3 test rows have a class that was given probability 0")
    assert score(probs, np.array([0, 1, 1])).notes == ()


def test_predictions_and_details():
    probs, y = case(1200, 3)
    out = score(probs, y, max_test=1100)
    assert list(out.predictions) == ["row", "y", "predicted", "p_0", "p_1", "p_2"] and out.draws is None
    kept = np.column_stack([out.predictions[f"p_{c}"] for c in range(3)])
    assert np.array_equal(kept, probs[:1100]) and np.array_equal(out.predictions["y"], y[:1100])
    assert np.array_equal(out.predictions["predicted"], probs[:1100].argmax(1))
    assert np.array_equal(out.predictions["row"], 2 + np.arange(1100))
    assert out.details["classes"] == ["class 0", "class 1", "class 2"]
    assert brier(kept, y[:1100]) == out.metrics["test_brier"]


@pytest.mark.parametrize("probs", [[[0.5, 0.6]], [[1.5, -0.5]], [[np.nan, 1.0]]])
def test_what_is_no_probability_is_refused(probs):
    with pytest.raises(Diverged, match="probabilities are negative or do not sum to 1|not finite"):
        score(np.array(probs), np.array([0]))


def test_wrong_kind_and_wrong_number_of_classes():
    y = np.array([0, 1, 2])
    with pytest.raises(ValueError, match="returned numbers \\(mixture\\), expected Predictive\\(probs=\\)"):
        one = np.ones((1, 3, 1))
        evaluate(lambda X, samples, seed: Predictive(mean=one, var=one), split_of(y, 3), PROTOCOL, 0)
    with pytest.raises(ValueError, match="shape \\(3, 2\\), expected \\(3, 3\\)"):
        evaluate(lambda X, s, seed: Predictive(probs=np.full((3, 2), 0.5)), split_of(y, 3), PROTOCOL, 0)
