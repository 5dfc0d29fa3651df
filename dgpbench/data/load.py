"""load_split: from a composed config to a Split."""

from __future__ import annotations

import numpy as np

from dgpbench.data.cache import Data, load_data
from dgpbench.data.catalogue import Entry, entry_from_config
from dgpbench.data.published import load_published
from dgpbench.data.scaling import moments, scale, scale_targets
from dgpbench.data.sources import Note, silent
from dgpbench.data.split import Split
from dgpbench.data.splits import RULES, carve_validation, check_index, shuffle_rows
from dgpbench.errors import UserError
from dgpbench.keys import likelihood_settings

_INSPECT_VALUES = 5_000_000


def load_split(cfg: dict, note: Note | None = None) -> Split:
    """Fetch (if need be), parse, split and scale the dataset a config names."""
    note = note or silent
    entry, protocol, split = entry_from_config(cfg["dataset"]), cfg["protocol"], cfg.get("split", 0)
    data, train, test = _rows(entry, cfg["paths"], protocol, split, note)
    if min(len(train), len(test)) < 1:
        raise UserError(
            f"dataset {entry.name} has {len(data.X)} rows: protocol {protocol['name']} leaves {len(train)} "
            f"to train and {len(test)} to test; change protocol.train_fraction"
        )
    if protocol.get("max_test"):
        test = test[: protocol["max_test"]]
    valid = None
    if protocol.get("validation"):
        train, valid = carve_validation(train, split, protocol["validation"])
    likelihood = likelihood_settings(cfg)
    return _scaled(entry, data, train, test, valid, protocol["scaling"], split, likelihood)


def _rows(
    entry: Entry, paths: dict, protocol: dict, split: int, note: Note
) -> tuple[Data, np.ndarray, np.ndarray]:
    rule = protocol["split_rule"]
    if rule not in RULES:
        raise UserError(f"protocol.split_rule={rule!r}; allowed: {', '.join(RULES)}")
    check_index(split, protocol["splits"], protocol["name"])
    if rule == "published":
        return load_published(entry, paths, split, note)
    data = load_data(entry, paths, note)
    train, test = shuffle_rows(len(data.X), 0 if rule == "fixed_zero" else split, protocol["train_fraction"])
    return data, train, test


def _scaled(
    entry: Entry, data: Data, train, test, valid, scaling: str, split: int, likelihood: dict
) -> Split:
    if scaling not in ("train", "all"):
        raise UserError(f"protocol.scaling={scaling!r}; allowed: train, all")
    found = moments(data.X, train if scaling == "train" else None)
    x_mean, x_std = scale(found, scaling)
    y_mean, y_std, n_classes = np.zeros(data.Y.shape[1]), np.ones(data.Y.shape[1]), 0
    if entry.task == "regression":
        y_mean, y_std = scale_targets(data.Y, train, scaling, likelihood)
    else:
        n_classes = entry.n_classes or int(data.Y.max()) + 1
    traps = [*entry.traps, *_traps_found(entry, data, train, test, found.constant)]
    return Split(
        data.X,
        data.Y,
        train,
        test,
        x_mean,
        x_std,
        y_mean,
        y_std,
        scaling,
        entry.name,
        data.data_hash,
        split,
        entry.task,
        n_classes,
        valid,
        traps,
        _density(entry),
    )


def _density(entry: Entry):
    if entry.kind != "synthetic":
        return None
    from dgpbench.data.synthetic import log_density

    return log_density(entry)


def _traps_found(entry: Entry, data: Data, train, test, constant: np.ndarray) -> list[str]:
    """What a look at the numbers shows, said for data that nobody has described in the catalogue."""
    found = []
    if constant.any() and not any("constant" in t for t in entry.traps):
        columns = ", ".join(str(i) for i in np.flatnonzero(constant)[:8])
        found.append(f"input {columns} is constant in the rows used for scaling; it is mapped to zero")
    if entry.kind != "csv" or data.X.size > _INSPECT_VALUES:
        return found
    X, Y = np.asarray(data.X), np.asarray(data.Y)
    steps = np.diff(X, axis=0)
    for i in np.flatnonzero((steps == 1).all(axis=0)):
        found.append(f"input {i} counts the rows: probably a row number (dataset.drop leaves it out)")
    for i in np.flatnonzero((X == Y[:, :1]).all(axis=0)):
        found.append(f"input {i} equals the target: the target leaks")
    seen = {row.tobytes() for row in np.hstack([X, Y])[train]}
    repeats = sum(row.tobytes() in seen for row in np.hstack([X, Y])[test])
    if repeats * 100 >= len(test):
        found.append(f"{repeats} of {len(test)} test rows also stand in train")
    return found
