"""Verdicts: whether a cell of ours is equivalent to the published number, different from it, or undecided.

A cell is *equivalent* if |difference| + 1.645 standard errors is at most the margin: then the 90 % interval
of the difference lies within it. It is *different* if the interval lies outside, and *undecided* if it
contains the margin's end. Ours must rest on as many runs as print; with fewer, it is never equivalent, and
Student's quantile replaces 1.645 for a difference, since few runs leave the standard error uncertain.

The margin is 0.1 nat for log-likelihoods and bounds. If predictive distributions are Gaussian and calibrated,
a log-likelihood is a constant minus the logarithm of the RMSE, so 0.1 nat corresponds to 10 % of an RMSE; the
same holds for CRPS and variances. Accuracies, error rates and AUC have 0.01, one percentage point.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from dgpbench.evaluate.metric_table import known_metrics
from dgpbench.papers.paper_table import Table
from dgpbench.papers.published import Published
from dgpbench.papers.specs import Place
from dgpbench.report.rules import PRINTED_ZERO, Summary

Z = 1.645  # 95 % quantile of the standard normal distribution
STUDENT = (  # the same of Student's t with 1 to 30 degrees of freedom
    *(6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812),
    *(1.796, 1.782, 1.771, 1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725),
    *(1.721, 1.717, 1.714, 1.711, 1.708, 1.706, 1.703, 1.701, 1.699, 1.697),
)
MARGIN, SHARE_MARGIN = 0.1, 0.01  # nat or share of the printed value; share of test rows
SHARES = ("test_accuracy", "test_error", "test_auc", "test_brier", "test_ece")
EQUIVALENT, DIFFERENT, UNDECIDED, EXPLAINED = KINDS = ("equivalent", "different", "undecided", "explained")
UNJUDGED = "no error"  # print gives no standard error
OTHERS = "community"  # contains records of others, which nobody has rerun
MOST_RUNS = 10_000  # more are as good as no number


class Verdict(NamedTuple):
    """Verdict on a cell, with the numbers that it rests on."""

    kind: str  # one of KINDS, UNJUDGED or OTHERS
    margin: float = math.nan
    furthest: float = math.nan  # |difference| + 1.645 standard errors
    runs: int | None = None  # of ours that would decide an undecided cell; None if no number would

    @property
    def text(self) -> str:
        """The kind, with the number of runs that would decide."""
        if self.kind != UNDECIDED:
            return self.kind
        return f"undecided ({self.runs} runs)" if self.runs else "undecided (print too uncertain)"

    @property
    def is_close(self) -> bool:
        """Whether the cell is equivalent within half the margin too."""
        return self.kind == EQUIVALENT and self.furthest <= self.margin / 2


def margin_of(place: Place, printed: float) -> float:
    """Return the margin of a cell in the units of its table."""
    metric = known_metrics().get(place.metric or "")
    if metric and metric.units.startswith("nat"):
        return MARGIN * abs(place.scale)
    if place.metric in SHARES:
        return SHARE_MARGIN * abs(place.scale)
    return MARGIN * abs(printed)


def judge(ours: Summary, found: Published, margin: float, expected: int | None = None) -> Verdict:
    """Compare our mean with a published one.

    Parameters
    ----------
    ours : Summary
        Mean over our runs with its standard error.
    found : Published
        The printed number. An error printed as 0.00 counts as 0.005, which it is below.
    margin : float
        Largest difference that counts as none.
    expected : int, optional
        Runs that ours should have if print does not state its own number.
    """
    gap = abs(ours.mean - found.value)
    if found.error is None or not math.isfinite(gap):
        return Verdict(UNJUDGED)
    printed, runs, n = found.error or PRINTED_ZERO, found.runs or 1, ours.n
    needed = found.runs or expected or n
    own = None if ours.error is None else ours.error * math.sqrt(n)  # deviation of single runs
    theirs = printed * math.sqrt(runs) if runs > 1 else None
    spread = own if own is not None else theirs
    if spread is None:
        return Verdict(UNDECIDED, margin, runs=max(needed, 2))
    error = math.hypot(spread / math.sqrt(n), printed)
    furthest = gap + Z * error
    if n >= needed and furthest <= margin:
        return Verdict(EQUIVALENT, margin, furthest)
    if gap - Z * error > margin and (n >= needed or gap - _few_runs(own, theirs, n, printed, runs) > margin):
        return Verdict(DIFFERENT, margin, furthest)
    room = (abs(margin - gap) / Z) ** 2 - printed**2  # squared standard error that ours may have
    deciding = spread**2 / room if room > 0 else math.inf
    runs_needed = max(math.ceil(deciding), needed) if deciding <= MOST_RUNS else None
    return Verdict(UNDECIDED, margin, furthest, runs_needed)


def _few_runs(own: float | None, theirs: float | None, n: int, printed: float, runs: int) -> float:
    """Return the half-width of the difference's 90 % interval by Student's t with Welch's degrees of freedom.

    Single runs of ours are taken to vary at least as much as those behind the printed error.
    """
    spread = max(own or 0.0, theirs or 0.0)
    freedom = n - 1 if spread == own else runs - 1
    error = spread / math.sqrt(n)
    combined = math.hypot(error, printed)
    uncertain = error**4 / freedom + (printed**4 / (runs - 1) if runs > 1 else 0.0)
    most = len(STUDENT)
    return combined * STUDENT[int(min(combined**4 / uncertain, most) if uncertain else most) - 1]


def verdict(table: Table, at: tuple[str, str]) -> Verdict | None:
    """Return the verdict on a cell; None if ours or a reliable printed number is missing.

    A different cell is explained if its table's file states the cause: with a variant, if the mean of the
    variant's runs, which differ in that cause, is within the margin.
    """
    cell, ours = table.cells[at], table.ours(*at)
    found = cell.published
    if ours is None or found is None or found.doubtful:
        return None
    if cell.community:
        return Verdict(OTHERS)
    margin = margin_of(cell.place, found.value)
    result = judge(ours, found, margin, cell.expected)
    if result.kind == DIFFERENT and (cause := table.explaining.get(at)):
        mean = cause.mean
        if mean is None or abs(mean - found.value) <= margin:
            return result._replace(kind=EXPLAINED)
    return result


def counts(verdicts: Iterable[Verdict | None]) -> dict[str, int]:
    """Count the compared cells of each kind, those within half the margin and those not judged."""
    given = [found for found in verdicts if found]
    kinds = Counter(found.kind for found in given)
    return {
        "compared": sum(kinds[kind] for kind in KINDS),
        EQUIVALENT: kinds[EQUIVALENT],
        "within half": sum(found.is_close for found in given),
        DIFFERENT: kinds[DIFFERENT],
        UNDECIDED: kinds[UNDECIDED],
        EXPLAINED: kinds[EXPLAINED],
        "no printed error": kinds[UNJUDGED],
    }
