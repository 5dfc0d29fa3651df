"""Text that others wrote, made harmless for where it is shown."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # how a spreadsheet's formula begins
MARKS = str.maketrans({"<": "&lt;", ">": "&gt;"} | {mark: f"\\{mark}" for mark in "\\|`[]"})


def visible(text: str, limit: int | None = None) -> str:
    """One line in which control characters are written out and nothing is longer than `limit`."""
    line = " ".join(text.split()) if "\n" in text else text
    if not line.isprintable():
        line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    return line if limit is None or len(line) <= limit else line[: limit - 4] + " ..."


def aligned(lines: Sequence[Sequence[str]], left: Container[int] = ()) -> list[str]:
    """Lines of words set in columns: flush left those whose numbers are in `left`, flush right the others."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            word.ljust(width) if i in left else word.rjust(width)
            for i, (word, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def markdown(text: str) -> str:
    """Text that stays text in a Markdown table: no cell border, link, code or HTML."""
    return visible(text).translate(MARKS)


def csv_value(value: Any) -> Any:
    """A value that no spreadsheet takes for a formula, in one line; numbers stay numbers."""
    if not isinstance(value, str):
        return value
    return f"'{visible(value)}" if value.startswith(FORMULA) else visible(value)
