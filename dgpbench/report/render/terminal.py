"""A grid in the terminal. What is too wide for it is split into blocks of columns; numbers never wrap."""

from __future__ import annotations

import sys

from dgpbench.plain_text import visible
from dgpbench.report.grid import Entry, Grid

WORDS = 30  # characters of a column of words; longer ones are wrapped where room is short


def show(grid: Grid) -> None:
    """Print the grid with its notes and how to produce what it lacks."""
    from rich.console import Console
    from rich.text import Text

    width = None if sys.stdout.isatty() else 10_000  # a file or a pipe has no width
    console = Console(highlight=False, width=width)
    console.print(Text(grid.title, style="bold"))
    if grid.caption:
        console.print(Text(grid.caption, style="dim"))
    for columns in _blocks(grid, console.width):
        console.print(_table(grid, columns))
    for note in grid.notes:
        console.print(Text(f"  {visible(note)}", style="dim"))
    if grid.missing:
        console.print(Text(f"  missing; {grid.hint}"))
        for line in grid.missing:
            console.print(Text(f"    {visible(line)}"), soft_wrap=True)
    for block in grid.blocks:
        console.print()
        show(block)


def _blocks(grid: Grid, width: int) -> list[list[int]]:
    """Column numbers, as many together as fit beside the labels."""
    widths = []
    for i, name in enumerate(grid.columns):
        longest = max([len(name), *(len(_plain(line.entries[i])) for line in grid.lines)])
        widths.append(min(longest, WORDS) if grid.textual(i) else longest)
    heads = sum(
        max([len(head), *(len(line.heads[i]) for line in grid.lines)]) + 2
        for i, head in enumerate(grid.heads)
    )
    blocks: list[list[int]] = [[]]
    used = heads
    for i, size in enumerate(widths):
        if blocks[-1] and used + size + 2 > width:
            blocks.append([])
            used = heads
        blocks[-1].append(i)
        used += size + 2
    return blocks


def _table(grid: Grid, columns: list[int]):
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for head in grid.heads:
        table.add_column(head, no_wrap=True)
    for i in columns:
        words = grid.textual(i)
        table.add_column(grid.columns[i], justify="left" if words else "right", no_wrap=not words)
    for line in grid.lines:
        style = {"published": "dim", "footer": "cyan"}.get(line.kind, "")
        table.add_row(*map(_words, line.heads), *(_text(line.entries[i]) for i in columns), style=style)
    return table


def _words(text: str):
    from rich.text import Text

    return Text(visible(text))


def _plain(entry: Entry) -> str:
    text = entry.text + ("?" if entry.doubtful else "")
    return f"{text} {entry.count}".strip() if entry.count else text


def _text(entry: Entry):
    from rich.text import Text

    style = " ".join(name for name, on in (("bold", entry.bold), ("italic", entry.italic)) if on)
    text = Text(visible(entry.text) + ("?" if entry.doubtful else ""), style=style)
    if entry.count:
        text.append(f" {entry.count}", style="dim not bold not italic")
    return text
