"""Numbers inside a Markdown page, renewed from records: blocks between comments, and single cells before one.

A block is what stands between `<!-- compare S7 shared -->` and `<!-- end -->`, here the lines of `dgpbench
tables S7 --variant shared --compare`; others are `side NAME [VARIANT]`, `board NAME [VARIANT]` (a
leaderboard), `counts` and `overview`. A cell is a number directly before
`<!-- S7 shared / energy / SGP -->`, with `/ published` (as printed) or `/ splits` for those. The comments
of a block stand on lines of their own; a page whose blocks are broken is refused and left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from dgpbench.errors import UserError
from dgpbench.papers import specs
from dgpbench.papers.paper_table import Table, all_tables, tables_of
from dgpbench.papers.table_overview import overview
from dgpbench.papers.views import comparison, counted, side_by_side
from dgpbench.report.grid import Grid, with_error
from dgpbench.report.leaderboard import board
from dgpbench.report.output_files import put, writing
from dgpbench.report.render import markdown_table
from dgpbench.store.scan import Unit

TABLED, ALONE = ("compare", "side", "board"), ("counts", "overview")  # kinds of blocks: with a table, without
ALLOWED = f"a block is {', '.join(f'<!-- {kind} TABLE -->' for kind in TABLED)}, " + (
    f"{' or '.join(f'<!-- {kind} -->' for kind in ALONE)}, then its lines, then <!-- end -->"
)
COMMENT = re.compile(r"^[ \t]*<!-- +(?P<words>[^>\n]+?) +-->[ \t]*$", re.M)
CELL = re.compile(r"(?P<value>[-+]?[0-9.]+(?: \([0-9.]+\))?)(?P<mark><!-- (?P<path>[^>]+? / [^>]+?) -->)")


class Block(NamedTuple):
    """The place of a block in a page: its words, and where the lines between its comments begin and end."""

    words: list[str]
    begin: int
    end: int


class Pages:
    """Tables by name and variants, each made once. A page cites our records, never those of others."""

    def __init__(self, units: Sequence[Unit], results: Path) -> None:
        self.units, self.results = [unit for unit in units if not unit.is_community], results
        self._tables: dict[tuple[str, ...], Table] = {}
        self._all: list[Table] | None = None

    def table(self, words: Sequence[str]) -> Table:
        """The table of a name, with variants behind it."""
        name = tuple(words)
        if name not in self._tables:
            (self._tables[name],) = tables_of([specs.load(name[0], name[1:])], self.units, self.results)
        return self._tables[name]

    def every(self) -> list[Table]:
        """All tables and their variants that have been begun."""
        if self._all is None:
            self._all = all_tables(self.units, self.results)
        return self._all


def renewed(text: str, pages: Pages) -> str:
    """The page with its blocks and cells as the records have them; UserError for one that is not there."""
    parts, at = [], 0
    for block in blocks(text):
        parts.append(_cells(text, at, block.begin, pages))
        with _line(text, block.begin - 1):
            parts.append(_lines(block.words, pages))
        at = block.end
    return "".join(parts) + _cells(text, at, len(text), pages)


def blocks(text: str) -> list[Block]:
    """The blocks of a page in order; UserError for one without an end, of unknown kind, or an end alone."""
    found: list[Block] = []
    opened: re.Match | None = None  # the block that has not ended
    other: re.Match | None = None  # a comment of another kind, in no block
    for comment in COMMENT.finditer(text):
        kind = comment["words"].split()[0]
        if comment["words"] == "end":
            if opened is None:
                raise UserError(_stray(text, comment, other))
            found.append(Block(opened["words"].split(), opened.end() + 1, comment.start()))
            opened = other = None
        elif kind in TABLED + ALONE:
            if opened is not None:
                raise UserError(
                    _unclosed(text, opened, f" before the block of line {_number(text, comment.start())}")
                )
            if (kind in TABLED) == (comment["words"] == kind):
                raise UserError(f"line {_number(text, comment.start())}: {comment[0].strip()}: {ALLOWED}")
            opened, other = comment, None
        elif opened is None and "/" not in comment["words"]:
            other = comment
    if opened is not None:
        raise UserError(_unclosed(text, opened, ""))
    return found


def _unclosed(text: str, opened: re.Match, where: str) -> str:
    return f"line {_number(text, opened.start())}: {opened[0].strip()} has no <!-- end -->{where}; {ALLOWED}"


def _stray(text: str, end: re.Match, other: re.Match | None) -> str:
    """What is wrong with an end that ends no block: it may be that of a block of unknown kind."""
    if other is None:
        return f"line {_number(text, end.start())}: <!-- end --> ends no block; {ALLOWED}"
    return f"line {_number(text, other.start())}: no kind of block: {other[0].strip()}; {ALLOWED}"


def _number(text: str, at: int) -> int:
    """Number of the line of a place."""
    return text.count("\n", 0, at) + 1


@contextmanager
def _line(text: str, at: int) -> Iterator[None]:
    """Put the line of a place in the page before what is wrong there."""
    try:
        yield
    except UserError as error:
        raise UserError(f"line {_number(text, at)}: {error}") from None


def _lines(words: Sequence[str], pages: Pages) -> str:
    kind, *names = words
    makers: dict[str, Callable[[], Grid]] = {
        "compare": lambda: comparison(pages.table(names)),
        "side": lambda: side_by_side(pages.table(names)),
        "board": lambda: board(pages.table(names)),
        "counts": lambda: counted(pages.every()),
        "overview": lambda: overview(pages.every(), Path("results")),
    }
    return markdown_table(makers[kind]()) + "\n"


def _cells(text: str, begin: int, end: int, pages: Pages) -> str:
    """A part of the page outside of blocks, with its cells renewed."""
    parts, at = [], begin
    for found in CELL.finditer(text, begin, end):
        with _line(text, found.start()):
            parts += [text[at : found.start()], _cell(found, pages)]
        at = found.end()
    return "".join(parts) + text[at:end]


def _cell(found: re.Match, pages: Pages) -> str:
    names, *at = (part.strip() for part in found["path"].split(" / "))
    side = at.pop() if len(at) == 3 else "ours"
    table = pages.table(names.split())
    cell = table.cells.get(tuple(at))
    if cell is None or side not in ("ours", "published", "splits"):
        raise UserError(f"the page names a cell that is not there: {found['path']}")
    if side == "splits":
        return f"{len(cell.values)}{found['mark']}"
    summary = table.published(*at) if side == "published" else table.ours(*at)
    if summary is None:
        raise UserError(f"the page cites {found['path']}, and there is no such number")
    printed = cell.published if side == "published" else None  # as the tables show it: with the printed error
    error = printed.printed_error if printed else summary.error
    return with_error(summary.mean, error, cell.place.format) + found["mark"]


def renew_file(path: Path, pages: Pages) -> bool:
    """Renew a page in place; True if something changed."""
    try:
        old = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the page {path}: {getattr(error, 'strerror', None) or error}") from None
    try:
        new = renewed(old, pages)
    except UserError as error:
        raise UserError(f"{path}, {error}; the page is as it was") from None
    if new != old:
        with writing(path, "--renew"):
            put(path, new.encode())
    return new != old
