"""Where a page's links lead: the page of a run if there is one, else its record."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from dgpbench.store.scan import Unit

FOLDER = "runs"  # of the pages of single runs, beside index.html


class Links:
    """Links from index.html in `output`; `pages` are the keys of runs with a page of their own."""

    def __init__(self, output: Path, pages: Collection[str] = ()) -> None:
        self.output, self.pages = output, frozenset(pages)

    def of(self, unit: Unit) -> str:
        """The page of a run, or its record."""
        key = unit.record["key"]
        return page_name(key) if key in self.pages else self.relative(str(unit.path))

    def relative(self, path: str) -> str:
        """A path as index.html sees it."""
        return os.path.relpath(path, self.output)


def page_name(key: str) -> str:
    """The file of a run's page, from the report's folder."""
    return f"{FOLDER}/{key[:12]}.html"
