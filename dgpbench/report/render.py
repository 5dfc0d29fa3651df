"""Grids as text: Markdown, CSV, LaTeX and HTML. `terminal.show` prints them on a screen."""

from __future__ import annotations

import re
from html import escape

from dgpbench.plain_text import csv_value
from dgpbench.plain_text import markdown as escape_markdown
from dgpbench.report.grid import NOTHING, Entry, Grid, Line

FORMATS = ("table", "markdown", "csv", "latex", "html")
PROSE = 40  # characters; longer texts are wrapped
SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "–": "--",
    "\u200b": "{}",
    "∞": r"$\infty$",
    "`": r"\textasciigrave{}",
    "|": r"\textbar{}",
    "†": r"$^\dagger$",
    "‡": r"$^\ddagger$",
}
WIDE = 6  # columns; more are scaled to the width of the text


def render(grid: Grid, name: str) -> str:
    """Return the grid in one of FORMATS except `table`."""
    return {"markdown": to_markdown, "csv": to_csv, "latex": to_latex, "html": to_html}[name](grid)


def to_csv(grid: Grid) -> str:
    """Return the numbers behind the grid, one line per cell."""
    data = grid.data.copy()
    for name in data.select_dtypes(include=["object", "string"]):
        data[name] = data[name].map(csv_value)
    return data.to_csv(index=False, lineterminator="\n")


def to_markdown(grid: Grid) -> str:
    """Return the grid as Markdown: marks for bold and italics, notes as a list below."""
    lines = [f"### {grid.title}", ""]
    lines += [f"{grid.caption}", ""] if grid.caption else []
    lines += [markdown_table(grid)]
    lines += [""] + [f"- {escape_markdown(note)}" for note in grid.notes]
    if grid.missing:
        lines += ["- missing:"] + [f"  - {escape_markdown(text)}" for text in grid.missing]
    for block in grid.blocks:
        lines += ["", to_markdown(block)]
    return "\n".join(lines).rstrip() + "\n"


def markdown_table(grid: Grid) -> str:
    """The table alone."""
    sides = ["---" if _is_text(grid, at) else "---:" for at in range(len(grid.columns))]
    heads = [_markdown_row([*grid.heads, *grid.columns]), _markdown_row(["---"] * len(grid.heads) + sides)]
    rows = [
        _markdown_row([*map(escape_markdown, line.heads), *map(_markdown_cell, line.entries)])
        for line in grid.lines
    ]
    return "\n".join([*heads, *rows])


def _is_text(grid: Grid, at: int) -> bool:
    """Whether most cells of a column that say something are words, which begin at the left."""
    said = [line.entries[at].text for line in grid.lines if line.entries[at].text]
    return 2 * sum(bool(re.search("[A-Za-z]{2}", text)) for text in said) > len(said)


def _markdown_row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _markdown_cell(entry: Entry) -> str:
    text = escape_markdown(entry.text)
    if text:
        text = f"*{text}*" if entry.italic else text
        text = f"**{text}**" if entry.bold else text
    text += entry.marks
    return f"{text} {entry.count}".strip()


def to_html(grid: Grid) -> str:
    """Return the grid as an HTML fragment: a table with details per cell, notes below."""
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in grid.heads)
    for i, name in enumerate(grid.columns):
        heads += f'<th scope="col"{"" if grid.textual(i) else " class=n"}>{escape(name)}</th>'
    texts = [grid.textual(i) for i in range(len(grid.columns))]
    body = "\n".join(_html_line(line, texts) for line in grid.lines if line.kind != "footer")
    foot = "\n".join(_html_line(line, texts) for line in grid.lines if line.kind == "footer")
    notes = "".join(f"<li>{escape(note)}</li>" for note in grid.notes)
    missing = "".join(f"<li>{_command(text)}</li>" for text in grid.missing)
    return "\n".join(
        part
        for part in (
            f'<figure class="grid" id="table-{escape(grid.name)}">',
            f"<figcaption><strong>{escape(grid.title)}</strong><br>"
            f"<span>{escape(grid.caption)}</span></figcaption>",
            f'<div class="scroll"><table><thead><tr>{heads}</tr></thead>',
            f"<tbody>\n{body}\n</tbody>",
            f"<tfoot>\n{foot}\n</tfoot>" if foot else "",
            "</table></div>",
            f'<ul class="notes">{notes}</ul>' if notes else "",
            f'<details class="missing"><summary>What is missing</summary><ul>{missing}</ul></details>'
            if missing
            else "",
            *(to_html(block) for block in grid.blocks),
            "</figure>",
        )
        if part
    )


def _html_line(line: Line, texts: list[bool]) -> str:
    labels = "".join(f'<th scope="row">{escape(text)}</th>' for text in line.heads)
    cells = "".join(_html_cell(entry, words) for entry, words in zip(line.entries, texts, strict=True))
    return f'<tr class="{line.kind}">{labels}{cells}</tr>'


def _html_cell(entry: Entry, words: bool) -> str:
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


def to_latex(grid: Grid) -> str:
    """Return the grid as a LaTeX table (booktabs, graphicx), to be \\input into a document."""
    sides = ("l" if grid.textual(i) else "r" for i in range(len(grid.columns)))
    shape = "l" * len(grid.heads) + "".join(sides)
    body = [
        rf"\begin{{tabular}}{{{shape}}}",
        r"\toprule",
        _latex_row(
            [*map(escape_latex, grid.heads), *(rf"\textbf{{{escape_latex(name)}}}" for name in grid.columns)]
        ),
        r"\midrule",
    ]
    kinds = [line.kind for line in grid.lines]
    for i, line in enumerate(grid.lines):
        if line.kind == "footer" and kinds[i - 1 : i] != ["footer"]:
            body.append(r"\midrule")
        body.append(_latex_row([*map(escape_latex, line.heads), *map(_latex_cell, line.entries)]))
    body += [r"\bottomrule", r"\end{tabular}"]
    if len(grid.columns) > WIDE:
        body = [r"\resizebox{\textwidth}{!}{%", *body[:-1], body[-1] + "}"]
    sentences = (
        text[:1].upper() + text[1:].rstrip(".") for text in (grid.title, grid.caption, *grid.notes) if text
    )
    caption = rf"\caption{{{' '.join(f'{escape_latex(text)}.' for text in sentences)}}}"
    label = rf"\label{{tab:{''.join(c if c.isalnum() else '-' for c in grid.name)}}}"
    return (
        "\n".join(
            [
                "% needs \\usepackage{booktabs,graphicx}",
                r"\begin{table}",
                r"\centering",
                *body,
                caption,
                label,
                r"\end{table}",
                *(to_latex(block) for block in grid.blocks),
            ]
        )
        + "\n"
    )


def _latex_row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex_cell(entry: Entry) -> str:
    text = escape_latex(entry.text).replace(r"-$\infty$", r"$-\infty$")
    if text.startswith("-") and text[1:2].isdigit():
        text = f"${text[0]}${text[1:]}"
    if text and entry.text != NOTHING:
        text = rf"\textit{{{text}}}" if entry.italic else text
        text = rf"\textbf{{{text}}}" if entry.bold else text
    text += escape_latex(entry.marks)
    return (rf"{text} {{\scriptsize {escape_latex(entry.count)}}}" if entry.count else text).strip()


def escape_latex(text: str) -> str:
    """Characters that LaTeX takes otherwise; two hyphens stay two hyphens."""
    return "".join(SPECIAL.get(character, character) for character in text.replace("--", "-\u200b-"))
