"""Small charts as inline SVG: drawn in milliseconds, coloured by the page's style, light or dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

WIDTH, HEIGHT = 420, 270
LEFT, RIGHT, TOP, BOTTOM = 56, 10, 26, 40
TICKS = 5
Values = Sequence[float] | np.ndarray


class Chart:
    """One pair of axes; marks are added in data coordinates, classes of the style sheet give the colours."""

    def __init__(self, title: str, x_label: str, y_label: str, x: Values, y: Values) -> None:
        self.title, self.x_label, self.y_label = title, x_label, y_label
        self.x, self.y = _range(x), _range(y)
        self.marks: list[str] = []

    def _px(self, values) -> np.ndarray:
        low, high = self.x
        return LEFT + (np.asarray(values, float) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def _py(self, values) -> np.ndarray:
        low, high = self.y
        return HEIGHT - BOTTOM - (np.asarray(values, float) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def points(self, x, y, kind: str, radius: float = 2.2) -> None:
        dots = zip(self._px(x), self._py(y), strict=True)
        marks = "".join(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="{radius:g}"/>' for a, b in dots)
        self.marks.append(f'<g class="{kind}">{marks}</g>')

    def line(self, x, y, kind: str) -> None:
        text = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(self._px(x), self._py(y), strict=True))
        self.marks.append(f'<polyline class="{kind}" points="{text}"/>')

    def bars(self, edges, heights, kind: str) -> None:
        left, top, floor = self._px(edges), self._py(heights), float(self._py([max(0.0, self.y[0])])[0])
        marks = "".join(
            f'<rect x="{a:.1f}" y="{t:.1f}" width="{max(b - a - 1, 0.5):.1f}" '
            f'height="{max(floor - t, 0):.1f}"/>'
            for a, b, t in zip(left, left[1:], top, strict=False)
        )
        self.marks.append(f'<g class="{kind}">{marks}</g>')

    def segments(self, x, low, high, kind: str) -> None:
        ends = zip(self._px(x), self._py(low), self._py(high), strict=True)
        text = "".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in ends)
        self.marks.append(f'<path class="{kind}" d="{text}"/>')

    def band(self, x, low, high, kind: str) -> None:
        there = [f"{a:.1f},{b:.1f}" for a, b in zip(self._px(x), self._py(high), strict=True)]
        back = [f"{a:.1f},{b:.1f}" for a, b in zip(self._px(x), self._py(low), strict=True)][::-1]
        self.marks.append(f'<polygon class="{kind}" points="{" ".join(there + back)}"/>')

    def svg(self) -> str:
        """The chart with axes and labels; marks outside the axes are cut off."""
        name = escape(self.title)
        inside = f'x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM}"'
        view = f"{LEFT} {TOP} {WIDTH - LEFT - RIGHT} {HEIGHT - TOP - BOTTOM}"
        return (
            f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{name}">'
            f'<text class="title" x="{LEFT}" y="14">{name}</text>{self._axes()}'
            f'<svg {inside} viewBox="{view}">{"".join(self.marks)}</svg></svg>'
        )

    def _axes(self) -> str:
        floor, right = HEIGHT - BOTTOM, WIDTH - RIGHT
        out = [f'<path class="axis" d="M{LEFT} {TOP}V{floor}H{right}"/>']
        for value in ticks(*self.x):
            a = float(self._px([value])[0])
            out.append(f'<text x="{a:.1f}" y="{floor + 14}" text-anchor="middle">{short(value)}</text>')
        for value in ticks(*self.y):
            b = float(self._py([value])[0])
            out.append(f'<path class="rule" d="M{LEFT} {b:.1f}H{right}"/>')
            out.append(f'<text x="{LEFT - 5}" y="{b + 4:.1f}" text-anchor="end">{short(value)}</text>')
        middle = (LEFT + right) / 2
        out.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(self.x_label)}</text>')
        at = (TOP + floor) / 2
        out.append(
            f'<text x="12" y="{at}" text-anchor="middle" transform="rotate(-90 12 {at})">'
            f"{escape(self.y_label)}</text>"
        )
        return "".join(out)


def _range(values: Values) -> tuple[float, float]:
    """Lowest and highest finite value, apart if they are equal; around many values a little room."""
    found = np.asarray(values, float)
    found = found[np.isfinite(found)]
    low, high = (float(found.min()), float(found.max())) if len(found) else (0.0, 1.0)
    if high <= low:
        return low - 0.5, high + 0.5
    room = 0.03 * (high - low) if len(found) > 2 else 0.0
    return low - room, high + room


def ticks(low: float, high: float) -> list[float]:
    """Round numbers within a range."""
    from matplotlib.ticker import MaxNLocator

    found = MaxNLocator(TICKS, steps=[1, 2, 5, 10]).tick_values(low, high)
    slack = 1e-9 * (high - low)
    return [float(v) for v in found if low - slack <= v <= high + slack]


def short(value: float) -> str:
    """A tick's number in few characters."""
    if value and abs(value) < 1e-3:
        return f"{value:.0e}".replace("e-0", "e-")
    for size, letter in ((1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e6 if letter == 'M' else 1e3):g}{letter}"
    return f"{value:g}"
