"""A table with everything that is known of it: spec, cells, variants; values as frames for the rules."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dgpbench.report import cells as cells_module
from dgpbench.report.cells import Cell, Records, Variant
from dgpbench.report.published import Published, find
from dgpbench.report.rules import Summary, summarise
from dgpbench.report.specs import Spec, with_variant
from dgpbench.report.step_times import perf_cells

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ["row", "column", "split", "value"]


class Explanation(NamedTuple):
    """The run of another variant beside a cell, and what its agreement with print would mean."""

    cell: Cell
    why: str


@dataclass(frozen=True)
class Table:
    """A spec with its cells filled."""

    spec: Spec
    cells: dict[tuple[str, str], Cell]
    variants: list[Variant]
    explaining: dict[tuple[str, str], Explanation] = field(default_factory=dict)

    def ours(self, row: str, column: str) -> Summary | None:
        """Mean and error of a cell's records; of step times the median."""
        cell = self.cells[row, column]
        if self.spec.ours == "perf" and cell.values:
            return Summary(statistics.median(cell.values.values()), None, len(cell.values))
        return summarise(cell.values.values(), self.test_ratio(row, column))

    def test_ratio(self, row: str, column: str) -> float:
        """Return the `test_ratio` for a cell's standard error: 0 where the table prints the papers' form."""
        return self.cells[row, column].test_ratio if self.spec.corrected_errors else 0.0

    def published(self, row: str, column: str) -> Summary | None:
        """The printed number as a summary; None if there is none or it is doubtful."""
        found = self.cells[row, column].published
        return None if found is None or found.doubtful else Summary(found.value, found.error, 1)

    def frame(self) -> pd.DataFrame:
        """Ours, one line per cell and split."""
        import pandas as pd

        lines = [
            (*at, split, value) for at, cell in self.cells.items() for split, value in cell.values.items()
        ]
        return pd.DataFrame(lines, columns=COLUMNS)

    def published_frame(self) -> pd.DataFrame:
        """Published, one line per cell: dataset means, as printed. Doubtful cells are left out."""
        import pandas as pd

        lines = [(*at, 0, found.mean) for at in self.cells if (found := self.published(*at))]
        return pd.DataFrame(lines, columns=COLUMNS)

    def printed_footer(self, name: str, column: str) -> Published | None:
        """A footer as the publication prints it."""
        metric = self.spec.printed_footers.get(name)
        place = self.cells[self.spec.rows[0], column].place
        if not metric or not place.published:
            return None
        return find({**place.published, "dataset": self.spec.printed_footers["dataset"], "metric": metric})

    @property
    def done(self) -> int:
        """How many splits have a value."""
        return sum(len(cell.values) for cell in self._distinct)

    @property
    def expected(self) -> int:
        """How many splits there are to run."""
        return sum(cell.expected or 0 for cell in self._distinct)

    @property
    def failed(self) -> int:
        """How many splits have failed."""
        return sum(len(cell.failed) for cell in self._distinct)

    @property
    def _distinct(self) -> list[Cell]:
        """A cell for each set of runs: those that show other metrics of the same runs are left out."""
        found: dict[tuple, Cell] = {}
        for cell in self.cells.values():
            place = cell.place
            runs = place.words, place.dataset, place.case, place.system
            if cell.expected is not None:
                found.setdefault(runs, cell)
        return list(found.values())


def build(spec: Spec, records: Records, perf_files: Sequence[Path] = ()) -> Table:
    """The table of a spec from records, or from the first of `perf_files` that exists."""
    if spec.ours == "perf":
        return Table(spec, perf_cells(spec, perf_files), [])
    cells = cells_module.fill(spec, records)
    return Table(spec, cells, cells_module.variants(spec, cells, records), _explaining(spec, records))


def _explaining(spec: Spec, records: Records) -> dict[tuple[str, str], Explanation]:
    """The cells of other variants that the spec names as explanations, those that have been run; of several
    the first. An entry of the spec explains the cells of its variant `of` by those of its `variant`; without
    one of them it means the table itself, and without rows or columns all."""
    found: dict[tuple[str, str], Explanation] = {}
    base = spec.base or spec
    for entry in spec.explained:
        if spec.chosen != (() if entry.get("of") is None else (entry["of"],)):
            continue
        other = base if entry.get("variant") is None else with_variant(base, entry["variant"])
        chosen = {
            (row, column): place
            for (row, column), place in other.places.items()
            if row in entry.get("rows", spec.rows) and column in entry.get("columns", spec.columns)
        }
        for at, cell in cells_module.fill(replace(other, places=chosen), records).items():
            if cell.values:
                found.setdefault(at, Explanation(cell, entry["why"]))
    return found
