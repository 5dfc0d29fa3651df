"""Hand-made records of real experiments, keyed as a run would key them."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from dgpbench.config import compose, config_key, deviations, run_key
from dgpbench.store.layout import RECORD, unit_folder
from dgpbench.store.record import Record, build_record, dumps
from dgpbench.store.scan import Unit


def data_hash(dataset: str) -> str:
    return hashlib.sha256(dataset.encode()).hexdigest()


@functools.cache
def config(experiment: str, dataset: str, overrides: tuple[str, ...] = ()) -> dict:
    return compose([f"experiment={experiment}", f"dataset={dataset}", *overrides])


def record(
    experiment, dataset, split, metrics=None, *, status="done", overrides=(), seed=0, data=None, **fields
):
    """A record as `dgpbench run experiment=... dataset=... split=...` would leave it."""
    base = config(experiment, dataset, tuple(overrides))
    cfg = {**base, "split": split, "seed": seed}
    hash_ = data or data_hash(dataset)
    return build_record(
        cfg,
        key=run_key(cfg, hash_),
        config_key=config_key(cfg, hash_),
        status=status,
        metrics=metrics or {},
        deviations=deviations(base) if overrides else [],
        data_hash=hash_,
        **fields,
    )


def bare_record(**fields) -> Record:
    """A record that is empty except for some fields."""
    names = dict.fromkeys(("key", "config_key", "dataset", "model", "inference", "protocol", "finished"), "")
    return Record(**{**names, "status": "done", "split": 0, "seed": 0, "config": {}, **fields})


def unit(*args, **fields) -> Unit:
    made = record(*args, **fields)
    return Unit(made, unit_folder("results", made, made["key"]) / RECORD)


def units(experiment, dataset, values, metric="test_loglik", w=None, **fields) -> list[Unit]:
    """One done unit per value, for splits 0, 1, ...; None leaves a split out."""
    extra = {} if w is None else {"shapiro_w_median": w}
    return [
        unit(experiment, dataset, split, {metric: value, **extra}, **fields)
        for split, value in enumerate(values)
        if value is not None
    ]


def write(results: Path, made: dict) -> Path:
    """The record as a file where a run puts it."""
    folder = unit_folder(results, made, made["key"])
    folder.mkdir(parents=True)
    (folder / RECORD).write_text(dumps(made))
    return folder / RECORD


def plain_unit(words, dataset, split, metrics=None, *, status="done", seed=0, data=None, **fields) -> Unit:
    """A unit as `dgpbench run WORDS dataset=... split=...` would leave it: no experiment."""
    cfg = {**_plain_config(tuple(words), dataset), "split": split, "seed": seed}
    hash_ = data or cfg["dataset"].get("data_sha256") or data_hash(dataset)
    if cfg["budget"]["seconds"] is not None:
        cfg |= {"device": fields.get("device", "cpu x"), "threads": fields.get("threads", 1)}
    made = build_record(
        cfg,
        key=run_key(cfg, hash_),
        config_key=config_key(cfg, hash_),
        status=status,
        metrics=metrics or {},
        data_hash=hash_,
        **fields,
    )
    return Unit(made, unit_folder("results", made, made["key"]) / RECORD)


@functools.cache
def _plain_config(words: tuple[str, ...], dataset: str) -> dict:
    return compose([*words, f"dataset={dataset}"])


def plain_units(words, dataset, values, metric="test_loglik", **fields) -> list[Unit]:
    """One done unit per value, for splits 0, 1, ...; None leaves a split out."""
    return [
        plain_unit(words, dataset, split, {metric: value}, **fields)
        for split, value in enumerate(values)
        if value is not None
    ]
