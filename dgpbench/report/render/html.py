"""A grid as an HTML fragment: a table with details per cell, notes below. The report page styles it."""

from __future__ import annotations

from html import escape

from dgpbench.report.grid import Entry, Grid, Line

PROSE = 40  # characters; longer texts are wrapped


def render(grid: Grid) -> str:
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in grid.heads)
    for i, name in enumerate(grid.columns):
        heads += f'<th scope="col"{"" if grid.textual(i) else " class=n"}>{escape(name)}</th>'
    texts = [grid.textual(i) for i in range(len(grid.columns))]
    body = "\n".join(_line(line, texts) for line in grid.lines if line.kind != "footer")
    foot = "\n".join(_line(line, texts) for line in grid.lines if line.kind == "footer")
    notes = "".join(f"<li>{escape(note)}</li>" for note in grid.notes)
    missing = "".join(f"<li>{_command(text)}</li>" for text in grid.missing)
    return "\n".join(
        part
        for part in (
            f'<figure class="grid" id="table-{escape(grid.name)}">',
            f"<figcaption><strong>{escape(grid.title)}</strong><br><span>{escape(grid.caption)}</span></figcaption>",
            f'<div class="scroll"><table><thead><tr>{heads}</tr></thead>',
            f"<tbody>\n{body}\n</tbody>",
            f"<tfoot>\n{foot}\n</tfoot>" if foot else "",
            "</table></div>",
            f'<ul class="notes">{notes}</ul>' if notes else "",
            f'<details class="missing"><summary>What is missing</summary><ul>{missing}</ul></details>'
            if missing
            else "",
            *(render(block) for block in grid.blocks),
            "</figure>",
        )
        if part
    )


def _line(line: Line, texts: list[bool]) -> str:
    labels = "".join(f'<th scope="row">{escape(text)}</th>' for text in line.heads)
    cells = "".join(_cell(entry, words) for entry, words in zip(line.entries, texts, strict=True))
    return f'<tr class="{line.kind}">{labels}{cells}</tr>'


def _cell(entry: Entry, words: bool) -> str:
    marks = [
        name
        for name, on in (
            ("bold", entry.bold),
            ("italic", entry.italic),
            ("doubtful", entry.doubtful),
            ("others", entry.others),
            ("failed", "failed" in entry.count),
            ("text", words),
            ("prose", len(entry.text) > PROSE),
        )
        if on
    ]
    text = escape(entry.text) + (f"<sup>{escape(entry.marks)}</sup>" if entry.marks else "")
    for tag, on in (("i", entry.italic), ("b", entry.bold)):
        text = f"<{tag}>{text}</{tag}>" if on and text else text
    count = f" <small>{escape(entry.count)}</small>" if entry.count else ""
    value = "" if entry.value is None else f' data-value="{entry.value!r}"'
    detail = ""
    if entry.detail or entry.links:
        detail = f' tabindex="0" data-detail="{escape(chr(10).join(entry.detail))}"'
        detail += f' data-links="{escape(chr(10).join(entry.links))}"' if entry.links else ""
    return f'<td class="{" ".join(marks)}"{value}{detail}>{text}{count}</td>'


def _command(text: str) -> str:
    before, found, command = text.partition("dgpbench ")
    return f"{escape(before)}<code>{escape(found + command)}</code>"
