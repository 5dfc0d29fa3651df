"""Tables of records: rows by columns of cells, and the commands for missing runs.

Each cell holds the records of one config.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from dgpbench.evaluate.metrics import SHAPIRO
from dgpbench.report.rules import Summary, summarise
from dgpbench.store.scan import Unit

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ["row", "column", "split", "value"]
SHOWN_FAILURES, SHOWN_LINKS = 12, 25


@dataclass(frozen=True)
class Place:
    """Place of one cell: the dataset, settings and metric it asks for."""

    row: str
    column: str
    dataset: str | None = None  # its name
    overrides: tuple[str, ...] = ()  # changes of the defaults: model=dgp2, ...
    splits: int | None = None  # how many it averages; None for all of the protocol
    metric: str | None = None
    scale: float = 1.0  # value shown = scale * metric + shift
    shift: float = 0.0
    better: str = "higher"
    config_dirs: tuple[str, ...] = ()  # folders of the user's own options

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The settings of `dgpbench run`, without the dataset."""
        return self.overrides

    @property
    def command(self) -> str | None:
        """The command that makes the value of a cell that no run makes."""
        return None


@dataclass(frozen=True)
class Spec:
    """Layout of a table: its cells by row and column, and how it is shown."""

    name: str
    title: str
    units: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    places: Mapping[tuple[str, str], Place]
    bold: str = "row"  # best within a row, a column, or none
    baseline: str | None = None
    config_dirs: tuple[str, ...] = ()  # folders of the user's own options
    corrected_errors: bool = False  # standard errors allow for the rows that splits share


class BySplit(NamedTuple):
    """A metric of records by split. Several seeds of one split count as one, with their mean."""

    values: dict[int, float]
    failed: dict[int, str]  # status and reason
    lacking: list[int]  # done without this metric


def by_split(units: Iterable[Unit], metric: str | None, scale: float = 1.0, shift: float = 0.0) -> BySplit:
    """scale * metric + shift of each split, and why it has none."""
    seeds: dict[int, list[float]] = {}
    failed: dict[int, str] = {}
    lacking: set[int] = set()
    for unit in units:
        record = unit.record
        value = record.metrics.get(metric)
        if record.status == "interrupted":
            continue  # goes on when its command is given again: missing, not failed
        if not record.done:
            failed[record.split] = f"{record.status}: {record.reason or 'no reason recorded'}"
        elif value is None:
            lacking.add(record.split)
        else:
            seeds.setdefault(record.split, []).append(scale * value + shift)
    values = {split: sum(found) / len(found) for split, found in sorted(seeds.items())}
    failed = {split: text for split, text in failed.items() if split not in values}
    return BySplit(values, failed, sorted(lacking - set(values) - set(failed)))


@dataclass
class Cell:
    """One place of a table: its values by split, and what failed or lacks."""

    place: Place
    expected: int | None = None  # splits; None where there is nothing to run
    wanted: tuple[int, ...] | None = None  # which splits; None for the first `expected`
    config_key: str | None = None
    values: dict[int, float] = field(default_factory=dict)
    w: dict[int, float] = field(default_factory=dict)  # median Shapiro W by split
    failed: dict[int, str] = field(default_factory=dict)  # split -> status and reason
    lacking: list[int] = field(default_factory=list)  # done, but the record lacks this metric
    units: list[Unit] = field(default_factory=list)

    def take(self, units: Iterable[Unit]) -> None:
        """Hold these records: values, failures and Shapiro W by split."""
        self.units = sorted(units, key=lambda unit: (unit.record.split, unit.record.seed))
        self.values, self.failed, self.lacking = as_placed(self.units, self.place)
        self.w = by_split(self.units, SHAPIRO).values

    @property
    def missing(self) -> list[int]:
        """Splits without a record."""
        seen = {*self.values, *self.failed, *self.lacking}
        wanted = range(self.expected or 0) if self.wanted is None else self.wanted
        return [split for split in wanted if split not in seen]

    @property
    def test_ratio(self) -> float:
        """Test rows per training row, which decides how strongly the splits of a dataset are correlated."""
        for unit in self.units:
            sizes = unit.record.sizes
            if sizes.get("n_train") and "n_test" in sizes:
                return sizes["n_test"] / sizes["n_train"]
            fraction = unit.record.config["protocol"]["train_fraction"]
            return (1 - fraction) / fraction
        return 0.0

    @property
    def community(self) -> int:
        """How many of its records are of others: consistent, not run again."""
        return len(community(self.units))

    @property
    def count(self) -> str:
        """n done / n expected, and how many failed: '18/20, 1 failed'."""
        if self.expected is None:
            return ""
        text = f"{len(self.values)}/{self.expected}"
        return f"{text}, {len(self.failed)} failed" if self.failed else text

    def links(self) -> tuple[str, ...]:
        """Files of its records, the first of them."""
        return tuple(dict.fromkeys(str(unit.path) for unit in self.units))[:SHOWN_LINKS]

    def numbers(self, ours: Summary | None) -> dict[str, float | None]:
        """Splits by how they ended, then our number: the same names in every CSV."""
        return {
            "n_done": len(self.values),
            "n_expected": self.expected,
            "n_failed": len(self.failed),
            "n_community": self.community,
            "mean": ours.mean if ours else None,
            "stderr": ours.error if ours else None,
        }


def as_placed(units: Iterable[Unit], place: Place) -> BySplit:
    """The metric of a cell as it is shown there."""
    return by_split(units, place.metric, place.scale, place.shift)


@dataclass(frozen=True)
class Table:
    """A spec with its cells filled."""

    spec: Spec
    cells: Mapping[tuple[str, str], Cell]

    @property
    def title(self) -> str:
        """Heading of the table."""
        return self.spec.title

    def ours(self, row: str, column: str) -> Summary | None:
        """Mean and error of a cell's records."""
        return summarise(self.cells[row, column].values.values(), self.test_ratio(row, column))

    def test_ratio(self, row: str, column: str) -> float:
        """Return the `test_ratio` for a cell's standard error: 0 where the table prints the papers' form."""
        return self.cells[row, column].test_ratio if self.spec.corrected_errors else 0.0

    def published(self, row: str, column: str) -> Summary | None:
        """The number of someone else that is drawn beside ours; plain comparisons have none."""
        return None

    def frame(self) -> pd.DataFrame:
        """Ours, one line per cell and split."""
        import pandas as pd

        lines = [
            (*at, split, value) for at, cell in self.cells.items() for split, value in cell.values.items()
        ]
        return pd.DataFrame(lines, columns=COLUMNS)

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
            if cell.expected is not None:
                found.setdefault((place.words, place.dataset, place.command), cell)
        return list(found.values())

    def failures(self) -> list[str]:
        """Failed splits with their reasons, the first of them if there are many."""
        found = [
            f"{row}, {column}, split {split} {text}"
            for (row, column), cell in self.cells.items()
            for split, text in cell.failed.items()
        ]
        more = len(found) - SHOWN_FAILURES
        told = [f"and {more} more failures: dgpbench show --failed"] if more > 0 else []
        return [*found[:SHOWN_FAILURES], *told]


def few(splits: Sequence[int]) -> str:
    """'0, 1, 2', of more than five the first and how many there are."""
    return ", ".join(map(str, splits[:5])) + (f", ... ({len(splits)} in all)" if len(splits) > 5 else "")


MARK = "‡"
NOT_RERUN = "consistent, not re-run"
SHOWN_CELLS = 12


def community(units: Iterable[Unit]) -> list[Unit]:
    """Those that come from results/community/."""
    return [unit for unit in units if unit.is_community]


def not_recomputed(units: Iterable[Unit]) -> str:
    """', metrics not recomputed', with how many if not of all; nothing if all were."""
    found = community(units)
    bare = sum(not unit.is_recomputed for unit in found)
    if not bare:
        return ""
    return f", metrics{'' if bare == len(found) else f' of {bare}'} not recomputed"


def community_note(cells: Mapping[tuple[str, str], Cell]) -> list[str]:
    """What the mark means and which cells have it; nothing where none has."""
    told = [
        f"{row} {column} ({cell.community} of {len(cell.units)} records{not_recomputed(cell.units)})"
        for (row, column), cell in cells.items()
        if cell.community
    ]
    if not told:
        return []
    more = len(told) - SHOWN_CELLS
    named = "; ".join(told[:SHOWN_CELLS]) + (f"; and {more} more cells" if more > 0 else "")
    return [f"{MARK}: with records of others from results/community/, {NOT_RERUN}: {named}"]


SHOWN_SPLITS = 4  # one by one in a command; more are a range


def run_command(cell: Cell, split: int) -> str:
    """The command of one unit."""
    place = cell.place
    if place.command:
        return place.command
    return " ".join(["dgpbench run", *_settings(cell), f"dataset={place.dataset}", f"split={split}"])


def sweep_command(cells: Sequence[Cell]) -> str:
    """The command of all that is missing in cells of one experiment; a sweep leaves out what is done."""
    datasets = ",".join(dict.fromkeys(cell.place.dataset for cell in cells if cell.place.dataset))
    splits = sorted({split for cell in cells for split in cell.missing})
    chosen = cells[0].place.splits or cells[0].wanted is not None  # not simply all splits of the protocol
    few = [_split_word(splits)] if chosen or len(splits) < (cells[0].expected or 0) else []
    return " ".join(["dgpbench sweep", *_settings(cells[0]), f"dataset={datasets}", *few])


def _split_word(splits: Sequence[int]) -> str:
    """split=3,7 or, of many that follow each other, 'split=range(3,20)'."""
    first, last = splits[0], splits[-1]
    if len(splits) > SHOWN_SPLITS and len(splits) == last - first + 1:
        return quote(f"split=range({first},{last + 1})")
    return f"split={','.join(map(str, splits))}"


def missing_commands(cells: Iterable[Cell]) -> list[str]:
    """Commands for every unit that is neither done nor failed, ready for a shell."""
    return [_one_for_all(group) for group in _groups(cells)]


def missing_summary(cells: Iterable[Cell]) -> list[str]:
    """One line per command: columns that lack something, how many runs in how many cells, what makes them."""
    lines = []
    for group in _groups(cells):
        columns = ", ".join(dict.fromkeys(cell.place.column for cell in group))
        units = len({(cell.place.dataset, split) for cell in group for split in cell.missing})
        lines.append(f"{columns}: {units} in {len(group)} cells, {_one_for_all(group)}")
    return lines


def _one_for_all(group: Sequence[Cell]) -> str:
    return run_command(group[0], 0) if group[0].place.command else sweep_command(group)


def _groups(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Cells that lack something, together where one sweep serves them all: columns may share their runs."""
    found: dict[tuple, list[Cell]] = {}
    for cell in cells:
        if cell.missing:
            place = cell.place
            found.setdefault((place.words, place.config_dirs, place.command), []).append(cell)
    return list(found.values())


def _settings(cell: Cell) -> list[str]:
    folders = [word for folder in cell.place.config_dirs for word in ("--config-dir", folder)]
    return [quote(word) for word in (*folders, *cell.place.words)]
