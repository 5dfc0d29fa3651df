"""The classification metrics: class probabilities chunk by chunk, scores and reliability at the end."""

from __future__ import annotations

import numpy as np

from dgpbench.evaluate.predictive import Predictive

BINS = 15  # equal-width bins of confidence
TINY = np.finfo(np.float64).tiny  # a probability of exactly 0 counts as this: log -708.4


class ClassScorer:
    """Scores chunks of class probabilities; `finish` gives metrics, details, tables and notes."""

    def __init__(self, split, protocol: dict, seed: int, num_rows: int, threads: int = 1) -> None:
        self.num_classes, self.classes = split.n_classes, list(split.classes)
        self.num_samples = protocol["test_samples"]
        self.parts: list[np.ndarray] = []
        self.notes: list[str] = []

    def samples_for(self, predictive: Predictive) -> int:
        return self.num_samples

    def add(self, predictive: Predictive, Y: np.ndarray, offset: int, terms: None = None) -> None:
        """Keep the probabilities of the next rows."""
        self.parts.append(predictive.probs)

    def finish(self, X: np.ndarray, Y: np.ndarray, rows: np.ndarray) -> tuple[dict, dict, dict, None]:
        """(metrics, details, predictions, no draws) once all rows are in."""
        probs, y = np.concatenate(self.parts), Y[:, 0].astype(int)
        truth = probs[np.arange(len(y)), y]
        if zero := int(np.count_nonzero(truth == 0)):
            self.notes.append(
                f"{zero} of {len(y)} test rows have a class that was given probability 0: their log-"
                f"likelihood counts as {np.log(TINY):.1f} each"
            )
        bins = reliability(probs, y)
        metrics = scores(probs, y, bins)
        details = {"classes": self.classes, "zero_probability_rows": zero, "reliability": bins}
        return metrics, details, self._predictions(probs, y, rows), None

    def _predictions(self, probs: np.ndarray, y: np.ndarray, rows: np.ndarray) -> dict[str, np.ndarray]:
        """One line per test row: its class, the most probable one and all probabilities."""
        table = {
            "row": np.asarray(rows, dtype=np.int64),
            "y": y.astype(np.int32),
            "predicted": probs.argmax(1).astype(np.int32),
        }
        return table | {f"p_{c}": probs[:, c] for c in range(probs.shape[1])}


def scores(probs: np.ndarray, y: np.ndarray, bins: dict[str, list]) -> dict[str, float | None]:
    """The metrics of class probabilities (N, C) for labels (N,), given their reliability."""
    return {
        "test_loglik": float(np.log(np.maximum(probs[np.arange(len(y)), y], TINY)).mean()),
        "test_accuracy": float((probs.argmax(1) == y).mean()),
        "test_error": float((probs.argmax(1) != y).mean()),
        "test_auc": auc(probs, y),
        "test_brier": brier(probs, y),
        "test_ece": calibration_error(bins),
    }


def auc(probs: np.ndarray, y: np.ndarray) -> float | None:
    """Area under the ROC curve: of class 1 where there are two, else the mean over one-vs-rest curves of the
    classes among the test rows. None where there is no curve: all rows are of one class."""
    C = probs.shape[1]
    scores = [_auc_one(probs[:, c], y == c) for c in ([1] if C == 2 else range(C))]
    found = [score for score in scores if score is not None]
    return float(np.mean(found)) if found else None


def _auc_one(score: np.ndarray, positive: np.ndarray) -> float | None:
    """P(a positive scores above a negative), ties counted half: the Mann-Whitney statistic."""
    from scipy.stats import rankdata  # slow to import, and for classes only

    P = np.count_nonzero(positive)
    N = len(positive) - P
    if not P or not N:
        return None
    return float((rankdata(score)[positive].sum() - P * (P + 1) / 2) / (P * N))


def brier(probs: np.ndarray, y: np.ndarray) -> float:
    """Mean squared distance to the one-hot label, summed over classes; of two classes, of class 1 only."""
    squares = (probs - np.eye(probs.shape[1])[y]) ** 2
    return float(squares[:, 1].mean() if probs.shape[1] == 2 else squares.sum(1).mean())


def reliability(probs: np.ndarray, y: np.ndarray) -> dict[str, list]:
    """Per bin of the largest probability, (0, 1/15], ... (14/15, 1]: rows, mean confidence, accuracy."""
    confidence, right = probs.max(1), probs.argmax(1) == y
    which = np.clip(np.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)
    count = np.bincount(which, minlength=BINS)
    sums = [np.bincount(which, weights=w, minlength=BINS) for w in (confidence, right.astype(float))]
    means = [[float(s) / int(n) if n else None for s, n in zip(part, count, strict=True)] for part in sums]
    return {"count": [int(n) for n in count], "confidence": means[0], "accuracy": means[1]}


def calibration_error(bins: dict[str, list]) -> float:
    """ECE: |accuracy - confidence| of the bins, averaged over rows."""
    total = sum(bins["count"])
    lines = zip(bins["count"], bins["confidence"], bins["accuracy"], strict=True)
    gaps = (n * abs(accuracy - confidence) for n, confidence, accuracy in lines if n)
    return float(sum(gaps) / total)
