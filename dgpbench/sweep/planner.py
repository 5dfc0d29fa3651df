"""Plans from overrides in Hydra's sweep syntax: one composition per combination, then all splits."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from dgpbench.config import compose
from dgpbench.config.composition import plain_override
from dgpbench.config.derived import num_splits
from dgpbench.config.keys import run_key
from dgpbench.config.refusals import check_split
from dgpbench.config.schema import check_field
from dgpbench.config.tree import config_folders, groups, member, options
from dgpbench.errors import UserError
from dgpbench.machine import usable_cores
from dgpbench.sweep.combinations import composer
from dgpbench.sweep.hashes import Hashes, Note
from dgpbench.sweep.plan import Plan, Planned
from dgpbench.sweep.settings import settings_of

NOT_SWEPT = ("launcher", "tracker", "paths")
MOST = 1_000_000  # units of a sweep


def make_plan(
    overrides: Sequence[str],
    config_dirs: Sequence[str] = (),
    *,
    fetch: bool,
    note: Note,
    hashes: Hashes | None = None,
) -> Plan:
    """The units that `overrides` describe. With `fetch`, data that are not here yet are fetched once, now.

    `hashes` are those of several plans in common.
    """
    axes, splits, seeds = axes_of(overrides, config_folders(config_dirs))
    make = composer(axes, config_dirs)
    configs = [
        make([f"{name}={value}" for name, value in zip(axes, values, strict=True)])
        for values in product(*axes.values())
    ]
    jobs = [(cfg, splits_of(splits, cfg), seeds or [cfg["seed"]]) for cfg in configs]
    return plan_units(overrides, jobs, fetch=fetch, note=note, hashes=hashes)


def plan_units(
    command: Sequence[str],
    jobs: Sequence[tuple[dict, Sequence[int], Sequence[int]]],
    *,
    fetch: bool = True,
    note: Note = lambda text: None,
    hashes: Hashes | None = None,
) -> Plan:
    """The plan of `jobs`, each a config with its splits and seeds. `command` is for people to read."""
    planned: dict[str, Planned] = {}
    hashes = hashes or Hashes(fetch, note)
    configs = [dict(cfg) for cfg, _, _ in jobs]  # their threads are set below; what was composed stays
    data = [hashes.of(cfg) for cfg in configs]
    repeated = 0
    for number, ((cfg, splits, seeds), data_hash) in enumerate(zip(jobs, data, strict=True)):
        for split in splits:
            for seed in seeds:
                key = run_key(cfg | {"split": split, "seed": seed}, data_hash)
                repeated += key in planned
                planned.setdefault(key, Planned(number, split, seed, key))
    if repeated:
        note(f"{repeated} units would repeat others (same numbers); each runs once")
    units = list(planned.values())
    _give_threads(configs, len(units))
    return Plan(os.getcwd(), list(command), configs, data, units)


def axes_of(overrides: Sequence[str], folders: Sequence[Path]) -> tuple[dict, list[int] | None, list[int]]:
    """Values by override name, and those of split (None: all of the protocol) and seed, which need no
    composition."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    parser, known = OverridesParser.create(), groups(folders)
    axes: dict[str, list[str]] = {}
    for text in map(plain_override, overrides):
        try:
            override = parser.parse_override(text)
        except HydraException:
            compose([text])  # explains what is wrong with it
            raise
        name = override.key_or_group
        if name in axes:
            raise UserError(f"'{name}' is given twice; list its values: {name}=a,b")
        axes[name] = values_of(override, text, tuple(options(name, folders)) if name in known else ())
        if len(axes[name]) > 1 and name.split(".")[0] in NOT_SWEPT:
            raise UserError(
                f"'{text}' cannot be swept; one sweep has one launcher, tracker and results folder"
            )
    splits = axes.pop("split", ["all"])
    if "all" in splits and len(splits) > 1:
        raise UserError("split=all stands alone; it means every split of the protocol")
    numbers = None if splits == ["all"] else whole_numbers("split", splits)
    seeds = whole_numbers("seed", axes.pop("seed", []))
    _check_size(math.prod(map(len, axes.values())) * len(splits) * max(1, len(seeds)))
    return axes, numbers, seeds


def _check_size(units: int) -> None:
    if units > MOST:
        raise UserError(
            f"{units:,} combinations are too many for one sweep; at most {MOST:,}: shorten its lists"
        )


def values_of(override, text: str, names: Sequence[str]) -> list[str]:
    from hydra.core.override_parser.types import Glob, Transformer

    if override.is_sweep_override() and isinstance(override.value(), Glob):
        found = override.value().filter(list(names))
        if not found:
            raise UserError(f"'{text}' matches nothing; glob() is for groups such as model and dataset")
        return found
    if override.is_sweep_override() and not (override.is_discrete_sweep()):
        raise UserError(f"'{text}' has no list of values; use name=a,b,c or name=range(0,10)")
    if override.is_range_sweep():
        _check_size(length := _length(override.value()))
        if not length:
            raise UserError(
                f"'{text}' holds no value; range(a,b) goes from a up to b - 1, so a must be below b"
            )
    if override.is_sweep_override():
        found = [str(value) for value in override.sweep_iterator(transformer=Transformer.encode)]
    else:
        found = [text.partition("=")[2]]
    return list(dict.fromkeys(member(override.key_or_group, value, names) for value in found))


def _length(values) -> int:
    """How many values a range has, without listing them."""
    if not values.step:
        return 0
    return max(0, math.ceil((values.stop - values.start) / values.step))


def whole_numbers(name: str, values: Sequence[str]) -> list[int]:
    from dgpbench.config.schema import TOP

    numbers = []
    for value in values:
        if not value.strip().lstrip("-").isdecimal():
            extra = ", or all" if name == "split" else ""
            span = re.fullmatch(r"(\d+)(?:-|\.\.|:)(\d+)", value)
            extra += f"; for several write {name}=range({span[1]},{int(span[2]) + 1})" if span else ""
            raise UserError(f"{name}={value} is not allowed; {name} must be a whole number{extra}")
        numbers.append(check_field(name, int(value), TOP[name]))
    return numbers


def splits_of(numbers: list[int] | None, cfg: dict) -> Sequence[int]:
    if numbers is None:
        return range(num_splits(cfg["dataset"], cfg["protocol"]))
    for number in numbers:
        check_split(number, cfg["dataset"], cfg["protocol"])
    return numbers


def _give_threads(configs: list[dict], units: int) -> None:
    """Threads of each unit, fixed by the plan and not by what is left of it: numbers depend on them."""
    for cfg in configs:
        settings = settings_of(cfg)
        wanted = cfg["threads"] or settings.cpus
        if wanted is None:
            workers = min(settings.workers or usable_cores(), usable_cores(), max(units, 1))
            wanted = max(1, usable_cores() // workers)
        cfg["threads"] = wanted
