"""Numbers inside a Markdown page, renewed from records: blocks between comments, and single cells before one.

A block is what stands between `<!-- compare S7 shared -->` and `<!-- end -->`, here the lines of `dgpbench
tables S7 --variant shared --compare`; others are `side NAME [VARIANT]`, `board NAME [VARIANT]` (a
leaderboard), `counts` and `overview`. A cell is a number directly before
`<!-- S7 shared / energy / SGP -->`, with `/ published` or `/ splits` for those.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from dgpbench.errors import UserError
from dgpbench.report import specs
from dgpbench.report.compare import comparison, counted
from dgpbench.report.grid import Grid, with_error
from dgpbench.report.leaderboard import board
from dgpbench.report.load import all_tables, tables_of
from dgpbench.report.overview import overview
from dgpbench.report.render.markdown import body
from dgpbench.report.table import Table
from dgpbench.report.views import side_by_side
from dgpbench.store.scan import Unit

BLOCK = re.compile(r"(<!-- (compare|side|board|counts|overview)((?: \S+)*) -->\n).*?(<!-- end -->)", re.S)
CELL = re.compile(r"(?P<value>[-+]?[0-9.]+(?: \([0-9.]+\))?)(?P<mark><!-- (?P<path>[^>]+? / [^>]+?) -->)")


class Pages:
    """Tables by name and variants, each made once. A page cites our records, never those of others."""

    def __init__(self, units: Sequence[Unit], results: Path) -> None:
        self.units, self.results = [unit for unit in units if not unit.is_community], results
        self._tables: dict[tuple[str, ...], Table] = {}
        self._all: list[Table] | None = None

    def table(self, words: Sequence[str]) -> Table:
        name = tuple(words)
        if name not in self._tables:
            (self._tables[name],) = tables_of([specs.load(name[0], name[1:])], self.units, self.results)
        return self._tables[name]

    def every(self) -> list[Table]:
        if self._all is None:
            self._all = all_tables(self.units, self.results)
        return self._all


def renewed(text: str, pages: Pages) -> str:
    """The page with its blocks and cells as the records have them; UserError for one that is not there."""
    text = BLOCK.sub(lambda found: _block(found, pages), text)
    return CELL.sub(lambda found: _cell(found, pages), text)


def _block(found: re.Match, pages: Pages) -> str:
    words = found[3].split()
    makers: dict[str, Callable[[], Grid]] = {
        "compare": lambda: comparison(pages.table(words)),
        "side": lambda: side_by_side(pages.table(words)),
        "board": lambda: board(pages.table(words)),
        "counts": lambda: counted(pages.every()),
        "overview": lambda: overview(pages.every(), Path("results")),
    }
    return found[1] + body(makers[found[2]]()) + "\n" + found[4]


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
    return with_error(summary.mean, summary.error, cell.place.format) + found["mark"]


def renew_file(path: Path, pages: Pages) -> bool:
    """Renew a page in place; True if something changed."""
    try:
        old = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the page {path}: {error}") from None
    new = renewed(old, pages)
    if new != old:
        temporary = path.with_name(f".tmp-{path.name}")
        temporary.write_text(new, encoding="utf-8")
        temporary.replace(path)
    return new != old
