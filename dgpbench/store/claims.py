"""Claims of a record that can be checked without its data: sizes, times and texts. Problems in words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from dgpbench.config.derived import budget_of, own_test, planned_steps

CLOCKS = timedelta(days=1)  # by which clocks may differ
EARLIEST = datetime(2017, 1, 1, tzinfo=timezone.utc)  # the year of the first paper that is rebuilt here
SHORTEST_STEP, SHORTEST_RUN = 1e-6, 1e-3  # seconds that no step and no run can stay below
TEXT, NOTES, RECORD_BYTES = 2000, 20_000, 1 << 18  # characters of a text and of all notes; without the trace


def size_problems(record: dict, entry: dict) -> Iterator[str]:
    """Rows, inputs and outputs that do not follow from the catalogue's `entry` and the protocol."""
    sizes, protocol = record["sizes"], record["config"]["protocol"]
    train, test = sizes.get("n_train"), sizes.get("n_test")
    if not train or not test or not sizes.get("inputs") or not sizes.get("outputs"):
        yield "it does not say how many rows, inputs and outputs it was trained and tested on"
        return
    if sizes["outputs"] != 1 and not entry.get("image") and not entry.get("generator"):
        yield f"it has {sizes['outputs']:,} outputs, and the data have 1"
    facts = entry if entry.get("data_sha256") else entry | record["config"]["dataset"]
    levels = facts.get("level") is not None  # n counts the rows of the highest alone
    rows, inputs = None if levels else facts.get("n"), facts.get("d")
    used = max(train, test) if protocol["name"] == "whole" else train + test
    if rows and used > rows:
        yield f"it was trained and tested on {used:,} rows, and the data have {rows:,}"
    most = protocol.get("train_rows")
    if most and train > most:
        yield f"it was trained on {train:,} rows, and its protocol allows {most:,}"
    own = {
        "n": rows,
        "image": entry.get("image"),
        "train_rows": record["config"]["dataset"].get("train_rows"),
    }
    expected = division(own, protocol)
    if expected is None:
        return
    classes = min(sizes.get("classes", 0), expected[0] // 10)
    slack = classes if protocol.get("stratify") else 0  # every class trains
    for name, found, wanted in (("trained", train, expected[0]), ("tested", test, expected[1])):
        if abs(found - wanted) > slack:
            yield f"it was {name} on {found:,} rows, and its protocol gives {wanted:,}"
    if inputs and not protocol.get("row_number") and sizes["inputs"] != inputs:
        yield f"it has {sizes['inputs']:,} inputs, and the data have {inputs:,}"


def division(dataset: dict, protocol: dict) -> tuple[int, int] | None:
    """Rows that train and rows that test, as data/load.py divides them; None where data must be read."""
    rows, rule = dataset.get("n"), protocol["split_rule"]
    if not rows or rule == "published" or dataset.get("image"):
        return None
    if own_test(dataset, protocol):
        train = dataset["train_rows"]
    elif rule == "cover":
        train = rows - protocol["test_rows"]
    elif rule == "extrapolate":
        train = rows - int(rows * (1.0 - protocol["train_fraction"]))
    else:
        train = int(rows * protocol["train_fraction"])
    test = rows - train
    if protocol["name"] == "whole" and not test:
        test = train
    train = min(train, protocol.get("train_rows") or train)
    test = min(test, protocol.get("max_test") or test)
    if protocol.get("validation"):
        train -= max(1, round(protocol["validation"] * train))
    return train, test


def time_problems(record: dict) -> Iterator[str]:
    """Steps that are not those of the budget, and times that cannot be."""
    cfg, training, wall = record["config"], record["training"], record["wall_seconds"]
    steps, seconds, budget = training.get("steps"), training.get("seconds"), budget_of(cfg)
    wanted = planned_steps(budget, record["sizes"]["n_train"])
    own = cfg["model"].get("own_training")
    may_end = budget["seconds"] or budget["stop"] != "none" or own
    if wanted and steps is not None and (steps > wanted or (steps < wanted and not may_end)):
        yield f"it took {steps:,} training steps, and its budget is {wanted:,}"
    if wanted and not steps and not own and not cfg["model"].get("closed_form"):
        yield "it does not say how many training steps it took"
    begun = max(training.get("resumed_from") or [0])  # else its times are those of the last part
    whole, part = not training.get("resumed_from"), (steps or 0) - begun
    if begun and part <= 0:
        yield f"it says that it resumed from step {begun:,}, and that it took {steps or 0:,}"
    if whole and steps and seconds and record["steps_per_second"]:
        if not 0.5 < record["steps_per_second"] * seconds / steps < 2:
            yield "its steps, seconds and steps per second do not fit together"
    if wall is None:
        yield "it does not say how long it ran"
    elif wall < SHORTEST_RUN or wall < SHORTEST_STEP * part:
        of = f" of {steps:,} steps" if steps else ""
        yield f"it ran for {wall:g} seconds, which is too short for any run{of}"
    elif whole and seconds and wall < 0.99 * seconds:
        yield "it trained longer than it ran"
    elif max(record["predict_seconds"] or 0, record["evaluate_seconds"] or 0) > wall:
        yield "it was evaluated for longer than it ran"
    for name in ("seconds", "cpu_seconds"):
        if training.get(name) is not None and training[name] < SHORTEST_STEP * part:
            yield f"training.{name} is {training[name]:g}, which is too short for {part:,} steps"
    finished = datetime.fromisoformat(record["finished"]).astimezone(timezone.utc)
    if wall is not None and wall > (finished - EARLIEST).total_seconds() >= 0:
        yield f"it ran for {wall:g} seconds, and would have begun before {EARLIEST.year}"
    if finished > datetime.now(timezone.utc) + CLOCKS:
        yield "it finishes in the future"
    if finished < EARLIEST:
        yield f"it finished in {finished.year}, before there were such runs"


def text_problems(record: dict) -> Iterator[str]:
    """Texts that are too long, or hold what a terminal would obey."""
    if record["reason"] is not None:
        yield "it is done and has a reason why it is not"
    if record["git_commit"] and not re.fullmatch(r"[0-9a-f]{40}\+?", record["git_commit"]):
        yield "git_commit is no commit"
    if sum(map(len, record["notes"])) > NOTES:
        yield f"its notes are longer than {NOTES:,} characters"
    short = {**record, "training": {k: v for k, v in record["training"].items() if k != "trace"}}
    for place, text in _texts(short, ""):
        if len(text) > TEXT:
            yield f"{place} holds a text longer than {TEXT:,} characters"
        if not text.isprintable() and any(not c.isprintable() and c not in "\n\t" for c in text):
            yield f"{place} holds control characters"
    if len(json.dumps(short)) > RECORD_BYTES:
        yield f"it is larger than {RECORD_BYTES >> 10} kB without its trace"


def _texts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Every text in a record, names of fields included, with the field at the top that it is in."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield place or "a name", name
            yield from _texts(part, place or name)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part, place)
