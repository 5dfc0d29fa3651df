"""The metrics that a comparison may be about: name, units, which way is better."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dgpbench.config.schema import NUMBERS
from dgpbench.config.suggest import did_you_mean
from dgpbench.errors import UserError

NAT = "nat per test point"
OF_CLASSES = ("test_accuracy", "test_error", "test_auc", "test_brier", "test_ece")
OF_NUMBERS = (
    *(f"test_{name}{units}" for name in ("rmse", "crps", "loglik_kde") for units in ("", "_std")),
    *("test_coverage95", "test_pit_ks"),
)


class Metric(NamedTuple):
    """What a metric of a record is called, and which way it is better."""

    name: str
    title: str
    units: str
    better: str | None  # higher, lower; None where neither is
    ratio: bool = False  # of the data's own scale: differences are taken between logarithms


def _with_units(name: str, title: str, units: str, better: str, ratio: bool = False) -> list[Metric]:
    """A metric in original and in standardised units."""
    begin = f"{units}, " if units else ""
    return [
        Metric(name, title, f"{begin}original units", better, ratio),
        Metric(f"{name}_std", title, f"{begin}standardised units", better, ratio),
    ]


METRICS = {
    metric.name: metric
    for metric in (
        *_with_units("test_loglik", "Test log-likelihood", NAT, "higher"),
        Metric("test_loglik_per_pixel", "Test log-likelihood", "nat per pixel", "higher"),
        Metric("train_loglik", "Log-likelihood of the training images", "nat per image", "higher"),
        Metric("likelihood_variance", "Variance of the noise", "", None),
        *_with_units("test_loglik_kde", "Test log-likelihood by kernel density estimate", NAT, "higher"),
        *_with_units("test_rmse", "Test RMSE", "", "lower", ratio=True),
        *_with_units("test_crps", "Test CRPS", "", "lower", ratio=True),
        Metric("test_coverage95", "Coverage of the 95 % interval", "share of test rows", None),
        Metric("test_pit_ks", "Distance of PIT values from uniform", "Kolmogorov-Smirnov", "lower"),
        Metric("shapiro_w_median", "Shapiro-Wilk W of the predictions, median", "", None),
        Metric("test_accuracy", "Test accuracy", "share of test rows", "higher"),
        Metric("test_error", "Test error rate", "share of test rows", "lower"),
        Metric("test_auc", "Area under the ROC curve", "", "higher"),
        Metric("test_brier", "Brier score", "", "lower"),
        Metric("test_ece", "Expected calibration error", "15 bins of confidence", "lower"),
        Metric("test_kl_to_truth", "Divergence from the true density", NAT, "lower"),
        Metric("elbo", "Bound on the log evidence", "nat", "higher"),
        *(Metric(f"var_f{i}_at_0", f"Variance of layer {i} at 0", "", None) for i in (1, 2, 3)),
    )
}


def find_metric(name: str, recorded: Iterable[str] = ()) -> Metric:
    """The metric of a name, with or without `test_`; UserError names the nearest of those known."""
    recorded = list(recorded)
    for full in (name, f"test_{name}"):
        if full in METRICS:
            return METRICS[full]
        if full in recorded:
            return Metric(full, full, "", None)
    known = {*METRICS, *recorded}
    hint = did_you_mean(name, known) or did_you_mean(name, {full.removeprefix("test_") for full in known})
    hint = hint or "; such as loglik, rmse, crps, accuracy"
    raise UserError(f"no metric '{name}'{hint}")


def check_task(metric: Metric, dataset: str, task: str) -> None:
    """UserError if runs on a dataset of this task never have the metric."""
    numbers = task in NUMBERS
    if metric.name in (OF_CLASSES if numbers else OF_NUMBERS):
        what = "classes" if numbers else "quantities"
        rest = "loglik, rmse, crps" if numbers else "loglik, accuracy, brier, ece"
        raise UserError(
            f"{metric.name} is a metric of {what}, and the task of {dataset} is {task}; use {rest}"
        )


def unit_words(metric: Metric, tasks: Iterable[str]) -> str:
    """The units, as they are for classes: probabilities have no others."""
    tasks = set(tasks)
    if not metric.name.startswith("test_loglik") or tasks <= set(NUMBERS):
        return metric.units
    mixed = tasks & set(NUMBERS)
    return f"{metric.units}; of classes log probability" if mixed else f"{NAT}, log probability of the class"
