"""Verdicts: whether a cell of ours agrees with print, given both errors and few splits.

A gap counts as within k = 2 or 3 combined standard errors if it is below the quantile of Student's t that has
the probability of k standard deviations, with Welch's degrees of freedom: with three splits 2 becomes up to
4.5. For a single split of ours, the spread of single splits is taken from the printed error and its number of
runs. An error printed as 0.00 counts as 0.005, which it is below; there 0.05 nat is agreement too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from dgpbench.report.cells import Cell
from dgpbench.report.published import Published
from dgpbench.report.rules import PRINTED_ZERO, Summary, summarise
from dgpbench.report.student import upper_tail
from dgpbench.report.table import Table

SLACK = 0.05  # nat, where the printed error is 0.00
NORMAL = {2: 0.9772498680518208, 3: 0.9986501019683699}  # probability below k standard deviations
JUDGED = ("within 2", "within 3", "explained", "open")
UNJUDGED = "no error"
OTHERS = "community"  # records of others are in it: not ours to count


class Gap(NamedTuple):
    """Ours minus print with its combined standard error and degrees of freedom."""

    value: float
    error: float
    freedom: float

    def plainly(self, k: int) -> bool:
        """Whether the gap is within k standard errors as they are."""
        return abs(self.value) <= k * self.error

    def within(self, k: int) -> bool:
        if self.plainly(k):  # the quantile of Student's t is never less
            return True
        if not math.isfinite(self.freedom) or not self.error:
            return False
        return upper_tail(abs(self.value) / self.error, self.freedom) >= 1.0 - NORMAL[k]


def gap(ours: Summary, found: Published) -> Gap | None:
    """None where print gives no standard error, or a number is not finite."""
    if found.error is None or not math.isfinite(ours.mean - found.value):
        return None
    printed = found.error or PRINTED_ZERO
    others = found.runs - 1 if found.runs and found.runs > 1 else math.inf
    if ours.error is None:
        if not found.runs or found.runs < 2:
            return None
        spread = printed * math.sqrt(found.runs)
        return Gap(ours.mean - found.value, math.hypot(spread, printed), others)
    combined = math.hypot(ours.error, printed)
    freedom = combined**4 / (ours.error**4 / (ours.n - 1) + printed**4 / others)
    return Gap(ours.mean - found.value, combined, freedom)


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
    return agreement(cell, ours, found) == "within 2" and not _by_few(cell, ours, found, 2)


def by_few(table: Table, at: tuple[str, str]) -> bool:
    """Whether a cell is within 2 or 3 only because few splits leave its own error uncertain: the gap is
    larger than so many standard errors, but below Student's quantile."""
    cell, found = table.cells[at], verdict(table, at)
    if found not in ("within 2", "within 3"):
        return False
    return _by_few(cell, table.ours(*at), cell.published, 2 if found == "within 2" else 3)


def _by_few(cell: Cell, ours: Summary | None, found: Published | None, k: int) -> bool:
    between = None if ours is None or found is None else gap(ours, found)
    if between is None or found is None or _within_slack(cell, found, between):
        return False
    return not between.plainly(k)


def counts(verdicts: Iterable[tuple[str | None, bool]]) -> dict[str, int]:
    """Cells compared, within 2 combined standard errors, how many of these by few splits only (`by_few`),
    within 3, explained and open; not judged.

    Every compared cell is within 2, explained or open; those within 3 are said besides."""
    verdicts = list(verdicts)
    found = Counter(kind for kind, _ in verdicts)
    judged = sum(found[kind] for kind in JUDGED)
    return {
        "compared": judged,
        "within 2 s.e.": found["within 2"],
        "by few splits": sum(few for kind, few in verdicts if kind == "within 2"),
        "within 3 s.e.": found["within 2"] + found["within 3"],
        "explained": found["explained"],
        "open": found["within 3"] + found["open"],
        "no printed error": found[UNJUDGED],
    }
