"""Plans from overrides in Hydra's sweep syntax: one composition per combination, then all splits."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

from dgpbench.config import compose
from dgpbench.config.composition import plain_override
from dgpbench.config.keys import run_key
from dgpbench.config.protocol import check_split, num_splits
from dgpbench.config.schema import check_field
from dgpbench.config.tree import config_folders, groups, options
from dgpbench.errors import UserError
from dgpbench.machine import usable_cores
from dgpbench.sweep.combinations import composer
from dgpbench.sweep.plan import Plan, Planned
from dgpbench.sweep.settings import settings_of

NOT_SWEPT = ("launcher", "paths")
UNKNOWN_HASH = "0" * 64
Note = Callable[[str], None]


def make_plan(overrides: Sequence[str], config_dirs: Sequence[str] = (), *, fetch: bool, note: Note) -> Plan:
    """The units that `overrides` describe. With `fetch`, data that are not here yet are fetched once, now."""
    axes, splits, seeds = axes_of(overrides, config_folders(config_dirs))
    make = composer(axes, config_dirs)
    configs = [
        make([f"{name}={value}" for name, value in zip(axes, values, strict=True)])
        for values in product(*axes.values())
    ]
    jobs = [(cfg, splits_of(splits, cfg), seeds or [cfg["seed"]]) for cfg in configs]
    return plan_units(overrides, jobs, fetch=fetch, note=note)


def plan_units(
    command: Sequence[str],
    jobs: Sequence[tuple[dict, Sequence[int], Sequence[int]]],
    *,
    fetch: bool = True,
    note: Note = lambda text: None,
) -> Plan:
    """The plan of `jobs`, each a config with its splits and seeds. `command` is for people to read."""
    planned: dict[str, Planned] = {}
    hashes: dict[str, str] = {}
    configs = [dict(cfg) for cfg, _, _ in jobs]  # their threads are set below; what was composed stays
    data = [_data_hash(cfg, hashes, fetch, note) for cfg in configs]
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
        axes[name] = values_of(override, text, options(name, folders) if name in known else ())
        if len(axes[name]) > 1 and name.split(".")[0] in NOT_SWEPT:
            raise UserError(f"'{text}' cannot be swept; one sweep has one launcher and one results folder")
    splits = axes.pop("split", ["all"])
    if "all" in splits and len(splits) > 1:
        raise UserError("split=all stands alone; it means every split of the protocol")
    numbers = None if splits == ["all"] else whole_numbers("split", splits)
    return axes, numbers, whole_numbers("seed", axes.pop("seed", []))


def values_of(override, text: str, names: Sequence[str]) -> list[str]:
    from hydra.core.override_parser.types import Glob, Transformer

    if override.is_sweep_override() and isinstance(override.value(), Glob):
        found = override.value().filter(list(names))
        if not found:
            raise UserError(f"'{text}' matches nothing; glob() is for groups such as model and dataset")
        return found
    if override.is_sweep_override() and not (override.is_discrete_sweep()):
        raise UserError(f"'{text}' has no list of values; use name=a,b,c or name=range(0,10)")
    if override.is_sweep_override():
        found = [str(value) for value in override.sweep_iterator(transformer=Transformer.encode)]
        return list(dict.fromkeys(found))
    return [text.partition("=")[2]]


def whole_numbers(name: str, values: Sequence[str]) -> list[int]:
    from dgpbench.config.schema import TOP

    numbers = []
    for value in values:
        if not value.strip().lstrip("-").isdecimal():
            extra = ", or all" if name == "split" else ""
            raise UserError(f"{name}={value} is not allowed; {name} must be a whole number{extra}")
        numbers.append(check_field(name, int(value), TOP[name]))
    return numbers


def splits_of(numbers: list[int] | None, cfg: dict) -> Sequence[int]:
    if numbers is None:
        return range(num_splits(cfg["dataset"], cfg["protocol"]))
    for number in numbers:
        check_split(number, cfg["dataset"], cfg["protocol"])
    return numbers


def _data_hash(cfg: dict, known: dict[str, str], fetch: bool, note: Note) -> str:
    """The hash of the data of a config, read from the cache; `known` spares a second look."""
    from dgpbench.data.cache import key_of

    name = key_of([cfg["dataset"], cfg["protocol"]["split_rule"], cfg["protocol"]["row_number"]])
    if name not in known:
        known[name] = _look_up(cfg, fetch, note)
    return known[name]


def _look_up(cfg: dict, fetch: bool, note: Note) -> str:
    from dgpbench.data.cache import check_cache, load_data, load_recipe
    from dgpbench.data.catalogue import entry_from_config
    from dgpbench.data.load import recipe_for

    entry = entry_from_config(cfg["dataset"])
    if entry.on_demand:
        return load_data(entry, cfg["paths"]).data_hash
    recipe = recipe_for(entry, cfg["paths"], cfg["protocol"])
    expected = recipe.expect.get("data_sha256")
    meta, _ = check_cache(recipe)
    if meta is not None:
        return meta["data_hash"]
    if not fetch and entry.kind in ("file", "images"):
        if not expected:
            note(f"{entry.name} is not fetched yet: whether its units are done cannot be known")
        return expected or UNKNOWN_HASH
    try:
        return load_recipe(recipe, entry.name, note).data_hash
    except UserError as error:
        if not expected:
            raise
        note(f"{entry.name}: {error}; its units will be recorded as failed unless the data turn up")
        return expected


def _give_threads(configs: list[dict], units: int) -> None:
    """Threads of each unit, fixed by the plan and not by what is left of it: numbers depend on them."""
    for cfg in configs:
        settings = settings_of(cfg)
        wanted = cfg["threads"] or settings.cpus
        if wanted is None:
            workers = min(settings.workers or usable_cores(), usable_cores(), max(units, 1))
            wanted = max(1, usable_cores() // workers)
        cfg["threads"] = wanted
