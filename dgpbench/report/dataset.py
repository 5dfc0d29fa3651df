"""Every number of one dataset, published and ours, in one unit: best first, with protocol and estimator."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dgpbench.config.tree import config_folders, options, read_option
from dgpbench.report.cells import by_split
from dgpbench.report.grid import Entry, Grid, Line, with_error
from dgpbench.report.others import MARK, NOT_RERUN, community, not_recomputed
from dgpbench.report.published import DOUBTFUL, catalogue_name, lines, log_std, protocols, published_names
from dgpbench.report.published import Line as Printed
from dgpbench.report.rules import summarise
from dgpbench.store.scan import Unit

ORIGINAL, SCALED = "original", ("standardised", "normalised")
OURS, OTHERS = "ours", "community"


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
    ("test_loglik", "nlpp"),
    (("test_loglik", "exact mixture"), ("test_loglik_kde", "kernel density of draws")),
)
RMSE = Quantity(
    "RMSE",
    "root of the mean squared error",
    ("test_rmse", "test_mse", "test_rmse_normalised", "test_rmse_standardised"),
    (("test_rmse", "mean of the mixture"),),
    "lower",
    ".4g",
)
ACCURACY = Quantity(
    "accuracy",
    "percent of test rows",
    ("accuracy", "error_rate"),
    (("test_accuracy", "most probable class"),),
)
QUANTITIES = (LOGLIK, RMSE, ACCURACY)


@dataclass(frozen=True)
class Number:
    """One number in the unit of its table."""

    value: float
    error: float | None
    runs: int | None
    model: str
    source: str
    estimator: str
    protocol: str
    remark: str
    n_community: int = 0  # records of others behind it


def known(name: str) -> bool:
    """True if the catalogue or a publication has a dataset of this name."""
    return bool({line.dataset for line in lines()} & published_names(catalogue_name(name))) or (
        catalogue_name(name) in options("dataset", config_folders())
    )


def everything(name: str, units: Sequence[Unit]) -> list[Grid]:
    """A grid for each quantity that has a number of this dataset."""
    dataset = catalogue_name(name)
    names, shift = published_names(dataset), _log_std(dataset)
    grids = []
    for quantity in QUANTITIES:
        found = [_printed(line, quantity, shift) for line in lines() if line.dataset in names]
        numbers = [number for number in found if number] + _ours(units, dataset, quantity)
        if numbers:
            grids.append(_grid(dataset, quantity, numbers, shift))
    return grids


def _log_std(dataset: str) -> float | None:
    """Log of the deviation of the targets: from the catalogue, else as measured on the published files."""
    path = options("dataset", config_folders()).get(dataset)
    stated = read_option(dataset, path).get("target_std") if path else None
    if isinstance(stated, float | int) and stated > 0:
        return math.log(stated)
    return next((found for name in published_names(dataset) if (found := log_std(name)) is not None), None)


def _printed(line: Printed, quantity: Quantity, shift: float | None) -> Number | None:
    """A published number in original units where they are known, else as it stands."""
    if line.metric not in quantity.printed:
        return None
    protocol = protocols()[line.protocol]
    value, error = line.value, line.stderr
    if error is not None:
        divisor = protocol.divisor(line.dataset)
        error = None if divisor is None else error / divisor
    remarks = ["doubtful reading"] if line.confidence == DOUBTFUL else []
    remarks += ["treat with suspicion"] if "treat with suspicion" in line.note else []
    if line.metric == "nlpp":
        value = -value
    elif line.metric == "error_rate":
        value = 100 - value
    elif line.metric == "test_mse":
        value = math.sqrt(value)
        error = None if error is None else error / (2 * value)
    if protocol.units in SCALED and quantity is not ACCURACY:
        if shift is None:
            remarks.append(f"{protocol.units} units")
        else:
            remarks.append(f"from {protocol.units} units")
            scale = math.exp(shift)
            value, error = (
                (value - shift, error)
                if quantity is LOGLIK
                else (value * scale, None if error is None else error * scale)
            )
    elif protocol.fits:
        remarks.append("units by size")
    return Number(
        value,
        error,
        protocol.repeats(line.dataset),
        " ".join(filter(None, (line.model, line.inference))),
        f"{line.source} {line.table}",
        protocol.scored or "not stated",
        line.protocol,
        "; ".join(remarks),
    )


def _ours(units: Iterable[Unit], dataset: str, quantity: Quantity) -> list[Number]:
    """Means over splits of the records of each config."""
    groups: dict[str, list[Unit]] = {}
    for unit in units:
        if unit.record["dataset"] == dataset and unit.record["status"] == "done":
            groups.setdefault(unit.record["config_key"], []).append(unit)
    numbers = []
    for group in groups.values():
        record = group[0].record
        for metric, estimator in quantity.ours:
            found = summarise(by_split(group, None, metric)[0].values())
            if found is None or (metric.endswith("_kde") and not record["protocol"].startswith("iwvi")):
                continue
            scale = 100.0 if quantity is ACCURACY else 1.0
            numbers.append(
                Number(
                    found.mean * scale,
                    None if found.error is None else found.error * scale,
                    found.n,
                    f"{record['model']} {record['inference']}",
                    f"{_whose(group)}: {record['experiment'] or 'no experiment'}",
                    estimator,
                    _settings(record),
                    _remark(group),
                    len(community(group)),
                )
            )
    return numbers


def _whose(group: Sequence[Unit]) -> str:
    """Ours, unless all are of others."""
    return OTHERS if len(community(group)) == len(group) else OURS


def _remark(group: Sequence[Unit]) -> str:
    remarks = [text.partition(" (")[0] for text in group[0].record["deviations"]]
    if found := community(group):
        told = f"{NOT_RERUN}{not_recomputed(group)}"
        remarks.append(f"{len(found)} of {len(group)} records of others: {told}")
    return "; ".join(remarks)


def _settings(record: dict) -> str:
    steps = record["config"]["budget"]["steps"]
    trained = f", {steps:,} steps" if steps and record["steps_per_second"] else ""
    return f"protocol {record['protocol']}{trained}"


def _grid(dataset: str, quantity: Quantity, numbers: list[Number], shift: float | None) -> Grid:
    sign = -1 if quantity.better == "higher" else 1
    numbers = sorted(numbers, key=lambda n: (math.isnan(n.value), sign * n.value, n.source, n.model))
    shown = [
        Line(
            (number.model,),
            (
                Entry(
                    with_error(number.value, number.error, quantity.format),
                    value=number.value,
                    others=number.n_community > 0,
                ),
                Entry(str(number.runs or ""), value=number.runs),
                Entry(number.source),
                Entry(number.estimator),
                Entry(number.protocol),
                Entry(number.remark),
            ),
            OURS if number.source.startswith((OURS, OTHERS)) else "published",
        )
        for number in numbers
    ]
    notes = [
        f"{quantity.better} is better; best first; mean (standard error), runs: splits or repeats behind it"
    ]
    units = quantity.units
    if quantity is not ACCURACY and shift is not None:
        units += ", original units"
        notes.append(
            f"standardised numbers are mapped back with a deviation of the targets of {math.exp(shift):.5g}"
        )
    notes.append("a number without (error): one run, or the source does not say what its +- is")
    if any(number.n_community for number in numbers):
        notes.append(f"{MARK}: with records of others from results/community/, {NOT_RERUN}; see remark")
    named = dict.fromkeys(number.protocol for number in numbers)
    notes += [f"{name}: {protocols()[name].about}" for name in named if name in protocols()]
    data = [
        {"dataset": dataset, "quantity": quantity.title, "units": units, **number.__dict__}
        for number in numbers
    ]
    return Grid(
        f"{dataset}-{quantity.title}",
        f"{dataset}: every {quantity.title}, published and ours",
        units,
        ("model",),
        (quantity.title, "runs", "source", "estimator", "protocol", "remark"),
        tuple(shown),
        data,
        tuple(notes),
    )
