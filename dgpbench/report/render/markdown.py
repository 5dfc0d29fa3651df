"""A grid as Markdown: bold and italics as marks, notes as a list below."""

from __future__ import annotations

import re

from dgpbench.plain_text import markdown
from dgpbench.report.grid import Entry, Grid


def render(grid: Grid) -> str:
    lines = [f"### {grid.title}", ""]
    lines += [f"{grid.caption}", ""] if grid.caption else []
    lines += [body(grid)]
    lines += [""] + [f"- {markdown(note)}" for note in grid.notes]
    if grid.missing:
        lines += ["- missing:"] + [f"  - {markdown(text)}" for text in grid.missing]
    for block in grid.blocks:
        lines += ["", render(block)]
    return "\n".join(lines).rstrip() + "\n"


def body(grid: Grid) -> str:
    """The table alone."""
    sides = ["---" if _words(grid, at) else "---:" for at in range(len(grid.columns))]
    heads = [_row([*grid.heads, *grid.columns]), _row(["---"] * len(grid.heads) + sides)]
    rows = [_row([*map(markdown, line.heads), *map(_cell, line.entries)]) for line in grid.lines]
    return "\n".join([*heads, *rows])


def _words(grid: Grid, at: int) -> bool:
    """Whether most cells of a column that say something are words, which begin at the left."""
    said = [line.entries[at].text for line in grid.lines if line.entries[at].text]
    return 2 * sum(bool(re.search("[A-Za-z]{2}", text)) for text in said) > len(said)


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(entry: Entry) -> str:
    text = markdown(entry.text)
    if text:
        text = f"*{text}*" if entry.italic else text
        text = f"**{text}**" if entry.bold else text
    text += entry.marks
    return f"{text} {entry.count}".strip()
