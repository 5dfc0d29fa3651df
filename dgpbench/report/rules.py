"""The rules of the tables: mean and standard error, overlap with the best, differences and ranks over pairs.

Values come as a frame with columns row, column, split, value: one line per dataset-split pair and model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

NON_GAUSSIAN = 0.99  # italics where the median Shapiro W is below
PRINTED_ZERO = 0.005  # an error printed as 0.00 is below this


class Summary(NamedTuple):
    """A mean over `n` splits."""

    mean: float
    error: float | None  # standard error; None for one value
    n: int


def summarise(values: Iterable[float], test_ratio: float = 0.0) -> Summary | None:
    """Return the mean over splits and its standard error, sqrt((1/n + test_ratio) var), var with n - 1.

    A `test_ratio` of 0 gives the papers' form. Test rows per training row give the correction of Nadeau and
    Bengio (2003) for splits that share rows.
    """
    found = [float(value) for value in values]
    n = len(found)
    if not n:
        return None
    mean = math.fsum(found) / n
    squares = math.fsum((value - mean) ** 2 for value in found)
    if n == 1:
        return Summary(mean, None, n)
    plain = math.sqrt(squares / (n - 1) / n)
    return Summary(mean, plain * math.sqrt(1 + n * test_ratio) if test_ratio else plain, n)


def overlapping(summaries: Mapping[str, Summary | None], better: str) -> set[str]:
    """Columns whose bars (mean +- standard error) overlap that of the best mean. No error counts as 0."""
    sign = 1.0 if better == "higher" else -1.0
    found = {name: s for name, s in summaries.items() if s is not None and not math.isnan(s.mean)}
    if not found:
        return set()
    best = max(found.values(), key=lambda s: sign * s.mean)
    floor = sign * best.mean - (best.error or 0.0)
    # half a unit of the tenth digit, so that bars which touch in print also touch in binary
    return {
        name
        for name, s in found.items()
        if sign * s.mean + (s.error or 0.0) >= floor - 1e-10 * (1 + abs(floor))
    }


def median_difference(frame: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Median over common dataset-split pairs of value minus baseline: columns median, n; by column."""
    import pandas as pd

    wide = _wide(frame)
    if baseline not in wide:
        return pd.DataFrame(columns=["median", "n"], dtype=float)
    gap = wide.sub(wide[baseline], axis=0)
    gap[baseline] = wide[baseline] * 0  # 0 also where the baseline is infinite
    return pd.DataFrame({"median": gap.median(), "n": gap.count()})


def average_ranks(frame: pd.DataFrame, better: str) -> pd.DataFrame:
    """Mean rank over the pairs that every column has, its standard error, and their number: mean, error, n.

    Ranks ascend: the best of k has k. Ties share the mean of their ranks.
    """
    import pandas as pd

    wide = _wide(frame).dropna()
    ranks = wide.rank(axis=1, ascending=better == "higher")
    return pd.DataFrame({"mean": ranks.mean(), "error": ranks.sem(), "n": ranks.count()})


def _wide(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.pivot(index=["row", "split"], columns="column", values="value")


class Difference(NamedTuple):
    """Ours minus published, plainly and in combined standard errors (None where an error is not known)."""

    value: float
    error: float | None
    ratio: float | None


def difference(ours: Summary, value: float, error: float | None) -> Difference | None:
    """Ours minus a printed value; None where one side is infinite or not a number."""
    gap = ours.mean - value
    if not math.isfinite(gap):
        return None
    if ours.error is None or error is None:
        return Difference(gap, None, None)
    combined = math.hypot(ours.error, error or PRINTED_ZERO)
    return Difference(gap, combined, gap / combined)
