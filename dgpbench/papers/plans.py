"""Plans of cells: the few facts that a table takes from a composed config, kept beside the composed configs
in the user's cache folder, so that nothing is composed to show a table again.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from dgpbench.config import remembered
from dgpbench.config.keys import config_key
from dgpbench.config.tree import config_folders

KEY = re.compile(r"[0-9a-f]{64}")


class Plan(NamedTuple):
    """Sections of a config, and config_keys by the data that stand in for its own."""

    dataset: dict
    protocol: dict
    keys: dict[str, str]


@lru_cache(maxsize=4096)
def plan_of(words: tuple[str, ...], config_dirs: tuple[str, ...] = ()) -> Plan:
    """The plan of a cell with these settings of `dgpbench run`; UserError if they do not compose."""
    known = remembered.recall_facts(words, _folders(config_dirs))
    if known is not None and (plan := _checked(known)) is not None:
        return plan
    cfg = _composed(words, config_dirs)
    plan = Plan(cfg["dataset"], cfg["protocol"], {})
    _remember(words, config_dirs, plan)
    return plan


@lru_cache(maxsize=8192)
def cell_key(words: tuple, config_dirs: tuple, dataset: tuple, data_hash: str) -> str:
    """The config_key of a cell. Composed once per experiment: of the dataset only keys.DATA_FIELDS matter."""
    plan, which = plan_of(words, config_dirs), json.dumps([dataset, data_hash])
    if which not in plan.keys:
        data = {name: list(v) if isinstance(v, tuple) else v for name, v in dataset}
        plan.keys[which] = config_key({**_composed(words, config_dirs), "dataset": data}, data_hash)
        _remember(words, config_dirs, plan)
    return plan.keys[which]


def _remember(words: tuple, config_dirs: tuple, plan: Plan) -> None:
    if "path" not in plan.dataset:  # what a user's own file holds may change
        remembered.remember_facts(words, _folders(config_dirs), plan._asdict())


def _checked(known: dict) -> Plan | None:
    """The plan that was kept; None if it has not the shape of one."""
    try:
        plan = Plan(**known)
        sections = isinstance(plan.dataset, dict) and isinstance(plan.protocol, dict)
        whole = isinstance(plan.dataset["name"], str) and isinstance(plan.protocol["splits"], int)
        return plan if sections and whole and all(map(KEY.fullmatch, plan.keys.values())) else None
    except (TypeError, KeyError, AttributeError):
        return None


@lru_cache(maxsize=4096)
def _composed(words: tuple[str, ...], config_dirs: tuple[str, ...]) -> dict:
    from dgpbench.config import compose

    return compose(words, config_dirs)


@lru_cache(maxsize=8)
def _folders(config_dirs: tuple[str, ...]) -> tuple[Path, ...]:
    return tuple(config_folders(config_dirs))
