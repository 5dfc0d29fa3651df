"""Grids for the renderers: lines of entries with marks, notes, and the numbers behind them as a frame."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dgpbench.report.result_table import MARK

if TYPE_CHECKING:
    import pandas as pd

NOTHING = "–"


@dataclass(frozen=True)
class Entry:
    """One cell as it is shown."""

    text: str = NOTHING
    count: str = ""  # n done / n expected
    bold: bool = False
    italic: bool = False
    doubtful: bool = False
    detail: tuple[str, ...] = ()  # shown on demand: reasons of failures, sources, keys
    links: tuple[str, ...] = ()  # files of records
    value: float | None = None  # to sort by
    others: bool = False  # holds records of others

    @property
    def marks(self) -> str:
        """Signs behind the text: a doubtful reading, records of others."""
        return "?" * self.doubtful + MARK * self.others


@dataclass(frozen=True)
class Line:
    """A line of a grid."""

    heads: tuple[str, ...]  # the first columns: row label, and whose numbers these are
    entries: tuple[Entry, ...]
    kind: str = "ours"  # ours, published or footer


@dataclass(frozen=True)
class Grid:
    """What a renderer needs of a table, whatever it shows."""

    name: str
    title: str
    caption: str
    heads: tuple[str, ...]
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    numbers: pd.DataFrame | Sequence[dict] | Callable[[], pd.DataFrame]  # behind the entries; see `data`
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    blocks: tuple[Grid, ...] = field(default=())  # smaller tables below: variants
    hint: str = "--missing lists every command:"  # how to get all that is missing

    @property
    def data(self) -> pd.DataFrame:
        """The numbers as a frame; pandas is loaded for them and not before."""
        import pandas as pd

        return self.numbers() if callable(self.numbers) else pd.DataFrame(self.numbers)

    def textual(self, column: int) -> bool:
        """True if a column holds words, to be set to the left."""
        entries = [line.entries[column] for line in self.lines]
        empty = all(entry.text == NOTHING for entry in entries)
        return not empty and all(entry.value is None and not entry.count for entry in entries)


def number(value: float | None, spec: str = ".2f") -> str:
    """A number in the table's format; whole below -10, as the thesis prints. Infinities as signs."""
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    text = format(value, ".0f" if spec == ".2f" and value <= -10 else spec)
    return text[1:] if text.startswith("-") and not text.strip("-0.") else text  # no minus zero


def with_error(mean: float, error: float | None, spec: str = ".2f") -> str:
    """'mean (error)', the error with the digits of the mean."""
    shown = ".0f" if spec == ".2f" and mean <= -10 else spec
    tail = "" if error is None or math.isinf(mean) else f" ({format(error, shown)})"
    return number(mean, spec) + tail


def plain(
    title: str,
    frame: pd.DataFrame | Sequence[dict],
    formats: dict[str, str] | None = None,
    *,
    name: str = "",
    caption: str = "",
    heads: int = 1,
    notes: tuple[str, ...] = (),
) -> Grid:
    """A frame, or mappings of the same names, as a grid: the first `heads` columns are labels, numbers in the
    formats given (default .4g)."""
    formats = formats or {}
    if isinstance(frame, Sequence):
        names, rows = list(frame[0]) if frame else [], list(frame)
    else:
        names, rows = list(frame.columns), [row for _, row in frame.iterrows()]
    labels, rest = names[:heads], names[heads:]
    lines = []
    for row in rows:
        entries = tuple(_entry(row[column], formats.get(column, ".4g")) for column in rest)
        lines.append(Line(tuple(str(row[label]) for label in labels), entries))
    return Grid(name, title, caption, tuple(labels), tuple(rest), tuple(lines), frame, notes)


def _entry(value: Any, spec: str) -> Entry:
    if isinstance(value, str) or value is None:
        return Entry(value or "")
    if isinstance(value, bool | int) or not spec:
        return Entry(str(value), value=float(value))
    return Entry(number(float(value), spec), value=float(value))
