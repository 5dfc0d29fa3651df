"""A published table with everything known of it: spec, cells, variants, explanations, step times."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dgpbench.errors import UserError
from dgpbench.papers import paper_cells, specs
from dgpbench.papers.paper_cells import Cell, Records, Variant
from dgpbench.papers.published import Published, find
from dgpbench.papers.specs import Spec, with_variant
from dgpbench.report import result_table
from dgpbench.report.result_table import COLUMNS
from dgpbench.report.rules import Summary, summarise
from dgpbench.store.layout import reference_folders
from dgpbench.store.scan import Unit, scan
from dgpbench.store.untrusted import parse_json, read_regular

if TYPE_CHECKING:
    import pandas as pd


class Measured(NamedTuple):
    """Seconds of a step by turn, and why there are none."""

    seconds: tuple[float, ...] = ()
    failure: str | None = None


def perf_cells(spec: Spec, files: Sequence[Path]) -> dict[tuple[str, str], Cell]:
    """Step times from the first of the files that exists, in seconds, by turn."""
    path = next((path for path in files if path.is_file()), None)
    times = _times(path) if path else {}
    out = {}
    for at, place in spec.places.items():
        cell = out[at] = Cell(place, published=find(place.published))
        if not place.case or not place.system:
            cell.absent = "not measured: python -m benchmarks runs on the processor"
            continue
        found = times.get((place.case, place.system), Measured())
        cell.values = dict(enumerate(found.seconds))
        cell.expected = max(len(cell.values), 1)
        if found.failure:
            cell.failed = {0: found.failure}
    return out


def _times(path: Path) -> dict[tuple[str, str], Measured]:
    """Step times by case and system; UserError for a file of another kind."""
    try:
        cells = parse_json(read_regular(path.resolve()))["cells"]
        return {(cell["case"], cell["system"]): _measured(cell) for cell in cells}
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise UserError(f"{path} holds no step times ({why}); measure again: python -m benchmarks") from None


def _measured(cell: dict) -> Measured:
    failure = None if cell["status"] == "ok" else f"{cell['status']}: {cell['reason']}"
    return Measured(tuple(float(ms) / 1000 for ms in cell["step_ms"]), failure)


class Explanation(NamedTuple):
    """Why a cell may differ from print, and the runs of another variant that show it."""

    why: str
    cell: Cell | None = None

    @property
    def mean(self) -> float | None:
        """Mean of the variant's runs; None for a note alone and for records of others."""
        if self.cell is None:
            return None
        return math.inf if self.cell.community else statistics.fmean(self.cell.values.values())


@dataclass(frozen=True)
class Table(result_table.Table):
    """A published table with its cells filled."""

    spec: Spec
    cells: Mapping[tuple[str, str], Cell]
    variants: Sequence[Variant] = ()
    explaining: dict[tuple[str, str], Explanation] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Heading of the table, with what its variants are about."""
        spec = self.spec
        named = [f"{name}: {spec.variants[name].get('about', 'variant')}" for name in spec.chosen]
        return f"{spec.title} [{'; '.join(named)}]" if named else spec.title

    def ours(self, row: str, column: str) -> Summary | None:
        """Mean and error of a cell's records; of step times the median."""
        cell = self.cells[row, column]
        if self.spec.ours == "perf" and cell.values:
            return Summary(statistics.median(cell.values.values()), None, len(cell.values))
        return summarise(cell.values.values())

    def published(self, row: str, column: str) -> Summary | None:
        """The printed number as a summary; None if there is none or it is doubtful."""
        found = self.cells[row, column].published
        return None if found is None or found.doubtful else Summary(found.value, found.error, 1)

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


def build(spec: Spec, records: Records, perf_files: Sequence[Path] = ()) -> Table:
    """The table of a spec from records, or from the first of `perf_files` that exists."""
    if spec.ours == "perf":
        return Table(spec, perf_cells(spec, perf_files))
    cells = paper_cells.fill(spec, records)
    return Table(spec, cells, paper_cells.variants(spec, cells, records), _explaining(spec, records))


def _explaining(spec: Spec, records: Records) -> dict[tuple[str, str], Explanation]:
    """Return the explanations that the spec gives for cells; of several a note counts, else the first.

    An entry explains the cells of its variant `of` by the runs of its `variant`; one of the two may be
    missing and then means the table itself. An entry with neither holds for the table and all variants.
    """
    found: dict[tuple[str, str], Explanation] = {}
    base = spec.base or spec
    for entry in spec.explained:
        at = [(r, c) for r in entry.get("rows", spec.rows) for c in entry.get("columns", spec.columns)]
        if not {"of", "variant"} & set(entry):
            found |= {position: Explanation(entry["why"]) for position in at}
        elif spec.chosen == ((entry["of"],) if "of" in entry else ()):
            other = with_variant(base, entry["variant"]) if "variant" in entry else base
            places = {position: other.places[position] for position in at}
            for position, cell in paper_cells.fill(replace(other, places=places), records).items():
                if cell.values:
                    found.setdefault(position, Explanation(entry["why"], cell))
    return found


PERF = Path("perf-results") / "perf.json"


def load_tables(
    names: Sequence[str],
    results: Path,
    reference: bool | Sequence[Path] = True,
    variants: Sequence[str] = (),
    config_dirs: Sequence[str] = (),
) -> list[Table]:
    """The named tables from the records in `results`. What cannot be read is named in a warning."""
    wanted = [specs.load(name, variants, config_dirs) for name in names]
    return tables_of(wanted, scan(results, reference=reference), results)


def all_tables(units: Sequence[Unit], results: Path) -> list[Table]:
    """Every table, each followed by its variants with experiments of their own that have been begun."""
    begun = {unit.record.experiment for unit in units} - {None}
    wanted = []
    for name in specs.names():
        spec = specs.load(name)
        others = [v for v, change in spec.variants.items() if "suffix" in change and "metric" not in change]
        variants = [specs.load(name, [variant]) for variant in others]
        wanted += [spec, *(v for v in variants if begun & {place.experiment for place in v.places.values()})]
    return tables_of(wanted, units, results)


def tables_of(wanted: Sequence[specs.Spec], units: Sequence[Unit], results: Path) -> list[Table]:
    """Return tables from records in hand; step times come from the file of `python -m benchmarks` here, or
    from the reference one."""
    records = Records(units)
    measured = (PERF, *(folder / "perf.json" for folder in reference_folders(results)))
    return [build(spec, records, measured) for spec in wanted]
