"""Every number of one dataset, published and ours, a list for each unit: best first, with its provenance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from dgpbench.config.suggest import did_you_mean
from dgpbench.config.tree import config_folders, options, read_option
from dgpbench.errors import UserError
from dgpbench.evaluate import metric_table, metrics
from dgpbench.papers.published import Line as Printed
from dgpbench.papers.published import (
    catalogue_name,
    dataset_names,
    lines,
    log_std,
    protocols,
    published_names,
)
from dgpbench.report.grid import Entry, Grid, Line, with_error
from dgpbench.report.result_table import MARK, NOT_RERUN, by_split, community, not_recomputed
from dgpbench.report.rules import summarise
from dgpbench.store.record import Record
from dgpbench.store.scan import Unit

ORIGINAL, STANDARDISED, PERCENT = "original", "standardised", "percent"
WORDS = {  # of the units, the first list first
    ORIGINAL: "original units",
    "none": "probabilities of classes",
    PERCENT: "percent of test rows",
    STANDARDISED: "standardised units",
    "normalised": "normalised units, how is not said",
    "image": "nat per image",
    "pixel": "nat per pixel",
    "unknown": "units not stated",
}
APART = {  # why numbers are not mapped to original units
    STANDARDISED: "the deviation of the targets is not known: these cannot be mapped to original units",
    "normalised": "how the targets were scaled is not said: these cannot be mapped to original units",
    "unknown": "the source does not state its units: these numbers can be compared with each other only",
}
READINGS = {"ocr-checked": "reading checked", "ocr-doubtful": "doubtful reading"}
CHECKED = "reading checked: from a damaged or scanned copy, confirmed by another copy or by inner checks"
OURS, OTHERS = "ours", "community"
SUSPICIOUS = "treat with suspicion"  # in the note of a published number
LISTED = 20  # names that a message lists
METHOD = ("model", "inference")  # what a list can be filtered by


@dataclass(frozen=True)
class Quantity:
    """What is compared: the metrics of publications that give it, ours, and how it scales."""

    title: str
    units: str
    printed: tuple[str, ...]
    ours: tuple[tuple[str, str], ...]  # metric of a record, estimator
    better: str = "higher"
    format: str = ".3f"


LOGLIK = Quantity(
    "log-likelihood",
    "nat per test point",
    (metric_table.LOGLIK, "nlpp"),
    ((metric_table.LOGLIK, "exact mixture"), (metrics.LOGLIK_KDE, "kernel density of draws")),
)
RMSE = Quantity(
    "RMSE",
    "root of the mean squared error",
    (metrics.RMSE, "test_mse", "test_rmse_normalised", "test_rmse_standardised"),
    ((metrics.RMSE, "mean of the mixture"),),
    "lower",
    ".4g",
)
ACCURACY = Quantity(
    "accuracy",
    "share of test rows",
    ("accuracy", "error_rate"),
    ((metrics.ACCURACY, "most probable class"),),
)
CRPS = Quantity(
    "CRPS",
    "continuous ranked probability score",
    ("crps",),
    ((metrics.CRPS, "exact mixture"),),
    "lower",
    ".4g",
)
AUC = Quantity("AUC", "area under the ROC curve", ("auc",), ((metrics.AUC, "class probabilities"),))
QUANTITIES = (LOGLIK, RMSE, CRPS, ACCURACY, AUC)


@dataclass(frozen=True)
class Number:
    """One number in the unit of its list."""

    units: str  # one of WORDS
    value: float
    error: float | None
    runs: int | None
    model: str
    source: str
    estimator: str
    protocol: str
    confidence: str  # in the reading of a published number
    remark: str
    n_community: int = 0  # records of others behind it

    @property
    def doubtful(self) -> bool:
        return self.confidence == "ocr-doubtful" or SUSPICIOUS in self.remark.split("; ")


def is_dataset(name: str) -> bool:
    """True if the catalogue or a publication has a dataset of this name."""
    return name in dataset_names()


def dataset_grids(name: str, units: Sequence[Unit], filters: Sequence[str] = ()) -> list[Grid]:
    """Return a grid for each quantity of this dataset and each unit that its numbers cannot leave.

    Parameters
    ----------
    name : str
        A dataset of the catalogue or of a publication.
    units : sequence of Unit
        Records; those on other datasets are ignored.
    filters : sequence of str, default=()
        Words such as ``"model=dgp2,dgp3"`` and ``"inference=sghmc"``; values may be patterns.

    Raises
    ------
    UserError
        If a filter is not of this form or no number matches.
    """
    dataset = catalogue_name(name)
    names, shift = published_names(dataset), _log_std(dataset)
    printed = [line for line in lines() if line.dataset in names]
    own = [unit for unit in units if unit.record.dataset == dataset and unit.record.done]
    if filters:
        methods = [(line.model, line.inference) for line in printed]
        methods += [(unit.record.model, unit.record.inference) for unit in own]
        kept = _matching(filters, methods, dataset)
        printed = [line for line in printed if (line.model, line.inference) in kept]
        own = [unit for unit in own if (unit.record.model, unit.record.inference) in kept]
    grids = []
    for quantity in QUANTITIES:
        found = [line for line in printed if line.metric in quantity.printed]
        numbers = [_printed(line, quantity, shift) for line in _without_squares(found)]
        numbers += _ours(own, quantity)
        for i, unit in enumerate(sorted({number.units for number in numbers}, key=list(WORDS).index)):
            chosen = [number for number in numbers if number.units == unit]
            grids.append(_grid(dataset, quantity, unit, chosen, shift, i == 0))
    return grids


def _matching(
    filters: Sequence[str], methods: Iterable[tuple[str, str]], dataset: str
) -> set[tuple[str, str]]:
    """Return the (model, inference) pairs that match all filters."""
    kept = set(methods)
    for word in filters:
        field, _, value = word.partition("=")
        if field not in METHOD or not value:
            raise UserError(f"invalid filter '{word}'; use {' or '.join(f'{name}=NAME' for name in METHOD)}")
        at, wanted = METHOD.index(field), value.split(",")
        names = {method[at] for method in kept}
        kept = {method for method in kept if any(fnmatchcase(method[at], one) for one in wanted)}
        if not kept:
            some = sorted(filter(None, names))
            listed = ", ".join(some) if len(some) <= LISTED else f"those of `dgpbench tables {dataset}`"
            hint = did_you_mean(value, names) or f"; choose from {listed}"
            raise UserError(f"no number of {dataset} has {word}{hint}")
    return kept


def _without_squares(found: Sequence[Printed]) -> list[Printed]:
    """The lines without mean squared errors of which the root is printed too."""
    rooted = {line[:7] for line in found if line.metric == metrics.RMSE}
    return [line for line in found if line.metric != "test_mse" or line[:7] not in rooted]


def _log_std(dataset: str) -> float | None:
    """Log of the deviation of the targets: from the catalogue, else as measured on the published files."""
    path = options("dataset", config_folders()).get(dataset)
    stated = read_option(dataset, path).get("target_std") if path else None
    if isinstance(stated, float | int) and stated > 0:
        return math.log(stated)
    return next((found for name in published_names(dataset) if (found := log_std(name)) is not None), None)


def _printed(line: Printed, quantity: Quantity, shift: float | None) -> Number:
    """A published number, a standardised one in original units if the deviation of the targets is known."""
    protocol = protocols()[line.protocol]
    value, error, units = line.value, line.stderr, PERCENT if quantity is ACCURACY else protocol.units
    if error is not None:
        divisor = protocol.divisor(line.dataset, line.model)
        error = None if divisor is None else error / divisor
    remarks = [READINGS[line.confidence]] if line.confidence in READINGS else []
    remarks += [SUSPICIOUS] if SUSPICIOUS in line.note else []
    if line.metric == "nlpp":
        value = -value
    elif line.metric == "error_rate":
        value = 100 - value
    elif line.metric == "test_mse":
        value = math.sqrt(value)
        error = None if error is None else error / (2 * value)
    if units == STANDARDISED and shift is not None:
        units, scale = ORIGINAL, math.exp(shift)
        remarks.append("from standardised units")
        if quantity is LOGLIK:
            value -= shift
        else:
            value, error = value * scale, None if error is None else error * scale
    elif units == "normalised":
        remarks.append("normalised, how is not said")
    elif protocol.fits:
        remarks.append("units by size")
    return Number(
        units,
        value,
        error,
        protocol.repeats(line.dataset, line.model),
        " ".join(filter(None, (line.model, line.inference))),
        f"{line.source} {line.table}",
        protocol.scored or "not stated",
        line.protocol,
        line.confidence,
        "; ".join(remarks),
    )


def _ours(units: Iterable[Unit], quantity: Quantity) -> list[Number]:
    """Return means over splits of the records of each config."""
    groups: dict[str, list[Unit]] = {}
    for unit in units:
        groups.setdefault(unit.record.config_key, []).append(unit)
    numbers = []
    for group in groups.values():
        record = group[0].record
        for metric, estimator in quantity.ours:
            found = summarise(by_split(group, metric).values.values())
            if found is None or (metric.endswith("_kde") and not record.protocol.startswith("iwvi")):
                continue
            scale = 100.0 if quantity is ACCURACY else 1.0
            numbers.append(
                Number(
                    _units(record, quantity),
                    found.mean * scale,
                    None if found.error is None else found.error * scale,
                    found.n,
                    f"{record.model} {record.inference}",
                    f"{_origin(group)}: {record.experiment or 'no experiment'}",
                    estimator,
                    _settings(record),
                    "",
                    _remark(group),
                    len(community(group)),
                )
            )
    return numbers


def _units(record: Record, quantity: Quantity) -> str:
    if quantity is ACCURACY:
        return PERCENT
    if quantity is LOGLIK and metrics.LOGLIK_PER_PIXEL in record.metrics:
        return "image"
    return "none" if metrics.ACCURACY in record.metrics else ORIGINAL


def _origin(group: Sequence[Unit]) -> str:
    """Ours, unless all are of others."""
    return OTHERS if len(community(group)) == len(group) else OURS


def _remark(group: Sequence[Unit]) -> str:
    remarks = [text.partition(" (")[0] for text in group[0].record.deviations]
    if found := community(group):
        told = f"{NOT_RERUN}{not_recomputed(group)}"
        remarks.append(f"{len(found)} of {len(group)} records of others: {told}")
    return "; ".join(remarks)


def _settings(record: Record) -> str:
    steps = record.config["budget"]["steps"]
    trained = f", {steps:,} steps" if steps and record.steps_per_second else ""
    return f"protocol {record.protocol}{trained}"


def _grid(
    dataset: str, quantity: Quantity, units: str, numbers: list[Number], shift: float | None, first: bool
) -> Grid:
    """The list of the numbers of one unit, which its heading says."""
    name = f"{dataset}-{quantity.title}" + ("" if first else f"-{units}")
    sign = -1 if quantity.better == "higher" else 1
    numbers = sorted(
        numbers, key=lambda n: (n.doubtful, math.isnan(n.value), sign * n.value, n.source, n.model)
    )
    caption = WORDS[units] if units in ("image", "pixel", PERCENT) else f"{quantity.units}, {WORDS[units]}"
    data = [
        {"dataset": dataset, "quantity": quantity.title, **number.__dict__, "units": caption}
        for number in numbers
    ]
    return Grid(
        name,
        f"{dataset}: every {quantity.title}, published and ours: {WORDS[units]}",
        caption,
        ("model",),
        (quantity.title, "runs", "source", "estimator", "protocol", "remark"),
        tuple(_line(number, quantity) for number in numbers),
        data,
        tuple(_notes(quantity, units, numbers, shift)),
    )


def _line(number: Number, quantity: Quantity) -> Line:
    shown = with_error(number.value, number.error, quantity.format)
    entries = (
        Entry(shown, value=number.value, others=number.n_community > 0),
        Entry(str(number.runs or ""), value=number.runs),
        Entry(number.source),
        Entry(number.estimator),
        Entry(number.protocol),
        Entry(number.remark),
    )
    return Line((number.model,), entries, OURS if number.source.startswith((OURS, OTHERS)) else "published")


def _notes(quantity: Quantity, units: str, numbers: Sequence[Number], shift: float | None) -> list[str]:
    """How to read a list, and what the protocols in it are."""
    order = "best first" + (", doubtful ones last" if any(number.doubtful for number in numbers) else "")
    notes = [
        f"{quantity.better} is better; {order}; mean (standard error), runs: splits or repeats behind it"
    ]
    if units == ORIGINAL and shift is not None:
        notes.append(
            f"standardised numbers are mapped back with a deviation of the targets of {math.exp(shift):.5g}"
        )
    notes += [APART[units]] if units in APART else []
    notes += [CHECKED] if any(number.confidence == "ocr-checked" for number in numbers) else []
    notes.append("a number without (error): one run, or the source does not say what its +- is")
    if any(number.n_community for number in numbers):
        notes.append(f"{MARK}: with records of others from results/community/, {NOT_RERUN}; see remark")
    named = dict.fromkeys(number.protocol for number in numbers)
    return notes + [f"{name}: {protocols()[name].about}" for name in named if name in protocols()]
