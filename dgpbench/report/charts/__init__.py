"""Charts as data: panels of layers of marks. `vega` puts them on a page, `picture` into PNG and PDF files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

Rows = list[dict[str, Any]]
MARKS = ("point", "line", "rule", "area", "rect", "text")


class Nothing(Exception):
    """There is nothing to draw; the message says why."""


@dataclass(frozen=True)
class Axis:
    """An axis: numbers on a linear or logarithmic scale, or names."""

    title: str
    ends: tuple[float, float] | None = None  # lowest and highest value; None: those of the rows
    names: tuple[str, ...] = ()
    log: bool = False
    whole: bool = False  # ticks at whole numbers only


@dataclass(frozen=True)
class Layer:
    """Marks of one kind: one for each row, or a line or area through the rows of each model.

    `x`, `y`, `x2`, `y2` and `text` name fields of the rows; a rule without `x` or `y` crosses the panel.
    """

    mark: str  # one of MARKS
    x: str = "x"
    y: str = "y"
    x2: str = ""
    y2: str = ""
    text: str = ""
    style: str = ""  # of vega.STYLES; '' gives each model its colour and shape
    only: str = ""  # a field: rows in which it is true
    rows: Rows | None = None  # in place of the panel's
    by: str = ""  # a field: its values are lines of one model
    size: float = 0.0  # area of points, width of lines in pixels; 0 for the default
    size_by: str = ""  # a field: areas of points in proportion to it
    colour_by: str = ""  # a field between 0 and 1: shades of rectangles
    hollow: bool = False
    opacity: float = 1.0
    align: str = "left"  # text is to the left or right of its place, or above it
    least_width: int = 0  # of the panel in pixels; text is omitted in a narrower one
    tips: Mapping[str, str] = field(default_factory=dict)  # field: title in the tooltip


@dataclass(frozen=True)
class Panel:
    """A title, two axes and layers over shared rows."""

    title: str
    rows: Rows
    x: Axis
    y: Axis
    layers: tuple[Layer, ...]
    models: tuple[str, ...] = ()  # in the order of their colours
    offset: tuple[str, tuple[str, ...]] | None = None  # a field whose values are below each other at a name
    legend: str = ""  # title of the scale of shades
    wide: bool = False  # takes the whole width of a page


def quantity_lines(label: str) -> list[str]:
    """Split an axis title into two lines: the quantity and its units."""
    name, bracket, units = label.partition(" (")
    return [name, f"({units}"] if bracket else [label]


def thin(count: int, most: int) -> np.ndarray:
    """Return at most `most` of `count` positions, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(int))


FAR_GAP = 8.0  # times the range of the values between the ends


def near_range(values: Sequence[float]) -> tuple[float, float]:
    """Return the range without ends that are far away, even if most values are nearly equal.

    The lowest or highest value is dropped, again and again, while its distance from the next one is more than
    FAR_GAP times the range of the values between the ends.
    """
    found = np.sort(np.asarray(values, float))
    while len(found) > 2:
        gaps = found[1] - found[0], found[-1] - found[-2]
        end = int(np.argmax(gaps))
        inner = found[1:-1] if len(found) > 4 else found[1:] if end == 0 else found[:-1]
        core = np.ptp(inner)
        if not core or gaps[end] <= FAR_GAP * core:
            break
        found = found[1:] if end == 0 else found[:-1]
    return float(found[0]), float(found[-1])


MOST_TICKS = 4  # labels that fit below a panel
LEAST_GAP = 0.17  # between two of them, as a share of the axis
DIGITS = (range(1, 10), (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,))  # the first that are far enough apart
INNER = (0.2, 0.8)  # shares of an axis on which no round number lies, or one


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
