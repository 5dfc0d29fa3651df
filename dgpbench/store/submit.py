"""Records that somebody offers: taken if they agree with themselves, with the catalogue and with arithmetic.

This proves consistency, not truth: nobody has run them again. Each refusal says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import NamedTuple

from dgpbench.config.budget import budget_of, planned_steps
from dgpbench.config.keys import likelihood_name
from dgpbench.config.protocol import own_test
from dgpbench.config.tree import options, read_option
from dgpbench.errors import UserError
from dgpbench.store.layout import RECORD
from dgpbench.store.scan import Unit, packed_lines, parse, read_record, scan_own
from dgpbench.store.trust import check_record, code_packages
from dgpbench.store.verify import file_problems

SHARES = (
    "test_coverage95",
    "test_pit_ks",
    "shapiro_w_median",
    "test_accuracy",
    "test_error",
    "test_auc",
    "test_ece",
)
NOT_NEGATIVE = ("test_rmse", "test_rmse_std", "test_crps", "test_crps_std", "test_brier", "test_loglik_mc_se")
SAME = 1e-4  # relative: one deviation of the targets maps all metrics of a record
SPREAD = 0.5  # how far a training set's log deviation may be from the whole data's
CLOCKS = timedelta(days=1)  # by which clocks may differ


class Refusal(NamedTuple):
    place: str
    reason: str


def check(source: Path, held: Iterable[str]) -> tuple[list[Unit], list[Refusal]]:
    """The records of a folder or file that verify, and why the others do not; `held`: keys that are known."""
    refused: list[Refusal] = []
    taken: dict[str, Unit] = {}
    known = set(held)
    for unit, place in _units(source, lambda place, reason: refused.append(Refusal(place, reason))):
        reason = next(_problems(unit, known | set(taken)), None)
        if reason is None:
            taken[unit.record["key"]] = unit
        else:
            refused.append(Refusal(place, reason))
    return list(taken.values()), refused


def _units(source: Path, refuse: Callable[[str, str], None]) -> Iterator[tuple[Unit, str]]:
    """Records with their places; those that cannot be read are refused."""
    if source.is_dir() and not (source / RECORD).is_file():
        for unit in scan_own(source, lambda text: refuse(str(source), text)):
            yield unit, str(unit.path)
    elif source.is_dir() or source.name == RECORD:
        folder = source if source.is_dir() else source.parent
        try:
            record = read_record(folder)
            if record:
                yield Unit(record, folder / RECORD), str(folder / RECORD)
        except (OSError, ValueError) as error:
            refuse(str(folder / RECORD), str(error))
    elif source.name.endswith(".jsonl.gz") and source.is_file():
        try:
            for number, line in enumerate(packed_lines(source), 1):
                try:
                    yield Unit(parse(line), source), f"{source}, line {number}"
                except ValueError as error:
                    refuse(f"{source}, line {number}", str(error))
        except (OSError, EOFError, ValueError) as error:
            refuse(str(source), f"it cannot be read to its end: {error}")
    else:
        raise UserError(f"no records in {source}; give a results folder, a {RECORD} or a .jsonl.gz file")


def _problems(unit: Unit, known: set[str]) -> Iterator[str]:
    """What is wrong with a record, the plainest first."""
    record = unit.record
    if record["status"] != "done":
        yield f"it is {record['status']}; only finished runs are taken"
    if packages := code_packages([record["config"]]):
        yield f"it ran code of {', '.join(packages)[:200]}; only models and methods of dgpbench are taken"
        return
    try:
        check_record(record)
    except ValueError as error:
        yield str(error)
        return
    yield from _dataset_problems(record)
    yield from _experiment_problems(record)
    yield from _size_problems(record)
    yield from _metric_problems(record)
    yield from _training_problems(record)
    if not unit.is_reference:
        yield from file_problems(unit)
    if record["key"] in known:
        yield "a record of this key is here already"


def _dataset_problems(record: dict) -> Iterator[str]:
    path = options("dataset").get(record["dataset"])
    if path is None:
        yield f"dataset {record['dataset']} is not in the catalogue: nobody else could have its data"
        return
    stated = read_option(record["dataset"], path).get("data_sha256")
    if stated and record["data_hash"] != stated and record["config"]["protocol"]["split_rule"] != "published":
        yield f"its data are not those that the catalogue states for {record['dataset']}"


def _experiment_problems(record: dict) -> Iterator[str]:
    """A name is only a name: cells take records by their config."""
    name = record["experiment"]
    if name is not None and name not in options("experiment"):
        yield f"there is no experiment {name}"
    elif name != record["config"]["experiment"]:
        yield "its experiment is not that of its config"


def _size_problems(record: dict) -> Iterator[str]:
    sizes, cfg = record["sizes"], record["config"]
    rows = None if cfg["dataset"].get("lower") else cfg["dataset"].get("n")  # of the highest level alone
    train, test = sizes.get("n_train"), sizes.get("n_test")
    if not train or not test:
        yield "it does not say how many rows it was trained and tested on"
        return
    protocol = cfg["protocol"]
    if protocol["name"] == "whole":  # every row trains and every row is scored
        if rows and max(train, test) > rows:
            yield f"it was trained and tested on {max(train, test):,} rows, and the data have {rows:,}"
        return
    if rows and train + test > rows:
        yield f"it was trained and tested on {train + test:,} rows, and the data have {rows:,}"
    share, most = protocol["train_fraction"], protocol.get("train_rows")
    if most and train > most:
        yield f"it was trained on {train:,} rows, and its protocol allows {most:,}"
    simple = (
        protocol["split_rule"] != "published"
        and not protocol["validation"]
        and not own_test(cfg["dataset"], protocol)
        and not most
    )
    if rows and simple and abs(train - share * rows) > 1 + 0.02 * rows:
        yield f"it was trained on {train:,} rows, and its protocol gives about {share * rows:,.0f}"


def _metric_problems(record: dict) -> Iterator[str]:
    metrics = record["metrics"]
    if (
        metrics.get("test_loglik") is None
        and metrics.get("test_rmse") is None
        and metrics.get("test_accuracy") is None
    ):
        yield "it has no test metrics"
    for name in SHARES:
        if metrics.get(name) is not None and not 0 <= metrics[name] <= 1:
            yield f"{name} is {metrics[name]:g}, and a share lies between 0 and 1"
    for name in NOT_NEGATIVE:
        if metrics.get(name) is not None and metrics[name] < 0:
            yield f"{name} is {metrics[name]:g}, and cannot be negative"
    if record["sizes"].get("outputs", 1) == 1:
        yield from _scale_problems(record)


def _scale_problems(record: dict) -> Iterator[str]:
    """One deviation of the training targets maps standardised to original units, in every metric."""
    metrics = record["metrics"]
    scales = {}
    for name in ("test_loglik", "test_loglik_kde", "test_rmse", "test_crps"):
        value, scaled = metrics.get(name), metrics.get(f"{name}_std")
        if value is None or scaled is None:
            continue
        if name.startswith("test_loglik"):
            scales[name] = scaled - value
        elif value > 0 and scaled > 0:
            scales[name] = math.log(value / scaled)
    if scales and max(scales.values()) - min(scales.values()) > SAME:
        least, most = min(scales, key=scales.__getitem__), max(scales, key=scales.__getitem__)
        yield f"{least} and {most} do not follow from their standardised values by one and the same scale"
    cfg = record["config"]
    stated = cfg["dataset"].get("target_std") if likelihood_name(cfg, "regression") == "gaussian" else None
    if scales and stated and abs(next(iter(scales.values())) - math.log(stated)) > SPREAD:
        yield f"its metrics imply another deviation of the targets than the catalogue's {stated:g}"


def _training_problems(record: dict) -> Iterator[str]:
    cfg, training = record["config"], record["training"]
    steps, seconds, budget = training.get("steps"), training.get("seconds"), budget_of(cfg)
    wanted = planned_steps(budget, record["sizes"]["n_train"])
    may_end = budget["seconds"] or budget["stop"] != "none" or cfg["model"].get("own_training")
    if wanted and steps is not None and (steps > wanted or steps < wanted and not may_end):
        yield f"it took {steps:,} training steps, and its budget is {wanted:,}"
    whole = not training.get("resumed_from")  # else its times are those of the last part
    if whole and steps and seconds and record["steps_per_second"]:
        if not 0.5 < record["steps_per_second"] * seconds / steps < 2:
            yield "its steps, seconds and steps per second do not fit together"
    if whole and seconds and record["wall_seconds"] is not None and record["wall_seconds"] < 0.99 * seconds:
        yield "it trained longer than it ran"
    if (
        datetime.fromisoformat(record["finished"]).astimezone(timezone.utc)
        > datetime.now(timezone.utc) + CLOCKS
    ):
        yield "it finishes in the future"
