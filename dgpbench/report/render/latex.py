"""A grid as a LaTeX table (booktabs, graphicx), to be \\input into a document."""

from __future__ import annotations

from dgpbench.report.grid import NOTHING, Entry, Grid

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


def render(grid: Grid) -> str:
    sides = ("l" if grid.textual(i) else "r" for i in range(len(grid.columns)))
    shape = "l" * len(grid.heads) + "".join(sides)
    body = [
        rf"\begin{{tabular}}{{{shape}}}",
        r"\toprule",
        _row([*map(escape, grid.heads), *(rf"\textbf{{{escape(name)}}}" for name in grid.columns)]),
        r"\midrule",
    ]
    kinds = [line.kind for line in grid.lines]
    for i, line in enumerate(grid.lines):
        if line.kind == "footer" and kinds[i - 1 : i] != ["footer"]:
            body.append(r"\midrule")
        body.append(_row([*map(escape, line.heads), *map(_cell, line.entries)]))
    body += [r"\bottomrule", r"\end{tabular}"]
    if len(grid.columns) > WIDE:
        body = [r"\resizebox{\textwidth}{!}{%", *body[:-1], body[-1] + "}"]
    sentences = (
        text[:1].upper() + text[1:].rstrip(".") for text in (grid.title, grid.caption, *grid.notes) if text
    )
    caption = rf"\caption{{{' '.join(f'{escape(text)}.' for text in sentences)}}}"
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
                *(render(block) for block in grid.blocks),
            ]
        )
        + "\n"
    )


def _row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _cell(entry: Entry) -> str:
    text = escape(entry.text).replace(r"-$\infty$", r"$-\infty$")
    if text.startswith("-") and text[1:2].isdigit():
        text = f"${text[0]}${text[1:]}"
    if text and entry.text != NOTHING:
        text = rf"\textit{{{text}}}" if entry.italic else text
        text = rf"\textbf{{{text}}}" if entry.bold else text
    text += escape(entry.marks)
    return (rf"{text} {{\scriptsize {escape(entry.count)}}}" if entry.count else text).strip()


def escape(text: str) -> str:
    """Characters that LaTeX takes otherwise; two hyphens stay two hyphens."""
    return "".join(SPECIAL.get(character, character) for character in text.replace("--", "-\u200b-"))
