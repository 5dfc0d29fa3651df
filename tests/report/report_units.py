"""Hand-made records of real experiments, keyed as a run would key them."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from dgpbench.config import compose, config_key, deviations, run_key
from dgpbench.store.layout import RECORD, unit_folder
from dgpbench.store.scan import Unit
from dgpbench.store.schema import build_record, dumps


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
