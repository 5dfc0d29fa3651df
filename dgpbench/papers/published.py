"""Published numbers: one line per cell of a publication, with source, units and how sure its reading is.

published.csv holds the documents whose tables dgpbench rebuilds, beyond.csv the rest of the field;
protocols.yaml says how the numbers came about, sources.yaml who published them.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from dgpbench.config.tree import config_folders, options
from dgpbench.errors import UserError

FOLDER = Path(__file__).resolve().parent
FILES = (FOLDER / "published.csv", FOLDER / "beyond.csv")
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same in a tenth of the time, where it is built
KEYS = ("source", "table", "dataset", "model", "inference", "metric", "n")
DOUBTFUL = "ocr-doubtful"
UNITS = ("original", "standardised", "normalised", "unknown", "image", "pixel", "percent", "seconds", "none")
ERRORS = ("standard error", "standard deviation", "two sigma", "unknown")


class Line(NamedTuple):
    """A line of the CSV files: a number as its source has it."""

    source: str
    table: str
    dataset: str
    n: int | None
    d: int | None
    model: str
    inference: str
    metric: str
    value: float
    stderr: float | None  # what follows +-; see Protocol.error
    confidence: str  # clean, ocr-checked or ocr-doubtful
    protocol: str
    note: str


@dataclass(frozen=True)
class Protocol:
    """How numbers of a source came about."""

    units: str  # one of UNITS
    about: str
    scored: str = ""  # how the density was computed
    error: str = "unknown"  # what follows +-: one of ERRORS
    runs: int | dict[str, int] | None = None  # behind a mean; by dataset, model or both, or `otherwise`
    fits: bool = False  # the source does not state the units; the size of its numbers decides

    def repeats(self, dataset: str, model: str) -> int | None:
        """Number of splits or repeats behind a mean; what is said of a model goes before its dataset."""
        if not isinstance(self.runs, dict):
            return self.runs
        names = (f"{model} on {dataset}", model, dataset, "otherwise")
        return next(self.runs[name] for name in names if name in self.runs)

    def divisor(self, dataset: str, model: str) -> float | None:
        """What +- is divided by for a standard error; None where that is not known."""
        runs = self.repeats(dataset, model)
        deviation = math.sqrt(runs) if runs and runs > 1 else None
        known = {"standard error": 1.0, "standard deviation": deviation, "two sigma": 2.0}
        return known.get(self.error)


@dataclass(frozen=True)
class Published:
    """A printed number with what follows +-, and that as a standard error where the source says how."""

    value: float
    printed_error: float | None
    error: float | None
    confidence: str
    note: str
    source: str
    table: str
    runs: int | None = None  # behind the mean

    @property
    def doubtful(self) -> bool:
        """Not to be used as truth: shown with a mark, left out of every comparison."""
        return self.confidence == DOUBTFUL


@lru_cache(maxsize=1)
def lines() -> tuple[Line, ...]:
    """Every published number."""
    found = []
    for file in FILES:
        with open(file, encoding="utf-8", newline="") as handle:
            rows = csv.reader(handle)
            if tuple(next(rows)) != Line._fields:
                raise ValueError(f"{file.name}: the columns must be {', '.join(Line._fields)}")
            found += [_line(row) for row in rows]
    return tuple(found)


def _line(row: list[str]) -> Line:
    source, table, dataset, n, d, model, inference, metric, value, stderr, *rest = row
    return Line(
        source,
        table,
        dataset,
        int(n) if n else None,
        int(d) if d else None,
        model,
        inference,
        metric,
        float(value),
        float(stderr) if stderr else None,
        *rest,
    )


@lru_cache(maxsize=1)
def _tree() -> dict[str, Any]:
    return yaml.load((FOLDER / "protocols.yaml").read_text(encoding="utf-8"), LOADER)


@lru_cache(maxsize=1)
def protocols() -> dict[str, Protocol]:
    """Protocols by name."""
    return {name: Protocol(**fields) for name, fields in _tree()["protocols"].items()}


def published_names(dataset: str) -> set[str]:
    """Names that a dataset of the catalogue has in publications."""
    return {dataset, *(name for name, ours in _tree()["datasets"].items() if ours == dataset)}


def dataset_names() -> set[str]:
    """Names of datasets that the catalogue or a publication has."""
    printed = {line.dataset for line in lines()}
    return {*printed, *map(catalogue_name, printed), *options("dataset", config_folders())}


def log_std(dataset: str) -> float | None:
    """Log of the targets' deviation: a standardised log density minus it is in original units."""
    return _tree()["log_std"].get(dataset)


def catalogue_name(dataset: str) -> str:
    """Name of a published dataset in dgpbench's catalogue."""
    return _tree()["datasets"].get(dataset, dataset)


@lru_cache(maxsize=1)
def _places() -> dict[tuple[str, ...], list[Line]]:
    """Lines by source, table and dataset, and by these and the model."""
    found: dict[tuple[str, ...], list[Line]] = {}
    for line in lines():
        place = (line.source, line.table, line.dataset)
        found.setdefault(place, []).append(line)
        found.setdefault((*place, line.model), []).append(line)
    return found


def find(wanted: dict) -> Published | None:
    """The one line that fits `wanted` (fields of KEYS). `error_divisor` overrules the protocol's; `scale`,
    such as -1, turns the number into the table's.

    UserError if several fit: a spec must name a cell, not a set of them.
    """
    if not {"source", "table", "dataset"} <= set(wanted):
        return None
    given = [(key, wanted[key]) for key in KEYS[3:] if key in wanted]
    fitting = _places().get(tuple(wanted[key] for key in KEYS[:4] if key in wanted), [])
    fitting = [line for line in fitting if all(getattr(line, key) == value for key, value in given)]
    if len(fitting) > 1:
        raise UserError(
            f"{len(fitting)} published cells fit {wanted}; name one, by model, inference, metric or n"
        )
    if not fitting:
        return None
    line = fitting[0]
    protocol, scale = protocols()[line.protocol], wanted.get("scale", 1)
    divisor = wanted.get("error_divisor") or protocol.divisor(line.dataset, line.model)
    printed = None if line.stderr is None else line.stderr * abs(scale)
    error = None if printed is None or divisor is None else printed / divisor
    return Published(
        line.value * scale,
        printed,
        error,
        line.confidence,
        line.note,
        line.source,
        line.table,
        protocol.repeats(line.dataset, line.model),
    )


@lru_cache(maxsize=1)
def citations() -> dict[str, str]:
    """Source name to full reference."""
    return yaml.load((FOLDER / "sources.yaml").read_text(encoding="utf-8"), LOADER)
