"""Records that somebody offers: taken if they agree with themselves, with the catalogue and with arithmetic.

This proves consistency, not truth: nobody has run them again. Each refusal says why. What is taken says in
its notes if its metrics were computed again from predictions, and its deviations are those of its config.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from dgpbench.config import compose, deviations
from dgpbench.config.keys import likelihood_settings, settings
from dgpbench.config.plugins import own_targets
from dgpbench.config.schema import show_value
from dgpbench.config.sections import flatten
from dgpbench.config.tree import options, read_option
from dgpbench.errors import UserError
from dgpbench.store.claims import kind_of, metric_problems, size_problems, text_problems, time_problems
from dgpbench.store.layout import RECORD
from dgpbench.store.read import predictions
from dgpbench.store.record import Record
from dgpbench.store.scan import RECOMPUTED, Unit, packed_lines, parse, read_record, scan_own
from dgpbench.store.trust import check_record, code_packages
from dgpbench.store.verify import column_problems, file_problems
from dgpbench.store.write import PREDICTIONS

REFUSALS = 1000  # after so many nothing more is read: a small .gz can hold lines without end


class Refusal(NamedTuple):
    place: str
    reason: str


def check(source: Path, held: Iterable[str]) -> tuple[list[Unit], list[Refusal]]:
    """The records of a folder or file that verify, and why the others do not; `held`: keys that are known."""
    refused: list[Refusal] = []
    taken: dict[str, Unit] = {}
    known = set(held)
    for found in _units(source):
        if len(refused) == REFUSALS:
            refused.append(Refusal(str(source), f"{REFUSALS:,} refusals are enough: the rest was not read"))
            break
        if isinstance(found, Refusal):
            refused.append(found)
            continue
        unit, place = found
        reason = next(_problems(unit, known | set(taken)), None)
        if reason is None:
            taken[unit.record.key] = _as_found(unit)
        else:
            refused.append(Refusal(place, reason))
    return list(taken.values()), refused


def _units(source: Path) -> Iterator[tuple[Unit, str] | Refusal]:
    """Records with their places; refusals of those that cannot be read."""
    if source.is_dir() and not (source / RECORD).is_file():
        unreadable: list[str] = []
        for unit in scan_own(source, unreadable.append):
            yield unit, str(unit.path)
        yield from (Refusal(str(source), text) for text in unreadable)
    elif source.is_dir() or source.name == RECORD:
        folder = source if source.is_dir() else source.parent
        try:
            record = read_record(folder)
            if record:
                yield Unit(record, folder / RECORD), str(folder / RECORD)
        except (OSError, ValueError) as error:
            yield Refusal(str(folder / RECORD), str(error))
    elif source.name.endswith(".jsonl.gz") and source.is_file():
        try:
            for number, line in enumerate(packed_lines(source), 1):
                try:
                    yield Unit(parse(line), source), f"{source}, line {number}"
                except ValueError as error:
                    yield Refusal(f"{source}, line {number}", str(error))
        except (OSError, EOFError, ValueError, zlib.error) as error:
            yield Refusal(str(source), f"it cannot be read to its end: {error}")
    else:
        raise UserError(f"no records in {source}; give a results folder, a {RECORD} or a .jsonl.gz file")


def _problems(unit: Unit, known: set[str]) -> Iterator[str]:
    """What is wrong with a record, the plainest first."""
    record = unit.record
    if not record.done:
        yield f"it is {record.status}; only finished runs are taken"
    own = own_targets()
    if packages := code_packages([record.config], own):
        yield f"it ran code of {', '.join(packages)[:200]}; only models and methods of dgpbench are taken"
        return
    try:
        check_record(record, own)
    except ValueError as error:
        yield str(error)
        return
    yield from text_problems(record)
    yield from _name_problems(record.config)
    path = options("dataset").get(record.dataset)
    entry = read_option(record.dataset, path) if path else {}
    if not path or "path" in entry:  # a file of one's own
        yield f"dataset {record.dataset} is not in the catalogue: nobody else could have its data"
        return
    stated = entry.get("data_sha256")
    if stated and record.data_hash != stated and record.config["protocol"]["split_rule"] != "published":
        yield f"its data are not those that the catalogue states for {record.dataset}"
    yield from _experiment_problems(record)
    for problems in (size_problems(record, entry), metric_problems(record, entry), time_problems(record)):
        yield from problems
    if not unit.is_reference:
        yield from file_problems(unit)
        if PREDICTIONS in record.files:
            yield from column_problems(kind_of(record), predictions(unit))
    if record.key in known:
        yield "a record of this key is here already"


def _name_problems(cfg: dict) -> Iterator[str]:
    """Names that dgpbench does not have, or has for other code: lists of a dataset show them."""
    model, inference, protocol = (cfg[group]["name"] for group in ("model", "inference", "protocol"))
    if model not in options("model"):
        yield f"there is no model {model}; only models of dgpbench are taken"
        return
    if protocol not in options("protocol"):
        yield f"there is no protocol {protocol}"
    own = _composed(f"model={model}")
    if cfg["model"].get("_target_") != own["model"]["_target_"]:
        yield f"its model is no {model}, which is {own['model']['_target_']}"
    depth, named = (values["model"].get("layers", []).count("gp") for values in (cfg, own))
    if depth != named:
        yield f"it has {depth} GP layers, and {model} has {named}; name the model that has so many"
    if inference not in (own["inference"]["name"], *options("inference")):
        yield f"there is no inference {inference} of model {model}"


def _as_found(unit: Unit) -> Unit:
    """The record with deviations and the note of its metrics as found here, whatever it says itself."""
    record = unit.record
    notes = [text for text in record.notes if text != RECOMPUTED]
    if not unit.is_reference and PREDICTIONS in record.files:
        notes.append(RECOMPUTED)
    return Unit(replace(record, notes=notes, deviations=_deviations(record)), unit.path)


def _deviations(record: Record) -> list[str]:
    """Deviations of a record's config from its experiment, as dgpbench has it, in fields that determine the
    numbers: in others an experiment may since have changed. What the record itself says stays."""
    cfg = record.config
    found = deviations({**cfg, "paths": {**cfg["paths"], "config_dirs": []}})
    fields = settings(cfg)
    return [text for text in found if text in record.deviations or text.partition("=")[0] in fields]


def _experiment_problems(record: Record) -> Iterator[str]:
    """A name is only a name: cells take records by their config. But it must not be another's, and what is
    said to deviate must."""
    name, cfg = record.experiment, record.config
    if name is not None and name not in options("experiment"):
        yield f"there is no experiment {name}"
        return
    if name != cfg["experiment"]:
        yield "its experiment is not that of its config"
        return
    stated = [text.partition(" (")[0] for text in record.deviations]
    if name is None:
        if stated:
            yield "it deviates from no experiment"
        return
    values = flatten({**cfg, "likelihood": likelihood_settings(cfg)})
    fields = [text.partition("=")[0] for text in stated]
    held = [f"{field}={show_value(values.get(field))}" for field in fields]
    if invented := [text for text, true in zip(stated, held, strict=True) if text != true]:
        yield f"it is said to deviate by {invented[0][:200]}, which is not in its config"
    fields = [text.partition("=")[0] for text in _deviations(record)]
    for group, option in _groups(name).items():
        own, begin = cfg[group]["name"], f"{group}."
        said = any(text.startswith(begin) for text in stated)
        if own != option and not said and any(field.startswith(begin) for field in fields):
            yield f"its {group} is {own}, that of experiment {name} is {option}, and it does not say so"


@lru_cache(maxsize=256)
def _composed(word: str) -> dict:
    return compose([word])


def _groups(experiment: str) -> dict[str, str]:
    """Names of the model, the inference and the protocol of an experiment."""
    cfg = _composed(f"experiment={experiment}")
    return {group: cfg[group]["name"] for group in ("model", "inference", "protocol")}
