"""Ticks of a logarithmic axis as plain numbers, also where it spans less than a decade."""

from __future__ import annotations

import math
from itertools import pairwise

MOST_TICKS = 4  # labels that fit below a panel
LEAST_GAP = 0.17  # between two of them, as a share of the axis
DIGITS = (range(1, 10), (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,))  # the first that are far enough apart
INNER = (0.2, 0.8)  # shares of an axis on which no round number lies, or one


def plain_log_ticks(axis, low: float, high: float) -> None:
    """Label an axis that is drawn from `low` to `high`."""
    from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

    axis.set_major_locator(FixedLocator(log_ticks(low, high)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def log_ticks(low: float, high: float) -> list[float]:
    """Two to MOST_TICKS round numbers: as many as fit, powers of ten last."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in DIGITS:
        ticks = [float(f"{digit}e{power}") for power in powers for digit in digits]
        ticks = [tick for tick in ticks if low <= tick <= high]
        room = (high / low) ** LEAST_GAP
        apart = all(after >= room * before for before, after in pairwise(ticks))
        if 2 <= len(ticks) <= MOST_TICKS and apart:
            return ticks
    if len(ticks) < 2:
        return [float(f"{low * (high / low) ** share:.2g}") for share in INNER]
    return ticks[:: math.ceil(len(ticks) / MOST_TICKS)]
