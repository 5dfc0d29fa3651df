"""A grid in the terminal. What is too wide for it is split into blocks of columns; numbers never wrap. Words
that alone are too much stand below their line, beside no other.

Lines are set here and not by rich, whose tables took a fifth of the time of `dgpbench tables`.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence

from dgpbench.plain_text import visible
from dgpbench.report.grid import NOTHING, Entry, Grid, Line

WORDS = 30  # characters of a column of words; longer ones are wrapped where room is short
GAP = "  "  # between columns
CODES = {"bold": "1", "dim": "2", "italic": "3", "cyan": "36"}
KINDS = {"published": ("dim",), "footer": ("cyan",)}  # looks of a line
Piece = tuple[str, tuple[str, ...]]  # a text and its looks


def show(grid: Grid) -> None:
    """Print the grid with its notes and how to produce what it lacks."""
    screen = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if screen else None  # a file or a pipe has no width
    coloured = screen and not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in ("dumb", "unknown")
    print("\n".join(_lines(grid, width, coloured)))


def _lines(grid: Grid, width: int | None, coloured: bool) -> Iterable[str]:
    def styled(text: str, *looks: str) -> str:
        return f"\x1b[{';'.join(CODES[look] for look in looks)}m{text}\x1b[0m" if coloured and looks else text

    yield from (styled(line, "bold") for line in _wrapped(grid.title, width))
    if grid.caption:
        yield from (styled(line, "dim") for line in _wrapped(grid.caption, width))
    blocks, below = _blocks(grid, width), list[int]()
    if all(grid.textual(i) for columns in blocks[1:] for i in columns):
        blocks, below = blocks[:1], [i for columns in blocks[1:] for i in columns]
    for columns in blocks:
        for pieces in _rows(grid, columns, width, below):
            line = "".join(styled(text, *looks) for text, looks in pieces)
            yield line if coloured else line.rstrip()
    for note in grid.notes:
        yield from (styled(line, "dim") for line in _wrapped(f"  {visible(note)}", width))
    if grid.missing:
        yield f"  missing; {grid.hint}"
        yield from (f"    {visible(line)}" for line in grid.missing)  # commands: whole, to be copied
    for block in grid.blocks:
        yield ""
        yield from _lines(block, width, coloured)


def _wrapped(text: str, width: int | None) -> list[str]:
    if not width:
        return [text]
    below = " " * (len(text) - len(text.lstrip()))
    return textwrap.wrap(text, max(width, 20), break_long_words=False, subsequent_indent=below)


def _blocks(grid: Grid, width: int | None) -> list[list[int]]:
    """Column numbers, as many together as fit beside the labels."""
    if width is None:
        return [list(range(len(grid.columns)))]
    widths = []
    for i in range(len(grid.columns)):
        longest = _longest(grid, i)
        widths.append(min(longest, WORDS) if grid.textual(i) else longest)
    heads = sum(size + len(GAP) for size in _head_widths(grid))
    blocks: list[list[int]] = [[]]
    used = heads
    for i, size in enumerate(widths):
        if blocks[-1] and used + size + len(GAP) > width:
            blocks.append([])
            used = heads
        blocks[-1].append(i)
        used += size + len(GAP)
    return blocks


def _longest(grid: Grid, column: int) -> int:
    return max([len(grid.columns[column]), *(len(_plain(line.entries[column])) for line in grid.lines)])


def _head_widths(grid: Grid) -> list[int]:
    return [
        max([len(head), *(len(visible(line.heads[i])) for line in grid.lines)])
        for i, head in enumerate(grid.heads)
    ]


def _rows(
    grid: Grid, columns: Sequence[int], width: int | None, below: Sequence[int]
) -> Iterable[list[Piece]]:
    """The lines of a block of columns, its head first, and below each the words of columns without room."""
    heads, words = _head_widths(grid), {i for i in columns if grid.textual(i)}
    sizes = {i: _longest(grid, i) for i in columns}
    if width is not None:
        spare = width - sum(size + len(GAP) for size in heads) - len(GAP) * (len(sizes) - 1)
        spare -= sum(min(sizes[i], WORDS) if i in words else sizes[i] for i in columns)
        for i in sorted(words, key=lambda i: sizes[i]):
            size = min(sizes[i], WORDS)
            more = min(sizes[i] - size, max(spare, 0))
            sizes[i], spare = size + more, spare - more
    names = [((grid.columns[i],), i) for i in columns]
    yield _row([(head, ("bold",)) for head in grid.heads], heads, names, sizes, words, ("bold",))
    yield from _below([grid.columns[i] for i in below], width, ("bold",))
    for line in grid.lines:
        yield from _line(line, columns, heads, sizes, words)
        told = [text for i in below if (text := _plain(line.entries[i])) not in ("", NOTHING)]
        yield from _below(told, width, KINDS.get(line.kind, ()))


def _below(texts: Sequence[str], width: int | None, looks: tuple[str, ...]) -> Iterable[list[Piece]]:
    return ([(text, looks)] for text in _wrapped(f"    {' | '.join(texts)}", width) if texts)


def _line(line: Line, columns, heads, sizes, words) -> Iterable[list[Piece]]:
    """A line of the grid: several of them where words are wrapped."""
    looks = KINDS.get(line.kind, ())
    texts = {i: textwrap.wrap(_plain(line.entries[i]), sizes[i]) or [""] for i in columns if i in words}
    for row in range(max([1, *map(len, texts.values())])):
        first = [(visible(head) if not row else "", looks) for head in line.heads]
        cells: list = []
        for i in columns:
            if i in words:
                cells.append(((texts[i][row] if row < len(texts[i]) else "",), i))
            else:
                cells.append((_parts(line.entries[i]) if not row else ("",), i))
        yield _row(first, heads, cells, sizes, words, looks, [_looks(line.entries[i]) for i in columns])


def _row(first, heads, cells, sizes, words, looks, own=None) -> list[Piece]:
    """Pieces of one line: labels, then cells, each a text and by choice a count behind it."""
    pieces: list[Piece] = []
    for (text, style), size in zip(first, heads, strict=True):
        pieces.append((text.ljust(size) + GAP, style))
    for number, (parts, i) in enumerate(cells):
        shown = " ".join(part for part in parts if part)
        pad = " " * (sizes[i] - len(shown))
        before, behind = ("", pad) if i in words else (pad, "")
        if number:
            before = GAP + before
        pieces += [(before, ()), (parts[0], (*looks, *(own[number] if own else ())))]
        if len(parts) > 1 and parts[1]:
            pieces.append((f" {parts[1]}", ("dim",)))
        pieces.append((behind, ()))
    return pieces


def _parts(entry: Entry) -> tuple[str, str]:
    return visible(entry.text) + entry.marks, entry.count


def _plain(entry: Entry) -> str:
    return " ".join(part for part in _parts(entry) if part)


def _looks(entry: Entry) -> tuple[str, ...]:
    return tuple(name for name, on in (("bold", entry.bold), ("italic", entry.italic)) if on)
