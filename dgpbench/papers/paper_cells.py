"""Cells of a table: each holds the records of exactly one config_key, the one its spec composes to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from dgpbench.config import compose
from dgpbench.config.derived import num_splits
from dgpbench.config.keys import DATA_FIELDS, config_key
from dgpbench.config.tree import config_folders, options, read_option
from dgpbench.errors import UserError
from dgpbench.papers.published import Published, find
from dgpbench.papers.specs import Place, Spec
from dgpbench.report import result_table
from dgpbench.report.result_table import as_placed, community
from dgpbench.store.record import Record
from dgpbench.store.scan import Unit


@dataclass
class Cell(result_table.Cell):
    """One place of a published table: ours by split, what failed or lacks, and what was published."""

    place: Place
    published: Published | None = None
    absent: str | None = None  # why ours is not available


@dataclass(frozen=True)
class Variant:
    """Records that belong near a cell but not into it."""

    column: str
    dataset: str
    name: str  # the other experiment, or what deviates
    config_key: str
    values: dict[int, float]
    failed: int
    community: int = 0  # records of others among them


IDENTITY = ("name", "task", "train_rows")  # of keys.DATA_FIELDS: which data a record has; the others choose


class Records:
    """Records by config_key, and which data each dataset's name has stood for."""

    def __init__(self, units: Iterable[Unit]) -> None:
        self.by_key: dict[str, list[Unit]] = {}
        self.datasets: dict[str, dict[tuple, dict]] = {}
        for unit in units:
            record = unit.record
            self.by_key.setdefault(record.config_key, []).append(unit)
            chosen = record.config.get("dataset", {})
            known = {"name": record.dataset, **{name: chosen.get(name) for name in IDENTITY[1:]}}
            data = self.datasets.setdefault(record.dataset, {})
            data[tuple(known.values()), record.data_hash] = known

    def key_of(self, place: Place) -> str | None:
        """The config_key of a cell that has records; None if there are none."""
        found = {}
        for (_, data_hash), dataset in self.datasets.get(place.dataset or "", {}).items():
            if data_hash:
                data = tuple((dataset | _chosen(place)).items())
                key = cell_key(place.words, place.config_dirs, data, data_hash)
                if key in self.by_key:
                    found[data_hash] = key
        if len(found) < 2:
            return next(iter(found.values()), None)
        stated = _stated_hash(place)
        return found[stated] if stated in found else max(found.values(), key=self._weight)

    def _weight(self, key: str) -> tuple:
        records = [unit.record for unit in self.by_key[key]]
        return sum(r["status"] == "done" for r in records), max(r["finished"] for r in records)


@lru_cache(maxsize=4096)
def _composed(words: tuple[str, ...], config_dirs: tuple[str, ...]) -> dict:
    return compose(words, config_dirs)


@lru_cache(maxsize=8192)
def cell_key(words: tuple, config_dirs: tuple, dataset: tuple, data_hash: str) -> str:
    """Return the config_key of a cell. Of the dataset, only keys.DATA_FIELDS matter."""
    data = {name: list(v) if isinstance(v, tuple) else v for name, v in dataset}
    return config_key({**_composed(words, config_dirs), "dataset": data}, data_hash)


def _chosen(place: Place) -> dict:
    """What a cell chooses of its dataset, such as dataset.per_class=2: by its words, by its experiment, or as
    the dataset's file says."""
    own = _composed(place.words, place.config_dirs)["dataset"]
    named = {word.partition("=")[0].removeprefix("dataset.") for word in place.words}
    if place.dataset and own["name"] != place.dataset:  # composed once for all datasets of a column
        path = _datasets(place.config_dirs).get(place.dataset)
        facts = _facts(place.dataset, path) if path else {}
        own = facts | {name: own[name] for name in named if name in own}
    found = {name: own[name] for name in DATA_FIELDS if name in own and name not in IDENTITY}
    return {name: tuple(v) if isinstance(v, list) else v for name, v in found.items()}


def _stated_hash(place: Place) -> str | None:
    if place.dataset is None:
        return None
    path = _datasets(place.config_dirs).get(place.dataset)
    return _facts(place.dataset, path).get("data_sha256") if path else None


@lru_cache(maxsize=8)
def _datasets(config_dirs: tuple[str, ...]) -> dict[str, Path]:
    return options("dataset", config_folders(config_dirs))


@lru_cache(maxsize=256)
def _facts(dataset: str, path: Path) -> dict:
    """The fields of a dataset as its file says them."""
    return read_option(dataset, path)


def fill(spec: Spec, records: Records) -> dict[tuple[str, str], Cell]:
    """All cells of a table with their records and published numbers."""
    folders = config_folders(spec.config_dirs)
    experiments, datasets = options("experiment", folders), options("dataset", folders)
    cells = {}
    for position, place in spec.places.items():
        cell = cells[position] = Cell(place, published=find(place.published))
        cell.absent = _absent(place, experiments, datasets)
        dataset = place.dataset
        if cell.absent or dataset is None:
            continue
        try:
            protocol = _composed(place.words, place.config_dirs)["protocol"]
            splits = num_splits(_facts(dataset, datasets[dataset]), protocol)
        except UserError as error:
            cell.absent = f"{' '.join(place.words)} does not compose: {error}"
            continue
        cell.expected = min(splits, place.splits or splits)
        cell.config_key = records.key_of(place)
        units = records.by_key.get(cell.config_key, []) if cell.config_key else []
        cell.take(unit for unit in units if unit.record.split < cell.expected)
    return cells


def _absent(place: Place, experiments: dict, datasets: dict) -> str | None:
    if not place.runs:
        return "from print only, dgpbench does not run it"
    if place.experiment and place.experiment not in experiments:
        return f"no experiment {place.experiment} yet"
    return None if place.dataset in datasets else f"no dataset {place.dataset} in the catalogue"


def variants(spec: Spec, cells: dict[tuple[str, str], Cell], records: Records) -> list[Variant]:
    """Records of the table's experiments and rows that no cell holds: each under its own name, once for every
    column of its experiment."""
    taken = {cell.config_key for cell in cells.values()}
    columns: dict[tuple[str, str | None], dict[str, Cell]] = {}
    for cell in cells.values():
        if cell.place.experiment:
            columns.setdefault((cell.place.experiment, cell.place.dataset), {})[cell.place.column] = cell
    words = {word.partition("=")[0] for cell in cells.values() for word in cell.place.overrides}
    rows = sorted(word for word in words if word.startswith("dataset."))  # settings in which rows differ
    found = []
    for key, units in records.by_key.items():
        record = units[0].record
        for cell in {} if key in taken else _nearest(record, columns).values():
            values, failed, _ = as_placed(units, cell.place)
            name = " ".join([_variant_name(record, cell.place), *_row_words(record, rows)])
            others = len(community(units))
            column, dataset = cell.place.column, record.dataset
            found.append(Variant(column, dataset, name, key, values, len(failed), others))
    return sorted(found, key=lambda v: (spec.columns.index(v.column), v.dataset, v.name))


def _row_words(record: Record, names: Sequence[str]) -> list[str]:
    own = record.config["dataset"]
    return [f"{name}={own[field]}" for name in names if (field := name.partition(".")[2]) in own]


def _nearest(record: Record, columns: dict[tuple[str, str | None], dict[str, Cell]]) -> dict[str, Cell]:
    """The cells whose experiment the record's is, or extends by `_something`: the longest such name."""
    name = record.experiment or ""
    while name:
        if (name, record.dataset) in columns:
            return columns[name, record.dataset]
        name = name.rpartition("_")[0]
    return {}


def _variant_name(record: Record, place: Place) -> str:
    experiment = record.experiment or ""
    if record.deviations:
        return " ".join([experiment, *(text.partition(" (")[0] for text in record.deviations)])
    if record.experiment == place.experiment:
        return f"{experiment}, other data or version"
    return experiment
