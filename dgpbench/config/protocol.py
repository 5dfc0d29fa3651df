"""Splits: how many a dataset has under a protocol, known without reading data."""

from __future__ import annotations

from dgpbench.config.schema import NUMBERS
from dgpbench.errors import UserError

FOR_CLASSES = ("matthews2016",)  # protocols


def is_trial(cfg: dict) -> bool:
    """Whether a config is that of a tuning trial, which never looks at test rows."""
    return (cfg.get("protocol") or {}).get("evaluate") == "validation"


def check_task(protocol: dict, dataset: str, task: str) -> None:
    """UserError if the protocol is not for this task."""
    if protocol["name"] in FOR_CLASSES and task in NUMBERS:
        raise UserError(
            f"protocol={protocol['name']} is for classification and the task of {dataset} is {task}; use "
            "protocol=clean, or a dataset with classes"
        )


def own_test(dataset: dict, protocol: dict) -> bool:
    """True if the dataset's own train/test division is used."""
    fixed = protocol.get("fixed_test", True) and protocol["split_rule"] != "published"
    return dataset.get("train_rows") is not None and fixed


def num_splits(dataset: dict, protocol: dict) -> int:
    """Number of splits: the protocol's, or 1 where the dataset has test rows of its own (seeds may vary)."""
    if own_test(dataset, protocol) and protocol["split_rule"] == "shuffle":
        return 1
    return protocol["splits"]


def check_split(split: int, dataset: dict, protocol: dict) -> None:
    """UserError if there is no such split."""
    splits = num_splits(dataset, protocol)
    if isinstance(split, int) and not isinstance(split, bool) and 0 <= split < splits:
        return
    if splits < protocol["splits"]:
        raise UserError(
            f"split={split} is out of range; dataset {dataset['name']} has test rows of its own: split 0 "
            "only (protocol.fixed_test=false draws random ones)"
        )
    raise UserError(
        f"split={split} is out of range; protocol {protocol['name']} has splits 0 to {splits - 1}"
    )
