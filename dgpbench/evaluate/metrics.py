"""The metrics: each is declared above the function that computes it. Plug-ins declare theirs so too."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from dgpbench.config.schema import NUMBERS
from dgpbench.evaluate.metric_table import (
    CLASSES,
    HIGHER,
    IMAGES,
    KINDS,
    LOWER,
    NAT,
    NOT_NEGATIVE,
    SHARE,
    metric,
    reported,
)

BINS, CONFIDENCE_BINS = 10, 15  # of a PIT histogram; of the confidence of a classifier, equally wide
QUANTILE_NAMES = [f"q{percent:02d}" for percent in range(1, 100)]  # of predictions
TINY = np.finfo(np.float64).tiny  # a probability of exactly 0 counts as this: log -708.4
LAYER_VARIANCE = re.compile(r"var_f[1-9][0-9]?_at_0")

# ---- log-likelihood ---------------------------------------------------------------------------------------


@metric(
    "test_loglik",
    "Test log-likelihood",
    units=NAT,
    both_units=True,
    better=HIGHER,
    tasks=KINDS,
    short="log-likelihood",
    usual=True,
    estimator=("test_samples",),
)
def loglik(standard_log_density, log_scale):
    """Mean log density; `log_scale` is the log of the targets' scale, 0 in standardised units."""
    return float(standard_log_density.mean()) - log_scale


@metric(
    "test_loglik_per_pixel",
    "Test log-likelihood",
    units="nat per pixel",
    better=HIGHER,
    tasks=(IMAGES,),
    estimator=("test_samples",),
)
def loglik_per_pixel(standard_log_density, log_scale, pixels):
    return loglik(standard_log_density, log_scale) / pixels


@metric(
    "train_loglik",
    "Log-likelihood of the training images",
    units="nat per image",
    better=HIGHER,
    tasks=(IMAGES,),
)
def train_loglik(train_standard_log_density, log_scale):
    return float(train_standard_log_density.mean()) - log_scale


LIKELIHOOD_VARIANCE = reported("likelihood_variance", "Variance of the noise", positive=True)


@metric(
    "test_loglik_kde",
    "Test log-likelihood by kernel density estimate",
    units=NAT,
    both_units=True,
    better=HIGHER,
    short="log-likelihood (KDE)",
    estimator=("draws", "kde_rows"),
    required=(),
)
def loglik_kde(standard_kde, log_scale):
    """The estimate by which thesis table 5.1 was made (draws.py)."""
    return float(standard_kde.mean()) - log_scale


@metric(
    "test_loglik_mc_se",
    "Monte Carlo standard error of the test log-likelihood",
    units=NAT,
    tasks=(*NUMBERS, IMAGES),
    span=NOT_NEGATIVE,
    short="log-likelihood, Monte Carlo s.e.",
    required=(),
)
def loglik_mc_se(mc_se):
    return mc_se


@metric(
    "train_loglik_mc_se",
    "Monte Carlo standard error of the training log-likelihood",
    units="nat per image",
    tasks=(IMAGES,),
    span=NOT_NEGATIVE,
    required=(),
)
def train_loglik_mc_se(train_mc_se):
    return train_mc_se


# ---- numbers ----------------------------------------------------------------------------------------------


@metric(
    "test_rmse",
    "Test RMSE",
    both_units=True,
    better=LOWER,
    ratio=True,
    tasks=(*NUMBERS, IMAGES),
    span=NOT_NEGATIVE,
    positive=True,
    short="RMSE",
    usual=True,
)
def rmse(squared_error):
    return np.sqrt(np.mean(squared_error))


@metric(
    "test_crps",
    "Test CRPS",
    both_units=True,
    better=LOWER,
    ratio=True,
    span=NOT_NEGATIVE,
    positive=True,
    short="CRPS",
)
def mean_crps(crps):
    return np.mean(crps)


@metric(
    "test_coverage95",
    "Coverage of the 95 % interval",
    units="share of test rows",
    span=SHARE,
    short="coverage of the 95 % interval",
)
def coverage95(pit):
    return coverage(pit, 0.95)


def coverage(pit: np.ndarray, level: float = 0.95) -> float:
    """Share of observations inside the central interval of the given level."""
    return float((np.abs(pit - 0.5) <= level / 2).mean())


@metric(
    "test_pit_ks",
    "Distance of PIT values from uniform",
    units="Kolmogorov-Smirnov",
    better=LOWER,
    span=SHARE,
    short="PIT distance from uniform",
)
def ks_distance(pit):
    """Kolmogorov-Smirnov distance of the PIT values from the uniform distribution."""
    u = np.sort(pit, axis=None)
    steps = np.arange(len(u) + 1) / len(u)
    return float(max((steps[1:] - u).max(), (u - steps[:-1]).max()))


def pit_histogram(pit: np.ndarray) -> list[float]:
    """Share of PIT values in each of ten equal bins (0.1 each for a calibrated model)."""
    counts = np.histogram(pit, bins=BINS, range=SHARE)[0]
    return [float(c) / pit.size for c in counts]


@metric(
    "shapiro_w_median",
    "Shapiro-Wilk W of the predictions, median",
    span=SHARE,
    short="Shapiro-Wilk W (median)",
    required=("regression",),
)
def shapiro_w_median(shapiro_w):
    return float(np.median(shapiro_w))


# ---- classes ----------------------------------------------------------------------------------------------


@metric(
    "test_accuracy",
    "Test accuracy",
    units="share of test rows",
    better=HIGHER,
    tasks=CLASSES,
    span=SHARE,
    short="accuracy",
    usual=True,
)
def accuracy(probs, labels):
    return float((probs.argmax(1) == labels).mean())


@metric(
    "test_error",
    "Test error rate",
    units="share of test rows",
    better=LOWER,
    tasks=CLASSES,
    span=SHARE,
    short="error rate",
)
def error_rate(probs, labels):
    return float((probs.argmax(1) != labels).mean())


@metric(
    "test_auc",
    "Area under the ROC curve",
    better=HIGHER,
    tasks=CLASSES,
    span=SHARE,
    short="AUC",
    usual=True,
    required=(),
)
def auc(probs, labels):
    """Area under the ROC curve: of class 1 where there are two, else the mean over one-vs-rest curves of the
    classes among the test rows. None where there is no curve: all rows are of one class."""
    C = probs.shape[1]
    scores = [_auc_one(probs[:, c], labels == c) for c in ([1] if C == 2 else range(C))]
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


@metric(
    "test_brier",
    "Brier score",
    better=LOWER,
    tasks=CLASSES,
    span=NOT_NEGATIVE,
    short="Brier score",
)
def brier(probs, labels):
    """Mean squared distance to the one-hot label, summed over classes; of two classes, of class 1 only."""
    squares = (probs - np.eye(probs.shape[1])[labels]) ** 2
    return float(squares[:, 1].mean() if probs.shape[1] == 2 else squares.sum(1).mean())


@metric(
    "test_ece",
    "Expected calibration error",
    units="15 bins of confidence",
    better=LOWER,
    tasks=CLASSES,
    span=SHARE,
    short="calibration error",
)
def calibration_error(reliability):
    """ECE: |accuracy - confidence| of the bins, averaged over rows."""
    total = sum(reliability["count"])
    lines = zip(*(reliability[name] for name in ("count", "confidence", "accuracy")), strict=True)
    gaps = (n * abs(accuracy - confidence) for n, confidence, accuracy in lines if n)
    return float(sum(gaps) / total)


def reliability_bins(probs: np.ndarray, labels: np.ndarray) -> dict[str, list]:
    """Per bin of the largest probability, (0, 1/15], ... (14/15, 1]: rows, mean confidence, accuracy."""
    confidence, right = probs.max(1), probs.argmax(1) == labels
    which = np.clip(np.ceil(confidence * CONFIDENCE_BINS).astype(int) - 1, 0, CONFIDENCE_BINS - 1)
    count = np.bincount(which, minlength=CONFIDENCE_BINS)
    parts = (confidence, right.astype(float))
    sums = [np.bincount(which, weights=w, minlength=CONFIDENCE_BINS) for w in parts]
    means = [[float(s) / int(n) if n else None for s, n in zip(part, count, strict=True)] for part in sums]
    return {"count": [int(n) for n in count], "confidence": means[0], "accuracy": means[1]}


def class_inputs(probs: np.ndarray, labels: np.ndarray, bins: dict[str, list]) -> dict[str, Any]:
    """Inputs of class probabilities (N, C) for labels (N,), given their reliability."""
    truth = np.maximum(probs[np.arange(len(labels)), labels], TINY)
    log_density = np.log(truth)
    named = {"probs": probs, "labels": labels, "reliability": bins, "log_density": log_density}
    return named | {"standard_log_density": log_density, "log_scale": 0.0}


# ---- generated data, counts, and what models report --------------------------------------------------------


@metric(
    "test_kl_to_truth",
    "Divergence from the true density",
    units=NAT,
    better=LOWER,
    short="divergence from the truth",
    generated=True,
    required=(),
)
def kl_to_truth(true_log_density, log_density):
    """Mean of log p_true(y) - log p_model(y) over test points."""
    return (true_log_density - log_density).mean()


@metric(
    "test_kl_to_truth_se",
    "Standard error of the divergence from the true density",
    units=NAT,
    span=NOT_NEGATIVE,
    short="divergence from the truth, s.e.",
    generated=True,
    required=(),
)
def kl_to_truth_se(true_log_density, log_density):
    """Its standard error over points."""
    gap = true_log_density - log_density
    return gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else None


ELBO = reported("elbo", "Bound on the log evidence", "nat", HIGHER)
LAYER_VARIANCES = [reported(f"var_f{i}_at_0", f"Variance of layer {i} at 0") for i in (1, 2, 3)]
ELBO_SE = reported("elbo_se", "Monte Carlo standard error of the bound", "nat", span=NOT_NEGATIVE)


@metric("test_deviance", "Mean Poisson deviance", better=LOWER, tasks=("counts",))
def deviance(standard_mean, standard_y):
    """Mean Poisson deviance 2 (y log(y / mean) - y + mean)."""
    ratio = np.where(standard_y > 0, standard_y, 1.0) / np.maximum(standard_mean, np.finfo(float).tiny)
    return float(
        np.mean(
            2.0 * (np.where(standard_y > 0, standard_y * np.log(ratio), 0.0) - standard_y + standard_mean)
        )
    )


# ---- names, for modules that ask for one metric -----------------------------------------------------------

RMSE, CRPS, SHAPIRO, KL_TO_TRUTH = "test_rmse", "test_crps", "shapiro_w_median", "test_kl_to_truth"
LOGLIK_KDE, LOGLIK_PER_PIXEL = "test_loglik_kde", "test_loglik_per_pixel"
ACCURACY, ERROR_RATE, AUC = "test_accuracy", "test_error", "test_auc"
BRIER, ECE = "test_brier", "test_ece"
COVERAGE, PIT_KS = "test_coverage95", "test_pit_ks"
