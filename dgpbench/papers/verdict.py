"""Verdicts: whether a cell of ours agrees with print, given both errors and few splits.

A gap is within k = 2 or 3 if it is at most k combined standard errors. With few splits our error is itself
uncertain: a gap is within k too if it is below the quantile of Student's t of the same probability, with
Welch's degrees of freedom (up to 4.5 in place of 2 for three splits, 14 for two), as far as print allows,
whose error and number of runs tell the spread of single runs: it must be below the quantile of Student's
test with one spread for both as well. A single split of ours is judged by that test alone. An error printed
as 0.00 counts as 0.005, which it is below; there 0.05 nat is agreement too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from dgpbench.papers.cells import Cell
from dgpbench.papers.published import Published
from dgpbench.papers.table import Table
from dgpbench.report.rules import PRINTED_ZERO, Summary, summarise

TINY = 1e-300
TERMS = 10_000  # at most, of a continued fraction


def upper_tail(t: float, freedom: float) -> float:
    """P(T > t) for t >= 0: half of the regularised incomplete beta function I_x(freedom / 2, 1 / 2) at
    x = freedom / (freedom + t^2)."""
    x, a, b = freedom / (freedom + t * t), 0.5 * freedom, 0.5
    y = t * t / (freedom + t * t)
    if x in (0.0, 1.0):
        return 0.5 * x
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    front = math.exp(a * math.log(x) + b * math.log(y) - log_beta)
    if x < (a + 1.0) / (a + b + 2.0):  # where the fraction converges quickly
        return 0.5 * front * _fraction(x, a, b) / a
    return 0.5 * (1.0 - front * _fraction(y, b, a) / b)


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of I_x(a, b) without its front factor, by Lentz's method."""
    c, d = 1.0, 1.0 / _kept(1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, TERMS):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / _kept(1.0 + step * d)
            c = _kept(1.0 + step / c)
            value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return value


def _kept(value: float) -> float:
    return value if abs(value) > TINY else TINY


SLACK = 0.05  # nat, where the printed error is 0.00
NORMAL = {2: 0.9772498680518208, 3: 0.9986501019683699}  # probability below k standard deviations
JUDGED = ("within 2", "within 3", "explained", "open")
UNJUDGED = "no error"
FEW, NEAR = "t", "0.05 nat"  # marks of verdicts: Student's t for few splits, SLACK
OTHERS = "community"  # records of others are in it: not ours to count


class Scale(NamedTuple):
    """A standard error of a gap, and its degrees of freedom."""

    error: float
    freedom: float

    def allows(self, gap: float, k: int) -> bool:
        """Whether the gap is below Student's quantile for k; never below k times the error."""
        if gap <= k * self.error or not math.isfinite(self.freedom):
            return gap <= k * self.error
        return upper_tail(gap / self.error, self.freedom) >= 1.0 - NORMAL[k]


class Gap(NamedTuple):
    """Ours minus print with its combined standard error and degrees of freedom; the same if single runs of
    ours and of print had one spread, where print tells its own."""

    value: float
    error: float
    freedom: float
    pooled: Scale | None = None

    def plainly(self, k: int) -> bool:
        """Whether the gap is within k standard errors as they are."""
        return abs(self.value) <= k * self.error

    def within(self, k: int) -> bool:
        if self.plainly(k):
            return True
        scales = (Scale(self.error, self.freedom), self.pooled)
        return all(scale.allows(abs(self.value), k) for scale in scales if scale)


def gap(ours: Summary, found: Published) -> Gap | None:
    """None where print gives no standard error, or a number is not finite."""
    if found.error is None or not math.isfinite(ours.mean - found.value):
        return None
    value, printed, runs = ours.mean - found.value, found.error or PRINTED_ZERO, found.runs or 1
    pooled = _pooled(ours, printed, runs) if runs > 1 else None
    if ours.error is None:
        return Gap(value, *pooled, pooled) if pooled else None
    combined = math.hypot(ours.error, printed)
    uncertain = ours.error**4 / (ours.n - 1) + (printed**4 / (runs - 1) if runs > 1 else 0.0)
    return Gap(value, combined, combined**4 / uncertain if uncertain else math.inf, pooled)


def _pooled(ours: Summary, printed: float, runs: int) -> Scale:
    """Of Student's test with equal spread: ours from n splits, print's from its error and number of runs."""
    n, own = ours.n, ours.error or 0.0
    freedom = n + runs - 2
    variance = ((n - 1) * n * own**2 + (runs - 1) * runs * printed**2) / freedom
    return Scale(math.sqrt(variance * (1 / n + 1 / runs)), freedom)


def agreement(cell: Cell, ours: Summary | None, found: Published | None) -> str | None:
    """One of JUDGED but `explained`, or UNJUDGED; None where there is nothing to compare."""
    if ours is None or found is None or found.doubtful:
        return None
    between = gap(ours, found)
    if between is None:
        return UNJUDGED
    if between.within(2) or _within_slack(cell, found, between):
        return "within 2"
    return "within 3" if between.within(3) else "open"


def _within_slack(cell: Cell, found: Published, between: Gap) -> bool:
    """Whether the printed error is 0.00 and the gap at most 0.05 nat."""
    nats = (cell.place.metric or "").startswith("test_loglik")
    return nats and found.error == 0 and abs(between.value) <= SLACK


def verdict(table: Table, at: tuple[str, str]) -> str | None:
    """The agreement of a cell; one beyond 2 is explained if the run that its spec names agrees with print,
    and not only because it has few splits. Records of others are not judged: nobody has run them again."""
    cell = table.cells[at]
    found = agreement(cell, table.ours(*at), cell.published)
    if found and cell.community:
        return OTHERS
    other = table.explaining.get(at)
    if found in ("within 3", "open") and other and not other.cell.community:
        theirs = summarise(other.cell.values.values())
        if _plain_agreement(other.cell, theirs, cell.published):
            return "explained"
    return found


def _plain_agreement(cell: Cell, ours: Summary | None, found: Published | None) -> bool:
    """Whether a cell is within 2, and not only because it has few splits."""
    return agreement(cell, ours, found) == "within 2" and _allowance(cell, ours, found, 2) != FEW


def mark(table: Table, at: tuple[str, str]) -> str:
    """What a cell owes it to that it is within 2 or 3 although its gap is more standard errors: FEW, splits
    that leave its own error uncertain, or NEAR; '' where it owes nothing."""
    cell, found = table.cells[at], verdict(table, at)
    if found not in ("within 2", "within 3"):
        return ""
    return _allowance(cell, table.ours(*at), cell.published, 2 if found == "within 2" else 3)


def _allowance(cell: Cell, ours: Summary | None, found: Published | None, k: int) -> str:
    between = None if ours is None or found is None else gap(ours, found)
    if between is None or found is None or between.plainly(k):
        return ""
    return NEAR if _within_slack(cell, found, between) else FEW


def counts(verdicts: Iterable[tuple[str | None, str]]) -> dict[str, int]:
    """Cells compared, within 2 combined standard errors, how many of these by few splits only and by 0.05 nat
    only (`mark`), within 3, explained and open; not judged.

    Every compared cell is within 2, explained or open; those within 3 are said besides."""
    verdicts = list(verdicts)
    found = Counter(kind for kind, _ in verdicts)
    why = Counter(reason for kind, reason in verdicts if kind == "within 2")
    judged = sum(found[kind] for kind in JUDGED)
    return {
        "compared": judged,
        "within 2 s.e.": found["within 2"],
        "by few splits": why[FEW],
        "by 0.05 nat": why[NEAR],
        "within 3 s.e.": found["within 2"] + found["within 3"],
        "explained": found["explained"],
        "open": found["within 3"] + found["open"],
        "no printed error": found[UNJUDGED],
    }
